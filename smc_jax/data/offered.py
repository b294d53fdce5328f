"""Tables of what is offered: when entries are closed, and what they cost."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.checks import can_be_cost
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
from smc_jax.data.features import MISSING, Lines, read_lines
from smc_jax.data.ratings import DataError
from smc_jax.data.table import parse_number

CALENDAR = ["row", "column", "first", "last"]
COSTS = (["row", "cost"], ["column", "cost"], ["row", "column", "cost"])


def read_calendar(
    path: str | PathLike[str], row_ids: Ids, column_ids: Ids
) -> list[tuple[int | None, int | None, int, int]]:
    """Closures (row, column, first pick, last pick) by index, from a table.

    Its first line is `row,column,first,last`. An empty row means every row, an empty column every
    column. Picks are counted from 0. A line of an id that is not wanted is passed over.

    Args:
      path: the file.
      row_ids: those of the matrix, in its order; they are compared as texts.
      column_ids: the same of the columns.
    """
    (_, header), *lines = even_lines(read_lines(Path(path)))
    if sides_named(header) != CALENDAR:
        raise DataError(f"{path}: the first line must be {','.join(CALENDAR)}")
    sides = [numbers_of(ids) for ids in (row_ids, column_ids)]
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
    names: tuple[str, str] = SIDES,
) -> np.ndarray:
    """Costs that broadcast against [D, N], by the ids of rows and columns, from a file.

    The file is a text (also gzipped) with commas, tabs or semicolons, or a `.parquet` file. Its
    first line is `row,cost`, `column,cost` or `row,column,cost`; or it is a matrix with ids on both
    sides, lines for rows or for columns. A matrix whose first cell names a row or a column has that
    side below it. Every row, column or entry that is needed must have its cost; the others may be
    NaN.

    Args:
      path: the file.
      row_ids: those of the matrix, in its order; they are compared as texts.
      column_ids: those of the matrix, in its order.
      needed: [D, N] bool, the entries whose costs are needed; None: all of them.
      names: what the first line may also call a row and a column.
    """
    lines = read_lines(Path(path))
    return costs_of(lines, str(path), row_ids, column_ids, needed=needed, names=names)


def costs_of(
    lines: Lines,
    source: str,
    row_ids: Ids,
    column_ids: Ids,
    *,
    needed: np.ndarray | None = None,
    names: tuple[str, str] = SIDES,
) -> np.ndarray:
    """The costs that `read_costs` has, from lines that were read before.

    Args:
      lines: of the table, each with its place.
      source: what errors call the table.
      row_ids: those of the matrix, in its order.
      column_ids: those of the matrix, in its order.
      needed: [D, N] bool, the entries whose costs are needed; None: all of them.
      names: what the first line may also call a row and a column.
    """
    lines = even_lines(lines)
    header = sides_named(lines[0][1], names)
    sides = {side: numbers_of(ids) for side, ids in zip(SIDES, (row_ids, column_ids), strict=True)}
    if header in COSTS:
        named_sides = header[:-1]
        cells = _long_cells(lines[1:], named_sides)
    elif header[-1:] == ["cost"]:
        told = " or ".join(",".join(one) for one in COSTS)
        raise DataError(f"{source}: the first line must be {told}")
    else:
        named_sides = [*SIDES]
        cells = matrix_cells(lines, _is_turned(lines, header[0], source, sides))
    shape = [len(sides[side]) if side in named_sides else 1 for side in SIDES]
    found = np.full(shape, np.nan)
    for row, column, text, place in cells:
        named = dict(zip(SIDES, (row, column), strict=True))
        if text.lower() in MISSING or any(named[one] not in sides[one] for one in named_sides):
            continue
        at = tuple(sides[one][named[one]] if one in named_sides else 0 for one in SIDES)
        if not np.isnan(found[at]):
            ids = ", ".join(named[one] for one in named_sides)
            raise DataError(f"{place}: {ids} has a cost already")
        found[at] = _positive(parse_number(text, place), place)
    alike = tuple(axis for axis, size in enumerate(shape) if size == 1)
    needed = np.ones([len(sides[side]) for side in SIDES], bool) if needed is None else needed
    missing = np.argwhere(np.isnan(found) & needed.any(alike, keepdims=True))
    if len(missing):
        first = dict(zip(SIDES, missing[0], strict=True))
        told = ", ".join(f"{side} {list(sides[side])[first[side]]}" for side in named_sides)
        raise DataError(f"{source}: no cost of {told}, and of {len(missing)} in all")
    return found


def _long_cells(lines: Lines, named_sides: Sequence[str]) -> Iterator[Cell]:
    """Row, column, cost and place of each line; a side that the table does not have is empty."""
    for place, (*ids, text) in lines:
        named = dict(zip(named_sides, ids, strict=True))
        row, column = (named.get(side, "") for side in SIDES)
        yield row, column, text, place


def _is_turned(lines: Lines, corner: str, source: str, sides: Mapping[str, Iterable[str]]) -> bool:
    """Whether the lines of a matrix are of columns; refused where it does not have every id."""
    (place, (_, *upper)), *rest = lines
    below = {fields[0] for _, fields in rest}

    def fits(side: str, ids: Container[str]) -> bool:
        return all(name in ids for name in sides[side])

    ways = ((below, {*upper}), ({*upper}, below))
    straight, turned = (all(map(fits, SIDES, way)) for way in ways)
    found = is_turned(corner, straight, turned, place, "cost")
    if not (turned if found else straight):
        row, column = (next(iter(sides[side])) for side in SIDES)
        raise DataError(
            f"{source}: no matrix of costs with every id of the rows and columns, such as {row}"
            f" and {column}, nor a table whose first line is {','.join(COSTS[-1])}"
        )
    return found


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
