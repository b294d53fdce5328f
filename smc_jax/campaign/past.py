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

KIND = "taken over"  # of the event


class Past(NamedTuple):
    """Answers of other columns, and what each counts as."""

    rows: list[str]  # [n]
    columns: list[str]  # [n]
    values: np.ndarray  # [n] float64
    temper: float
    source: str

    def of(
        self, row_ids: list[str], column_ids: Collection[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of rows and of other columns, and values, of what counts in a campaign.

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
        return np.array(row, np.int64), np.array(column, np.int64), self.values[counts]

    def told(self, row_ids: list[str], column_ids: Collection[str]) -> str:
        """What was taken over, and how much of it counts now, in one sentence."""
        row, column, value = self.of(row_ids, column_ids)
        weight = "" if self.temper == 1.0 else f", each counted as {self.temper:g}"
        return (
            f"taken over from {self.source}: {self.values.size:,} values, of which {value.size:,}"
            f" count as history, of {np.unique(row).size:,} rows of the same id and"
            f" {np.unique(column).size:,} other columns{weight}"
        )


def write_past(database: sqlite3.Connection, stamp: tuple[float, str, str], past: Past) -> None:
    """Adds one event, and a line for each value."""
    detail = {"from": past.source, "temper": past.temper, "values": int(past.values.size)}
    event = schema.write_event(database, stamp, detail)
    lines = zip(past.rows, past.columns, past.values.tolist(), strict=True)
    database.executemany(
        "INSERT INTO history (event, place, row, column, value) VALUES (?, ?, ?, ?, ?)",
        ((event, place, *line) for place, line in enumerate(lines)),
    )


def stored_past(database: sqlite3.Connection) -> Past | None:
    """What was taken over when the campaign was made, inside the caller's transaction."""
    lines = database.execute("SELECT event, row, column, value FROM history ORDER BY event, place")
    found = lines.fetchall()
    if not found:
        return None
    event, rows, columns, values = zip(*found, strict=True)
    written = database.execute("SELECT detail FROM events WHERE event = ?", event[:1]).fetchone()
    detail = json.loads(written[0])
    temper, source = float(detail["temper"]), str(detail["from"])
    return Past(list(rows), list(columns), np.array(values, float), temper, source)
