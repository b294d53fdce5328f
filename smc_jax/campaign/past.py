"""What an earlier campaign, or a table, tells a new one: answers of other columns, as history.

They are copied into the log of the new campaign, as an event of a kind of their own, and by the ids
of their rows and columns: rows of the new campaign may come later. They are no answers of the new
campaign: nothing of them is known, asked or exported there, and they only move its model.
"""

import json
import sqlite3
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.types import COLUMN, ROW

KIND = "taken over"  # of the event


class Source(NamedTuple):
    """A campaign or a table that values were taken over from."""

    name: str  # of its file
    temper: float  # what one of its values counts as


class Counted(NamedTuple):
    """Values of history that count in a campaign."""

    row: np.ndarray  # [n] int, numbers of rows of the campaign
    column: np.ndarray  # [n] int, numbers of other columns
    value: np.ndarray  # [n] float64
    weight: np.ndarray  # [n] float64, what each counts as


class Past(NamedTuple):
    """Answers of other columns, and what each counts as."""

    rows: list[str]  # [n]
    columns: list[str]  # [n]
    values: np.ndarray  # [n] float64
    part: np.ndarray  # [n] int: which of the sources the value is of
    sources: list[Source]  # what was taken over, then what that had taken over itself

    def weights(self) -> np.ndarray:
        """What each value counts as, [n]."""
        return np.array([source.temper for source in self.sources])[self.part]

    def of(self, row_ids: list[str], column_ids: Collection[str]) -> Counted:
        """What counts in a campaign.

        A column whose id is one of the campaign's is left out: it is the same column, of which the
        campaign is told itself.
        """
        place = {name: number for number, name in enumerate(row_ids)}
        own = set(column_ids)
        counts = [
            i
            for i, (row, column) in enumerate(zip(self.rows, self.columns, strict=True))
            if row in place and column not in own
        ]
        others: dict[str, int] = {}
        column = [others.setdefault(self.columns[i], len(others)) for i in counts]
        row = [place[self.rows[i]] for i in counts]
        weight = self.weights()[counts]
        return Counted(
            np.array(row, np.int64), np.array(column, np.int64), self.values[counts], weight
        )

    def told(self, row_ids: list[str], column_ids: Collection[str]) -> str:
        """What was taken over, and how much of it counts now, in one sentence."""
        found = self.of(row_ids, column_ids)
        first, *others = (source.name for source in self.sources)
        through = f" (and, through it, from {', '.join(others)})" if others else ""
        weights = np.unique(self.weights())
        weight = "" if weights[0] == 1.0 else f", each counted as {weights[0]:g}"
        if weights.size > 1:
            weight = f", each counted as {weights[0]:g} to {weights[-1]:g}"
        return (
            f"taken over from {first}{through}: {self.values.size:,} values, of which"
            f" {found.value.size:,} count as history, of {np.unique(found.row).size:,} rows of the"
            f" same id and {np.unique(found.column).size:,} other columns{weight}"
        )


def write_past(database: sqlite3.Connection, stamp: tuple[float, str, str], past: Past) -> None:
    """Adds an event for each source, and a line for each value, to a campaign with its ids."""
    values = past.values.tolist()
    for number, source in enumerate(past.sources):
        own = np.flatnonzero(past.part == number).tolist()
        detail = {"from": source.name, "temper": source.temper, "values": len(own)}
        event = schema.write_event(database, stamp, detail)
        database.executemany(
            "INSERT INTO history (event, place, row, column, value) VALUES (?, ?, ?, ?, ?)",
            (
                (event, place, past.rows[i], past.columns[i], values[i])
                for place, i in enumerate(own)
            ),
        )
    schema.check_size(database, *(len(schema.read_ids(database, axis)) for axis in (ROW, COLUMN)))


def stored_past(database: sqlite3.Connection) -> Past | None:
    """What was taken over when the campaign was made, inside the caller's transaction."""
    lines = database.execute("SELECT event, row, column, value FROM history ORDER BY event, place")
    found = lines.fetchall()
    if not found:
        return None
    event, rows, columns, values = zip(*found, strict=True)
    written = database.execute(
        "SELECT event, detail FROM events WHERE kind = ? ORDER BY event", (KIND,)
    )
    numbers, details = zip(*written, strict=True)
    told = map(json.loads, details)
    sources = [Source(str(one["from"]), float(one["temper"])) for one in told]
    part = np.searchsorted(numbers, event)
    return Past(list(rows), list(columns), np.array(values, float), part, sources)
