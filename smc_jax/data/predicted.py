"""Predictions of the values from elsewhere, by ids: a docking score, another model's output."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smc_jax.data.features import LARGEST, MISSING, read_lines
from smc_jax.data.ratings import DataError
from smc_jax.data.table import parse_number


class PredictedCells(NamedTuple):
    """What a table predicts, cell by cell, of whichever ids."""

    rows: list[str]  # [n]
    columns: list[str]  # [n]
    values: np.ndarray  # [n] float64


def read_prediction(
    path: str | PathLike[str],
    row_ids: Sequence[object] | np.ndarray,
    column_ids: Sequence[object] | np.ndarray,
) -> np.ndarray:
    """The predictions [D, N] of the entries of a matrix, NaN where there is none.

    A text (also gzipped) with commas, tabs or semicolons, or a `.parquet` file; its first line has
    names. It is a matrix where that line has ids of columns, or ids of rows: its lines are then the
    other side. Else it must have three columns: row, column and prediction, or column, row and
    prediction, whichever finds more entries. A cell that is empty or a mark such as NA predicts
    nothing; cells of other ids are passed over.

    Args:
      path: the file.
      row_ids: of the matrix, compared as texts.
      column_ids: of the matrix.
    """
    rows, columns = _numbers_of(row_ids), _numbers_of(column_ids)
    found = np.full((len(rows), len(columns)), np.nan)
    for row, column, text, place in _cells(path, rows, columns):
        if row in rows and column in columns and text.lower() not in MISSING:
            at = rows[row], columns[column]
            if not np.isnan(found[at]):
                raise DataError(_twice(place))
            found[at] = _number(text, place)
    if np.isnan(found).all():
        raise DataError(_nothing(path, rows, columns))
    return found


def read_predicted_cells(
    path: str | PathLike[str],
    row_ids: Sequence[object] | np.ndarray,
    column_ids: Sequence[object] | np.ndarray,
) -> PredictedCells:
    """What a file predicts, cells of other ids included; refused where all of them are.

    Args:
      path: of a table as `read_prediction` takes it.
      row_ids: the rows that there are, by which a matrix is read the right way round.
      column_ids: the columns that there are.
    """
    rows, columns = _numbers_of(row_ids), _numbers_of(column_ids)
    if not rows or not columns:
        raise DataError(f"{path}: there are no rows and columns yet that it could be of")
    found: dict[tuple[str, str], float] = {}
    some = False
    for row, column, text, place in _cells(path, rows, columns):
        if not row or not column or text.lower() in MISSING:
            continue
        if (row, column) in found:
            raise DataError(_twice(place))
        found[row, column] = _number(text, place)
        some = some or (row in rows and column in columns)
    if not some:
        raise DataError(_nothing(path, rows, columns))
    own, others = zip(*found, strict=True)
    return PredictedCells(list(own), list(others), np.array([*found.values()], float))


def _cells(
    path: str | PathLike[str], rows: Mapping[str, int], columns: Mapping[str, int]
) -> Iterator[tuple[str, str, str, str]]:
    """Row, column, text and place of each cell of a table, whichever way round it lies."""
    (_, header), *lines = read_lines(Path(path))
    upper, lower = header[1:], [fields[0] for _, fields in lines]
    if any(name in columns or name in rows for name in upper):
        turned = _is_turned(upper, lower, rows, columns, f"{path}, line 1")
        if len(set(upper)) < len(upper):
            raise DataError(f"{path}, line 1: an id occurs twice")
        for place, (name, *cells) in lines:
            if len(cells) != len(upper):
                raise DataError(f"{place}: {len(cells) + 1} columns, not {len(header)}")
            for other, text in zip(upper, cells, strict=True):
                yield (other, name, text, place) if turned else (name, other, text, place)
    elif len(header) == 3:
        for place, fields in lines:
            if len(fields) != 3:
                raise DataError(f"{place}: {len(fields)} columns, not 3")
        there = sum(one in rows and other in columns for _, (one, other, _) in lines)
        swapped = sum(other in rows and one in columns for _, (one, other, _) in lines)
        for place, (one, other, text) in lines:
            yield (other, one, text, place) if swapped > there else (one, other, text, place)
    else:
        raise DataError(
            f"{path}, line 1: neither ids of the matrix, such as {next(iter(columns))!r}, nor three"
            " columns: row, column and prediction"
        )


def _numbers_of(ids: Sequence[object] | np.ndarray) -> dict[str, int]:
    return {str(one): i for i, one in enumerate(ids)}


def _is_turned(
    upper: Sequence[str],
    lower: Sequence[str],
    rows: Container[str],
    columns: Container[str],
    place: str,
) -> bool:
    """Whether the first line has ids of rows: the way in which more entries are found.

    Numeric ids may be those of rows and of columns.
    """

    def among(names: Sequence[str], ids: Container[str]) -> int:
        return sum(name in ids for name in names)

    straight = among(upper, columns) * among(lower, rows)
    turned = among(upper, rows) * among(lower, columns)
    if straight == turned > 0:
        raise DataError(
            f"{place}: its ids are those of rows and of columns alike; write three columns: row,"
            " column and prediction"
        )
    return turned > straight


def _number(text: str, place: str) -> float:
    """The number of a cell; refused where it is none, or too large."""
    value = parse_number(text, place)
    if abs(value) > LARGEST:
        raise DataError(f"{place}: {text[:20]!r} is too large a number")
    return value


def _twice(place: str) -> str:
    return f"{place}: the entry has a prediction already"


def _nothing(path: str | PathLike[str], rows: Iterable[str], columns: Iterable[str]) -> str:
    example = f"{next(iter(rows))!r} and {next(iter(columns))!r}"
    return f"{path}: predicts no entry of the matrix, whose ids are such as {example}"
