"""Predictions of the values from elsewhere, by ids: a docking score, another model's output."""

from collections.abc import Container, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.data.features import LARGEST, MISSING, read_lines
from smc_jax.data.ratings import DataError
from smc_jax.data.table import parse_number


def read_prediction(
    path: str | PathLike[str],
    row_ids: Sequence[object] | np.ndarray,
    column_ids: Sequence[object] | np.ndarray,
) -> np.ndarray:
    """The predictions [D, N] of the entries of a matrix, NaN where there is none.

    A text (also gzipped) with commas, tabs or semicolons, or a `.parquet` file; its first line has
    names. It is a matrix where that line has ids of columns, or ids of rows: its lines are then the
    other side. Else it must have three columns: row, column and prediction. A cell that is empty or
    a mark such as NA predicts nothing; cells of other ids are passed over.

    Args:
      path: the file.
      row_ids: of the matrix, compared as texts.
      column_ids: of the matrix.
    """
    (_, header), *lines = read_lines(Path(path))
    rows, columns = ({str(one): i for i, one in enumerate(ids)} for ids in (row_ids, column_ids))
    found = np.full((len(rows), len(columns)), np.nan)
    upper, lower = header[1:], [fields[0] for _, fields in lines]
    if any(name in columns or name in rows for name in upper):
        turned = _is_turned(upper, lower, rows, columns, f"{path}, line 1")
        named, side = (columns, rows) if turned else (rows, columns)
        view = found.T if turned else found
        if len(set(header[1:])) < len(header) - 1:
            raise DataError(f"{path}, line 1: an id occurs twice")
        for place, (name, *cells) in lines:
            if len(cells) + 1 != len(header):
                raise DataError(f"{place}: {len(cells) + 1} columns, not {len(header)}")
            for other, text in zip(header[1:], cells, strict=True):
                if name in named and other in side:
                    _put(view, named[name], side[other], text, place)
    elif len(header) == 3:
        for place, fields in lines:
            if len(fields) != 3:
                raise DataError(f"{place}: {len(fields)} columns, not 3")
            if fields[0] in rows and fields[1] in columns:
                _put(found, rows[fields[0]], columns[fields[1]], fields[2], place)
    else:
        raise DataError(
            f"{path}, line 1: neither ids of the matrix, such as {next(iter(columns))!r}, nor three"
            " columns: row, column and prediction"
        )
    if np.isnan(found).all():
        example = f"{next(iter(rows))!r} and {next(iter(columns))!r}"
        raise DataError(f"{path}: predicts no entry of the matrix, whose ids are such as {example}")
    return found


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


def _put(matrix: np.ndarray, row: int, column: int, text: str, place: str) -> None:
    """Writes one prediction; refuses what is no number, and a second one of an entry."""
    if text.lower() in MISSING:
        return
    value = parse_number(text, place)
    if abs(value) > LARGEST:
        raise DataError(f"{place}: {text[:20]!r} is too large a number")
    if not np.isnan(matrix[row, column]):
        raise DataError(f"{place}: the entry has a prediction already")
    matrix[row, column] = value
