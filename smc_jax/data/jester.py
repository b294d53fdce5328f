"""Jester dataset 1: 100 jokes rated from -10 to 10, on a continuous scale."""

import io
from os import PathLike
from pathlib import Path

import numpy as np
import xlrd

from smc_jax.data.ratings import DataError, Ratings
from smc_jax.data.table import parse_number, read_bytes, split_lines

JOKES = 100
BOUNDS = (-10.0, 10.0)
MISSING = 99.0  # 0 is a rating
WORKBOOK = "jester-data-1.xls"


def read_jester(path: str | PathLike[str]) -> Ratings:
    """Ratings of the publisher's workbook, or of an export of it as CSV; one line is one user.

    Jokes are the rows, with ids from 1, users the columns, with their line's rank as id.

    Args:
      path: the publisher's zip, the `.xls` in it, or a CSV without header, plain or gzipped.
    """
    data, source = read_bytes(Path(path), WORKBOOK)
    if source.endswith(".xls"):
        lines, table = _parse_workbook(data, source)
    else:
        lines, table = _parse_text(data, source)
    counts, ratings = table[:, 0], table[:, 1:]
    rated = ratings != MISSING
    low, high = BOUNDS
    wrong = rated & ~((ratings >= low) & (ratings <= high))  # a NaN is wrong as well
    if wrong.any():
        user, joke = np.argwhere(wrong)[0]
        raise DataError(
            f"{source}, line {lines[user]}: rating {ratings[user, joke]:g} of joke {joke + 1} "
            f"is outside {low:g} to {high:g} and not {MISSING:g}"
        )
    if (miscounted := counts != rated.sum(1)).any():
        user = int(np.argmax(miscounted))
        raise DataError(
            f"{source}, line {lines[user]}: {rated[user].sum()} jokes are rated, "
            f"but the first column says {counts[user]:g}"
        )
    row, column = np.nonzero(rated.T)
    return Ratings(
        row.astype(np.int32),
        column.astype(np.int32),
        ratings[column, row].astype(np.float32),
        np.arange(1, JOKES + 1),
        np.arange(1, len(ratings) + 1),
        BOUNDS,
    )


def _parse_workbook(data: bytes, source: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        # Without a log file of its own xlrd prints its remarks.
        book = xlrd.open_workbook(file_contents=data, logfile=io.StringIO(), ragged_rows=True)
        sheet = book.sheet_by_index(0)
    except Exception as error:  # xlrd lets every kind of error out of a damaged workbook
        reason = " ".join(str(error).split())
        raise DataError(f"{source}: not a whole .xls workbook: {reason}") from None
    table = np.empty((sheet.nrows, JOKES + 1))
    for i in range(sheet.nrows):
        _check_width(sheet.row_len(i), f"{source}, line {i + 1}")
        cells = sheet.row_values(i)
        for kind, cell in zip(sheet.row_types(i), cells, strict=True):
            if kind != xlrd.XL_CELL_NUMBER:
                raise DataError(f"{source}, line {i + 1}: {cell!r} is not a finite number")
        table[i] = cells
    if not len(table):
        raise DataError(f"{source}, line 1: the sheet is empty")
    return np.arange(1, len(table) + 1), table


def _parse_text(data: bytes, source: str) -> tuple[np.ndarray, np.ndarray]:
    """The number of each line that is not blank, and its numbers."""
    filled = [n for n, line in enumerate(data.split(b"\n"), 1) if line.strip(b"\r")]
    try:
        table = np.loadtxt(
            io.BytesIO(data), delimiter=",", comments=None, encoding="latin-1", ndmin=2
        )
        if table.shape[1] == JOKES + 1 and np.isfinite(table).all():
            return np.array(filled), table
    except ValueError:
        pass
    # Something is wrong, or quoted: find the line.
    lines, rows = [], []
    for line, fields in split_lines(data, source, ",", "utf-8"):
        place = f"{source}, line {line}"
        _check_width(len(fields), place)
        rows.append([parse_number(field.strip(), place) for field in fields])
        lines.append(line)
    return np.array(lines), np.array(rows)


def _check_width(width: int, place: str) -> None:
    if width != JOKES + 1:
        raise DataError(f"{place}: {width} columns, not {JOKES + 1}")
