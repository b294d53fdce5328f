"""A practitioner's tables: values as a long or a wide table, lists of ids, and pairs of ids."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from smc_jax.campaign import cells
from smc_jax.campaign.types import COLUMN, ROW, CampaignError, Records

ROLES = (ROW, COLUMN, "value")
OPTIONS = ("rows", "columns", "value")
SAMPLE = 1000  # lines from which a layout is recognised
# A value, also one that is refused, such as 4.5 uM; but not ids such as 5-HT2A or 50-78-2.
LIKE_VALUE = re.compile(r"[<>≤≥~≈=#]|[+\u2212-]?(\d|[.,]|[eE][+-]?\d)+\s*(%|$|[^\W\d]+$|\s)")
NAMING = (
    "name its columns row, column and value, or tell their names when the campaign is made:"
    " smc-jax new --rows=... --columns=... --maximise=..., in Python rows=, columns=, value="
)


class Layout(NamedTuple):
    """Where a long table holds what: positions of its columns."""

    row: int
    column: int
    value: int
    status: int | None


def read_records(
    path: str | os.PathLike[str],
    *,
    rows: str | None = None,
    columns: str | None = None,
    value: str | None = None,
    names: tuple[str, str, str] = ROLES,
    statuses: bool = True,
) -> Records:
    """What a table says: a CSV, TSV or semicolon file, also gzipped, or a Parquet file.

    A long table has a first line of names and then one line an entry. Its columns are found by
    `rows`, `columns` and `value`, then by `names`, then by the names row, column and value. If
    neither the column ids nor the values are found by name, and there are three columns besides
    `status`, the one column of numbers holds the values; where the last column is one of several
    such columns, or there is none, the order is row, column, value.

    A wide table, a matrix, has column ids in its first line and a row id at the start of every
    other line. A table of three columns and without known names is wide if its first cell is
    empty, or if its last two columns hold numbers, no row id occurs twice, and the second column
    holds a number that is not whole. It is long if the last two columns hold numbers, those of the
    second are whole, and a row id occurs twice. A table of more columns is wide if the cells are
    values and no row id occurs twice, or the first cell is empty. All others are refused.

    Args:
      path: the file.
      rows: name of the column with row ids; refused where a long table has no such column.
      columns: name of the column with column ids; refused where there is none.
      value: name of the column with values; refused where there is none.
      names: what a campaign calls a row, a column and a value; taken where the table has them.
      statuses: whether a column `status`, and words such as failed in a cell, are understood.
    """
    grid = _drop_empty_columns(cells.read_grid(path))
    width = len(grid.cells[0])
    if len(grid.cells) == 1:
        raise CampaignError(f"{grid.place(0)}: no line follows the first one: add lines to it")
    if width == 1 or (width == 2 and grid.cells[0][0]):
        fix = "write row, column and value, with a comma, a tab or a semicolon between them"
        raise CampaignError(f"{grid.place(0)}: {width} column(s), not three or more: {fix}")
    layout = _find_layout(grid, (rows, columns, value), names, statuses)
    if layout is not None and tuple(names) != ROLES:
        _check_value_name(grid, layout, names[2])
    return _read_wide(grid, statuses) if layout is None else _read_long(grid, layout, statuses)


def _drop_empty_columns(grid: cells.Grid) -> cells.Grid:
    """The grid without columns that have neither a name nor any cell, which spreadsheets add."""
    header = grid.cells[0]
    kept = [j for j, name in enumerate(header) if name or any(fields[j] for fields in grid.cells)]
    if len(kept) < len(header):
        grid = grid._replace(cells=[tuple(fields[j] for j in kept) for fields in grid.cells])
    return grid


def _find_layout(
    grid: cells.Grid, given: Sequence[str | None], names: Sequence[str], statuses: bool
) -> Layout | None:
    """Where a long table holds what; None for a wide table."""
    header, place = grid.cells[0], grid.place(0)
    found: list[int | None] = [None, None, None]
    absent = []
    for k, name in enumerate(given):
        if name is not None:
            found[k] = _find((name,), header, place, found)
            if found[k] is None:
                absent.append(f"{OPTIONS[k]}={cells.show(name)} names no column of its own")
    status = _find(("status",), header, place, found) if statuses else None
    if absent:
        with suppress(CampaignError):  # a matrix: the names are those of its sides
            if found[1:] == [None, None] and _guess_layout(grid, found[0], status) is None:
                return None
        raise CampaignError(f"{place}: {absent[0]}: choose from {_list_names(header)}")
    for k in range(3):
        if found[k] is None:
            found[k] = _find((names[k], ROLES[k]), header, place, [*found, status])
    missing = [k for k in range(3) if found[k] is None]
    free = [j for j, name in enumerate(header) if name and j != status and j not in found]
    # A name for the rows alone may also stand in the corner of a matrix.
    if missing[-2:] == [1, 2]:
        return _guess_layout(grid, found[0], status)
    if missing and len(free) != len(missing):
        unclear = " and ".join(OPTIONS[k] for k in missing)
        raise CampaignError(f"{place}: no column is known to hold the {unclear}: {NAMING}")
    if 2 in missing:
        found[2] = _find_value(grid, free)
        free = [j for j in free if j != found[2]]
    row, column, value = (free.pop(0) if j is None else j for j in found)
    return Layout(row, column, value, status)


def _check_value_name(grid: cells.Grid, layout: Layout, name: str) -> None:
    """Refuses a column of values that is not called as the campaign calls it, nor value."""
    found = grid.cells[0][layout.value]
    if found.lower() not in (name.strip().lower(), ROLES[2]):
        raise CampaignError(
            f"{grid.place(0)}: no column {cells.show(name)}, but {cells.show(found)}: rename it, if"
            " it holds the values"
        )


def _list_names(names: Sequence[str]) -> str:
    shown = [cells.show(name or "(no name)") for name in names[:12]]
    return ", ".join(shown + ["..."] * (len(names) > 12))


def _find(
    names: Sequence[str], header: Sequence[str], place: str, taken: Sequence[int | None] = ()
) -> int | None:
    """The position of the first name there is, in capitals or not where that leaves no doubt."""
    for name in map(str.strip, names):
        same = [j for j, other in enumerate(header) if other == name]
        if len(same) > 1:
            raise CampaignError(f"{place}: two columns are named {cells.show(name)}: rename one")
        same = same or [j for j, other in enumerate(header) if other.lower() == name.lower()]
        if len(same) == 1 and same[0] not in taken:
            return same[0]
    return None


def _guess_layout(grid: cells.Grid, row: int | None, status: int | None) -> Layout | None:
    """The layout of a table in which no name tells the column ids or the values."""
    header, body = grid.cells[0], grid.cells[1:]
    corner, firsts = header[0], [fields[0] for fields in body]
    free = [j for j, name in enumerate(header) if name and j != status]
    titled = not any(map(cells.is_number, header))
    repeated = len(set(firsts)) < len(firsts)
    ids = (*header[1:], *firsts[:SAMPLE])
    decimal = any(cells.is_number(name) and not name.isdigit() for name in ids)
    # The numbers of the lines, which other programs write in front of a long table.
    counted = not corner and firsts[0] in ("0", "1") and not repeated and firsts[-1].isdigit()
    if len(free) == 3 and (corner or status is not None or (counted and titled)):
        worded = not all(_is_like_value(grid, j) for j in (free[1:] if corner else free))
        whole = all(fields[free[1]].isdigit() for fields in body[:SAMPLE]) and not decimal
        if titled and (status is not None or worded or (corner and repeated and whole)):
            value = _find_value(grid, [j for j in free if j != row])
            one, other = sorted((j for j in free if j != value), key=lambda j: j != row)
            return Layout(one, other, value, status)
        if whole:
            raise _unclear(grid)
    doubtful = corner and (repeated or decimal or cells.is_number(corner))
    valued = all(_is_like_value(grid, j) for j in range(1, len(header)))
    if doubtful or not valued or status is not None or row not in (None, 0):
        raise _unclear(grid)
    return None


def _unclear(grid: cells.Grid) -> CampaignError:
    corner = "empty" if grid.cells[0][0] else "write id into"
    return CampaignError(
        f"{grid.place(0)}: this may be a list of entries or a matrix of numbers: for a list, "
        f"{NAMING}; for a matrix, {corner} the first cell of the first line"
    )


def _is_like_value(grid: cells.Grid, j: int) -> bool:
    """Whether half of what a column says, or more, looks like values; words such as failed do."""
    texts = [fields[j] for fields in grid.cells[1 : SAMPLE + 1]]
    said = [text for text in texts if text.lower() not in cells.WORDS]
    return 2 * sum(map(bool, map(LIKE_VALUE.match, said))) >= len(said)


def _find_value(grid: cells.Grid, free: list[int]) -> int:
    """The column of values: the only one of numbers, or else the last."""
    numeric = [j for j in free if _is_like_value(grid, j)]
    if len(numeric) > 1 and free[-1] not in numeric:
        raise _unclear(grid)
    return numeric[0] if len(numeric) == 1 else free[-1]


def _read_long(grid: cells.Grid, layout: Layout, statuses: bool) -> Records:
    header, body = grid.cells[0], grid.cells[1:]

    def place(i: int) -> str:
        return grid.place(i + 1)

    rows, columns, texts = ([fields[j] for fields in body] for j in layout[:3])
    known = cells.check_ids(rows, ROW, place), cells.check_ids(columns, COLUMN, place)
    kinds, values, notes = cells.read_cells(texts, place, statuses, grid.delimiter)
    if layout.status is not None:
        kinds = cells.apply_statuses([fields[layout.status] for fields in body], kinds, place)
    names = [cells.show(header[j]) for j in layout[:3]]
    found = "Read as a long table: row ids in {}, column ids in {}, values in {}.".format(*names)
    ignored = [name for j, name in enumerate(header) if j not in layout]
    notes = [found, *notes]
    notes += [f"Columns that were ignored: {_list_names(ignored)}."] if ignored else []
    kept = [i for i, kind in enumerate(kinds) if kind]
    if unfilled := len(kinds) - len(kept):
        notes.append(f"{unfilled} {'line has' if unfilled == 1 else 'lines have'} no value yet.")
        rows, columns, kinds = ([texts[i] for i in kept] for texts in (rows, columns, kinds))
        values = values[kept]
    notes += _note_case(*known)
    own = {name: header[j] for name, j in zip(OPTIONS, layout[:3], strict=True) if header[j]}
    return Records(rows, columns, kinds, values, lambda i: place(kept[i]), *known, notes, own)


def _read_wide(grid: cells.Grid, statuses: bool) -> Records:
    column_ids, body = list(grid.cells[0][1:]), grid.cells[1:]
    width = len(column_ids)

    def place(i: int) -> str:
        return f"{grid.place(i // width + 1)}, column {cells.show(column_ids[i % width])}"

    row_of = [fields[0] for fields in body]
    row_ids = cells.check_ids(row_of, ROW, lambda i: grid.place(i + 1))
    cells.check_ids(column_ids, COLUMN, lambda i: grid.place(0))
    (twice, count), *_ = Counter(column_ids).most_common(1)
    if count > 1:
        raise CampaignError(f"{grid.place(0)}: two columns are named {twice[:40]!r}: rename one")
    texts = [text for fields in body for text in fields[1:]]
    kinds, values, notes = cells.read_cells(texts, place, statuses, grid.delimiter)
    kept = [i for i, kind in enumerate(kinds) if kind]
    rows, columns = [row_of[i // width] for i in kept], [column_ids[i % width] for i in kept]
    kinds, values, known = [kinds[i] for i in kept], values[kept], (row_ids, column_ids)
    found = f"Read as a wide table, a matrix: {len(row_ids)} row ids by {width} column ids."
    notes = [found, *notes, *_note_case(*known)]
    return Records(rows, columns, kinds, values, lambda i: place(kept[i]), *known, notes)


def _note_case(row_ids: list[str], column_ids: list[str]) -> list[str]:
    notes = []
    for axis, ids in ((ROW, row_ids), (COLUMN, column_ids)):
        first: dict[str, str] = {}
        pairs = [(first.setdefault(name.casefold(), name), name) for name in ids]
        alike = [f"{one} / {other}" for one, other in pairs if one != other]
        if alike:
            notes.append(f"Some {axis} ids differ only by case: {_list_names(alike)}.")
    return notes


def read_ids(path: str | os.PathLike[str], *, name: str = "id") -> list[str]:
    """The ids of a list, each once: one id a line, or the only column of a CSV or Parquet file.

    Args:
      path: the file; a line is cut into cells only where the name of the file holds .csv or .tsv.
      name: what the ids are of; a first line of `name`, id, row or column is a header.
    """
    cut = any(mark in os.path.basename(path).lower() for mark in (".csv", ".tsv"))
    # Text holds no NUL, so that every line is one cell.
    grid = _drop_empty_columns(cells.read_grid(path, delimiter=None if cut else "\0"))
    if len(grid.cells[0]) != 1:
        raise CampaignError(f"{grid.place(0)}: more than one column: keep the ids alone")
    titled = not grid.numbers[0] or grid.cells[0][0].lower() in (name.lower(), "id", ROW, COLUMN)
    ids = [fields[0] for fields in grid.cells[titled:]]
    if not ids:
        raise CampaignError(f"{grid.place(0)}: no id follows: write one id a line")
    return cells.check_ids(ids, name, lambda i: grid.place(i + titled))


def read_pairs(
    path: str | os.PathLike[str],
    *,
    rows: str | None = None,
    columns: str | None = None,
    partial: bool = False,
) -> list[tuple[str | None, str | None]]:
    """Pairs of a row id and a column id, each once.

    A first line that holds `rows`, row, `columns` or column is a header. Where it names both, other
    columns are ignored; else there are two columns, the row ids first.

    Args:
      path: the file.
      rows: name of the column with row ids, where there is a header.
      columns: name of the column with column ids, where there is a header.
      partial: whether one of the ids may be empty or *, which means all of them: None.
    """
    grid = cells.read_grid(path)
    header, place = grid.cells[0], grid.place(0)
    row = _find((rows or ROW, ROW), header, place)
    column = _find((columns or COLUMN, COLUMN), header, place)
    titled = row is not None or column is not None or not grid.numbers[0]
    if row is None or column is None:
        if len(header) != 2:
            raise CampaignError(f"{place}: {len(header)} column(s), not two: write row,column")
        row = 1 - column if column is not None else row or 0
        column = 1 - row
    pairs = []
    for i, fields in enumerate(grid.cells[titled:], int(titled)):
        one, other = (None if fields[j] in ("", "*") else fields[j] for j in (row, column))
        if (one, other).count(None) > partial:
            raise CampaignError(f"{grid.place(i)}: an id is empty: write a row id and a column id")
        cells.check_ids([name for name in (one, other) if name], "pair's", lambda _: grid.place(i))
        pairs.append((one, other))
    if not pairs:
        raise CampaignError(f"{place}: no pair follows: write one pair a line")
    return list(dict.fromkeys(pairs))
