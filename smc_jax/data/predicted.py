"""Predictions of the values from elsewhere, by ids: a docking score, another model's output."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smc_jax.data.by_id import (
    SIDES,
    Cell,
    Ids,
    even_lines,
    is_turned,
    matrix_cells,
    numbers_of,
    sides_named,
)
from smc_jax.data.features import LARGEST, MISSING, Lines, read_lines
from smc_jax.data.ratings import DataError
from smc_jax.data.table import parse_number

VALUE = "prediction"


class PredictedCells(NamedTuple):
    """What a table predicts, cell by cell, of whichever ids."""

    rows: list[str]  # [n]
    columns: list[str]  # [n]
    values: np.ndarray  # [n] float64


def read_prediction(
    path: str | PathLike[str], row_ids: Ids, column_ids: Ids, *, names: tuple[str, str] = SIDES
) -> np.ndarray:
    """The predictions [D, N] of the entries of a matrix, NaN where there is none.

    A text (also gzipped) with commas, tabs or semicolons, or a `.parquet` file; its first line has
    names. It is a matrix where that line has ids of columns, or ids of rows: its lines are then the
    other side. Else it must have three columns: row, column and prediction, or column, row and
    prediction. Which side comes first is what the first line says; where it has other names, the
    side with which more entries are found. A cell that is empty or a mark such as NA predicts
    nothing; cells of other ids are passed over.

    Args:
      path: the file.
      row_ids: of the matrix, compared as texts.
      column_ids: of the matrix.
      names: what the first line may also call a row and a column.
    """
    rows, columns = numbers_of(row_ids), numbers_of(column_ids)
    found = np.full((len(rows), len(columns)), np.nan)
    for row, column, text, place in _cells(path, rows, columns, names):
        if row in rows and column in columns:
            at = rows[row], columns[column]
            if not np.isnan(found[at]):
                raise DataError(_twice(place))
            found[at] = _number(text, place)
    if np.isnan(found).all():
        raise DataError(_nothing(path, rows, columns))
    return found


def read_predicted_cells(
    path: str | PathLike[str], row_ids: Ids, column_ids: Ids, *, names: tuple[str, str] = SIDES
) -> PredictedCells:
    """What a file predicts, cells of other ids included; refused where all of them are.

    Args:
      path: of a table as `read_prediction` takes it.
      row_ids: the rows that there are, by which a matrix is read the right way round.
      column_ids: the columns that there are.
      names: what the first line may also call a row and a column.
    """
    rows, columns = numbers_of(row_ids), numbers_of(column_ids)
    if not rows or not columns:
        raise DataError(f"{path}: there are no rows and columns yet that it could be of")
    found: dict[tuple[str, str], float] = {}
    some = False
    for row, column, text, place in _cells(path, rows, columns, names):
        if (row, column) in found:
            raise DataError(_twice(place))
        found[row, column] = _number(text, place)
        some = some or (row in rows and column in columns)
    if not some:
        raise DataError(_nothing(path, rows, columns))
    own, others = zip(*found, strict=True)
    return PredictedCells(list(own), list(others), np.array([*found.values()], float))


def _cells(
    path: str | PathLike[str],
    rows: Mapping[str, int],
    columns: Mapping[str, int],
    names: tuple[str, str],
) -> Iterator[Cell]:
    """The cells of a table that predict something, whichever way round it lies."""
    lines = even_lines(read_lines(Path(path)))
    (first, header), *rest = lines
    named = sides_named(header, names)
    is_long = len(header) == 3 and {*named[:2]} == {*SIDES}
    if not is_long and any(name in columns or name in rows for name in header[1:]):
        upper, lower = header[1:], [fields[0] for _, fields in rest]
        straight = _among(upper, columns) * _among(lower, rows)
        turned = _among(upper, rows) * _among(lower, columns)
        cells = matrix_cells(lines, is_turned(named[0], straight, turned, first, VALUE))
    elif len(header) == 3:
        cells = _long_cells(rest, rows, columns, _side_of_first(*named[:2]), first)
    else:
        raise DataError(
            f"{path}, line 1: neither ids of the matrix, such as {next(iter(columns))!r}, nor three"
            " columns: row, column and prediction"
        )
    for row, column, text, place in cells:
        if text.lower() in MISSING:
            continue
        if not row or not column:
            raise DataError(f"{place}: an id is empty")
        yield row, column, text, place


def _long_cells(
    lines: Lines, rows: Container[str], columns: Container[str], said: str, first: str
) -> Iterator[Cell]:
    """The cells of three columns, the first of which is of the side `said` where that is one."""
    straight = sum(one in rows and other in columns for _, (one, other, _) in lines)
    turned = sum(other in rows and one in columns for _, (one, other, _) in lines)
    swap = is_turned(said, straight, turned, first, VALUE)
    for place, (one, other, text) in lines:
        yield (other, one, text, place) if swap else (one, other, text, place)


def _side_of_first(one: str, other: str) -> str:
    """The side that the first of two names is of, by either of them; empty where none says it."""
    other_side = dict(zip(SIDES, reversed(SIDES), strict=True))
    said = {one if one in SIDES else "", other_side.get(other, "")} - {""}
    return said.pop() if len(said) == 1 else ""


def _among(names: Sequence[str], ids: Container[str]) -> int:
    return sum(name in ids for name in names)


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
