"""Tables of what is offered: when entries are closed, and what they cost."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.checks import can_be_cost
from smc_jax.data.ratings import DataError
from smc_jax.data.table import parse_number, read_bytes, split_lines
from smc_jax.data.wide import read_wide

Ids = Sequence[object] | np.ndarray
CALENDAR = ["row", "column", "first", "last"]
COSTS = (["row", "cost"], ["column", "cost"], ["row", "column", "cost"])


def read_calendar(
    path: str | PathLike[str], row_ids: Ids, column_ids: Ids
) -> list[tuple[int | None, int | None, int, int]]:
    """Closures (row, column, first pick, last pick) by index, from comma separated text.

    Its first line is `row,column,first,last`. An empty row means every row, an empty column every
    column. Picks are counted from 0. A line of an id that is not wanted is passed over.

    Args:
      path: the file.
      row_ids: those of the matrix, in its order; they are compared as texts.
      column_ids: the same of the columns.
    """
    header, lines = _lines(path)
    if header != CALENDAR:
        raise DataError(f"{path}: the first line must be {','.join(CALENDAR)}")
    sides = [_numbers_of(ids) for ids in (row_ids, column_ids)]
    found = []
    for place, fields in lines:
        first, last = (_whole(text, place) for text in fields[2:])
        if last < first:
            raise DataError(f"{place}: the last pick is before the first")
        if all(not text or text in known for text, known in zip(fields, sides, strict=False)):
            row, column = (
                known[text] if text else None for text, known in zip(fields, sides, strict=False)
            )
            found.append((row, column, first, last))
    if not found:
        raise DataError(f"{path}: no line is of the ids of the matrix, such as {row_ids[0]}")
    return found


def read_costs(
    path: str | PathLike[str],
    row_ids: Ids,
    column_ids: Ids,
    *,
    needed: np.ndarray | None = None,
    names: tuple[str, str] = ("row", "column"),
) -> np.ndarray:
    """Costs that broadcast against [D, N], by the ids of rows and columns.

    The file is comma separated text with a first line `row,cost`, `column,cost` or
    `row,column,cost`; or a matrix with ids on both sides, lines for rows or for columns. Every
    row, column or entry that is needed must have its cost; the others may be NaN.

    Args:
      path: the file.
      row_ids: those of the matrix, in its order; they are compared as texts.
      column_ids: the same of the columns.
      needed: [D, N] bool, the entries whose costs are needed; None: all of them.
      names: what the first line may also call a row and a column.
    """
    header, lines = _lines(path)
    known_as = dict(zip((name.strip().lower() for name in names), ("row", "column"), strict=True))
    header = [known_as.get(name, name) for name in header]
    if needed is None:
        needed = np.ones((len(row_ids), len(column_ids)), bool)
    sides = {"row": _numbers_of(row_ids), "column": _numbers_of(column_ids)}
    if header not in COSTS:
        if header[-1:] == ["cost"]:
            told = " or ".join(",".join(one) for one in COSTS)
            raise DataError(f"{path}: the first line must be {told}")
        return _wide_costs(path, list(sides["row"]), list(sides["column"]), needed)
    named_sides = header[:-1]
    shape = [len(sides[side]) if side in named_sides else 1 for side in sides]
    found = np.full(shape, np.nan)
    for place, (*ids, text) in lines:
        named = dict(zip(named_sides, ids, strict=True))
        if any(named[side] not in sides[side] for side in named_sides):
            continue
        at = [sides[side][named[side]] if side in named else 0 for side in sides]
        if not np.isnan(found[tuple(at)]):
            raise DataError(f"{place}: {', '.join(ids)} has a cost already")
        found[tuple(at)] = _positive(parse_number(text, place), place)
    alike = tuple(axis for axis, size in enumerate(shape) if size == 1)
    missing = np.argwhere(np.isnan(found) & needed.any(alike, keepdims=True))
    if len(missing):
        first = dict(zip(sides, missing[0], strict=True))
        told = ", ".join(f"{side} {list(sides[side])[first[side]]}" for side in named_sides)
        raise DataError(f"{path}: no cost of {told}, and of {len(missing)} in all")
    return found


def _wide_costs(
    path: str | PathLike[str], rows: list[str], columns: list[str], needed: np.ndarray
) -> np.ndarray:
    """The costs [D, N] of a matrix with ids on both sides, whichever way round it lies."""
    for turned in (False, True):
        table = read_wide(path, turned=turned)
        at = [_numbers_of(ids) for ids in (table.row_ids, table.column_ids)]
        if all(
            name in known for ids, known in zip((rows, columns), at, strict=True) for name in ids
        ):
            block = table.select([at[0][name] for name in rows], [at[1][name] for name in columns])
            costs, there = block.dense()
            if (needed & ~there).any():
                row, column = np.argwhere(needed & ~there)[0]
                raise DataError(f"{path}: no cost of row {rows[row]}, column {columns[column]}")
            for cost in (costs[there].min(), costs[there].max()):
                _positive(float(cost), str(path))
            return np.where(there, costs, np.nan)
    raise DataError(
        f"{path}: no matrix of costs with every id of the rows and columns, such as {rows[0]} and"
        f" {columns[0]}, nor a table whose first line is {','.join(COSTS[-1])}"
    )


def _lines(path: str | PathLike[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The names on the first line, and what follows, each line with its place."""
    data, source = read_bytes(Path(path))
    lines = [
        (f"{source}, line {number}", [text.strip() for text in fields])
        for number, fields in split_lines(data, source, ",", "utf-8")
    ]
    if len(lines) < 2:
        raise DataError(f"{source}: no line follows the first one")
    (_, header), *rest = lines
    for place, fields in rest:
        if len(fields) != len(header):
            raise DataError(f"{place}: {len(fields)} columns, not {len(header)}")
    return [name.lower() for name in header], rest


def _numbers_of(ids: Ids) -> dict[str, int]:
    return {str(name): number for number, name in enumerate(ids)}


def _whole(text: str, place: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise DataError(f"{place}: {text!r} is not the number of a pick, counted from 0")
    return int(text)


def _positive(cost: float, place: str) -> float:
    if cost <= 0:
        raise DataError(f"{place}: a cost must be positive, got {cost:g}")
    if not can_be_cost(cost):
        raise DataError(f"{place}: a cost must be a number of 32 bits, as 1 / cost, got {cost:g}")
    return cost
