"""A matrix with ids on both sides: comma separated text, plain or gzipped."""

from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.data.ratings import DataError, Ratings
from smc_jax.data.table import parse_number, read_bytes, split_lines

LARGEST = float(np.finfo(np.float32).max)


def read_wide(
    path: str | PathLike[str], *, turned: bool = False, encoding: str = "utf-8"
) -> Ratings:
    """Ratings from a matrix whose first line and first column hold the ids.

    An empty cell is an entry that does not exist. Rows and columns keep the order of the file, also
    those without any entry; ids are texts, just as written.

    Args:
      path: the file; what stands in its first cell is not read.
      turned: whether the lines of the file become columns, and its columns become rows.
      encoding: of the text.
    """
    data, source = read_bytes(Path(path))
    lines = split_lines(data, source, ",", encoding)
    first, header = next(lines)
    row_ids: dict[str, None] = {}  # in their order
    column_ids: dict[str, None] = {}
    for name in header[1:]:
        _add_id(column_ids, name.strip(), f"{source}, line {first}")
    if not column_ids:
        raise DataError(f"{source}, line {first}: no column follows that of the ids")
    cells = []
    for line, fields in lines:
        place = f"{source}, line {line}"
        if len(fields) != len(header):
            raise DataError(f"{place}: {len(fields)} columns, not {len(header)}")
        _add_id(row_ids, fields[0].strip(), place)
        named = zip(fields[1:], column_ids, strict=True)
        cells.append([_parse_cell(text.strip(), place, column) for text, column in named])
    if not cells:
        raise DataError(f"{source}, line {first + 1}: no row follows the header")
    matrix = np.array(cells)
    rows, columns = (np.array([*ids], object) for ids in (row_ids, column_ids))
    if turned:
        matrix, rows, columns = matrix.T, columns, rows
    exists = ~np.isnan(matrix)
    if not exists.any():
        raise DataError(f"{source}, line {first + 1}: every cell is empty")
    row, column = (index.astype(np.int32) for index in exists.nonzero())
    return Ratings(row, column, matrix[exists].astype(np.float32), rows, columns, None)


def _add_id(ids: dict[str, None], name: str, place: str) -> None:
    if not name:
        raise DataError(f"{place}: an id is empty")
    if name in ids:
        raise DataError(f"{place}: the id {name!r} occurs twice")
    ids[name] = None


def _parse_cell(text: str, place: str, column: str) -> float:
    """The number in a cell, NaN where the cell is empty."""
    if not text:
        return np.nan
    place = f"{place}, column {column!r}"
    value = parse_number(text, place)
    if abs(value) > LARGEST:  # it would turn infinite
        raise DataError(f"{place}: {text!r} is not a finite number")
    return value
