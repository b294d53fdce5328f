"""Answers: those that come from Python, several tables as one, and what is noted of a tell."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from smc_jax.campaign.log import Added
from smc_jax.campaign.types import COLUMN, KINDS, ROW, CampaignError, Records

LARGEST = 1e30  # beyond it float32 has no room for squares
WORDS = KINDS[1:]
ALIKE = str.maketrans("lio", "110")  # letters that are taken for digits
NAMED = 10  # new ids that are named


def place(i: int) -> str:
    """How an error calls the i-th answer."""
    return f"answer {i + 1}"


def records_of(answers: Iterable[tuple[str, str, Any]]) -> Records:
    """The records of answers (row, column, value).

    Args:
      answers: the value is a finite number, or one of the words failed, pending, withdrawn and
        no answer.
    """
    lines = [tuple(one) for one in answers]
    kinds, values = [], np.full(len(lines), np.nan)
    for i, line in enumerate(lines):
        if len(line) != 3:
            raise CampaignError(f"{place(i)}: must be (row, column, value), got {line!r}")
        if isinstance(line[2], str):
            if line[2] not in WORDS:
                raise CampaignError(
                    f"{place(i)}: must be a number or one of {', '.join(WORDS)}, got {line[2]!r}"
                )
            kinds.append(line[2])
        else:
            kinds.append(KINDS[0])
            values[i] = _finite(line[2], i)
    rows, columns = ([_name(line[j], i) for i, line in enumerate(lines)] for j in (0, 1))
    return Records(rows, columns, kinds, values, place, [], [], [])


def joined(tables: list[Records]) -> Records:
    """Several tables as one, so that all of them are told or none."""
    if len(tables) == 1:
        return tables[0]
    starts = np.cumsum([0, *(len(one.rows) for one in tables)])

    def place_of(i: int) -> str:
        which = int(np.searchsorted(starts, i, side="right")) - 1
        return tables[which].place(i - int(starts[which]))

    def chained(field: str) -> list[str]:
        return [text for one in tables for text in getattr(one, field)]

    return Records(
        rows=chained("rows"),
        columns=chained("columns"),
        kinds=chained("kinds"),
        values=np.concatenate([np.zeros(0), *(one.values for one in tables)]),
        place=place_of,
        row_ids=chained("row_ids"),
        column_ids=chained("column_ids"),
        notes=chained("notes"),
    )


def check_sides(
    records: Records, source: str, ids: Sequence[Collection[str]], names: Sequence[str]
) -> None:
    """Refuses a table whose every row is a column of the campaign, and every column a row.

    A table of which one id is known on its own side, or of which one is new, is taken.

    Args:
      records: of the table.
      source: what errors call it.
      ids: of the rows and of the columns that the campaign has.
      names: what a row and a column are called.
    """
    rows, columns = {*records.row_ids, *records.rows}, {*records.column_ids, *records.columns}
    if not rows or not columns:
        return
    own_rows, own_columns = set(ids[0]), set(ids[1])
    is_turned = rows <= own_columns and columns <= own_rows
    if is_turned and rows.isdisjoint(own_rows) and columns.isdisjoint(own_columns):
        row, column = names[:2]
        raise CampaignError(
            f"{source}: the two sides are swapped: every {row} in it is a {column} of the campaign,"
            f" and every {column} a {row}; turn the table, so that each side has its own ids, or in"
            f" a table of one answer a line name the columns of ids {row!r} and {column!r} as they"
            " are"
        )


def no_records(rows: Iterable[str], columns: Iterable[str]) -> Records:
    """Rows and columns of which nothing is known."""
    own, others = ([_name(one, i) for i, one in enumerate(ids)] for ids in (rows, columns))
    return Records([], [], [], np.zeros(0), place, own, others, [])


def notes_of(
    records: Records, added: Added, ids: Callable[[str], list[str]], names: Sequence[str]
) -> list[str]:
    """What the user should know of a tell beside its counts, one sentence each.

    Args:
      records: what was told.
      added: what came of it.
      ids: of an axis, the ids of the campaign afterwards, in the order of their numbers.
      names: what a row and a column are called.
    """
    notes = []
    if not records.rows:
        notes.append("Nothing was told: no entry has a value yet, and none failed.")
    if added.silent_again:
        notes.append(
            f"{added.silent_again:,} told as no answer had been told so before, and were asked"
            " again since: the new asks now count as unanswered too. If the table is the sheet of"
            " the earlier ask, tell it without these lines next time; a value may still be told"
            " of them."
        )
    rows, columns = records.row_ids + records.rows, records.column_ids + records.columns
    sides = [(names[0], ids(ROW), added.new_rows), (names[1], ids(COLUMN), added.new_columns)]
    for own, other, told in zip(sides, sides[::-1], (rows, columns), strict=True):
        notes += note_new(own, other, set(told))
    return notes


def note_new(
    own: tuple[str, list[str], int], other: tuple[str, list[str], int], told: set[str]
) -> list[str]:
    """A line for each of the first new ids of a side, with what it may be a misspelling of.

    Args:
      own: what the side is called, its ids, and how many of them are new.
      other: the same of the other side.
      told: the ids of this side that were told.
    """
    axis, ids, number = own
    if not number:
        return []
    new = [one for one in ids if one in told][-number:]  # new ids have the highest numbers
    before = ids[: ids.index(new[0])]
    there = other[1][: len(other[1]) - other[2]]
    plain = {_plain(one): one for one in before}
    lines = []
    for one in new[:NAMED]:
        close = difflib.get_close_matches(_plain(one), plain, n=1, cutoff=0.8)
        hint = ""
        if one in there:
            hint = f" (there is a {other[0]} of this name: are the two swapped?)"
        elif close:
            hint = (
                f" (close to {plain[close[0]]!r}: if that is meant, tell the corrected table, and"
                f" close this {axis} with smc-jax close)"
            )
        lines.append(f"New {axis}: {one!r}{hint}")
    return lines


def _plain(name: str) -> str:
    """A name as it sounds: without case, blanks and marks, letters like digits as digits."""
    return re.sub(r"[\W_]", "", name.casefold()).translate(ALIKE) or name


def _name(told: Any, i: int) -> str:
    name = str(told).strip()
    if not name:
        raise CampaignError(f"{place(i)}: an id is empty; give it a name")
    return name


def _finite(told: Any, i: int) -> float:
    try:
        value = float(told)
    except (TypeError, ValueError):
        value = float("nan")
    if not abs(value) <= LARGEST:
        raise CampaignError(f"{place(i)}: must be a finite number below 1e30, got {told!r}")
    return value
