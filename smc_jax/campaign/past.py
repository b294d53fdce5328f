"""What an earlier campaign, or a table, tells a new one: answers of other columns, as history.

They are copied into the log of the new campaign, as an event of a kind of their own, and by the ids
of their rows and columns: rows of the new campaign may come later. They are no answers of the new
campaign: nothing of them is known, asked or exported there, and they only move its model.
"""

import json
import math
import sqlite3
import time
from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.tables import read_records
from smc_jax.campaign.types import CampaignError

KIND = "taken over"  # of the event
PAST: dict[str, tuple[str, type]] = {  # what `new` takes: the meanings, and the kinds
    "prior": ("an earlier campaign, whose answers for rows of the same id are history", str),
    "history": ("the same from a table of other columns, CSV or Parquet", str),
    "prior_temper": ("what one answer of history counts as, at most 1 (default: 1)", float),
}


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


def read_past(
    prior: str | PathLike[str] | None = None,
    history: str | PathLike[str] | None = None,
    prior_temper: float | None = None,
) -> Past | None:
    """The answers of another campaign, or of a table; None where neither is given."""
    if prior is not None and history is not None:
        raise CampaignError("prior, history: give one of them")
    if prior is None and history is None:
        if prior_temper is not None:
            raise CampaignError("prior_temper: there is nothing to temper; give prior or history")
        return None
    temper = 1.0 if prior_temper is None else prior_temper
    if not (0.0 < temper <= 1.0 and math.isfinite(temper)):
        raise CampaignError(f"prior_temper: must be above 0 and at most 1, got {temper!r}")
    if prior is not None:
        found = _of_campaign(Path(prior), temper)
    else:
        assert history is not None
        found = _of_table(Path(history), temper)
    if not found.values.size:
        raise CampaignError(f"{found.source} holds no value; there is nothing to take over")
    return found


def check_past(past: Past, row_ids: list[str], column_ids: list[str]) -> None:
    """Refuses history of columns that the new campaign has, or of none of its rows."""
    same = sorted(set(past.columns) & set(column_ids))
    if same:
        raise CampaignError(
            f"{past.source}: {len(same):,} of its columns are columns of the new campaign, such as"
            f" {same[0]!r}; history is of other columns: tell what is known of these in the table"
        )
    if row_ids and not set(past.rows) & set(row_ids):
        raise CampaignError(
            f"{past.source}: none of its rows, such as {past.rows[0]!r}, is a row of the new"
            " campaign; rows are found by their id"
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


def _of_campaign(path: Path, temper: float) -> Past:
    from smc_jax.campaign.storage import Storage  # which writes what is read here

    with Storage.open(path) as storage:
        log = storage.state(time.time()).log
    rows = [log.row_ids[number] for number in log.row]
    columns = [log.column_ids[number] for number in log.column]
    return Past(rows, columns, log.value, temper, path.name)


def _of_table(path: Path, temper: float) -> Past:
    records = read_records(path)
    told = np.array([kind == "value" for kind in records.kinds], bool)
    if not np.isfinite(records.values[told]).all():
        raise CampaignError(f"{path.name}: a value of history is not finite")
    rows, columns = (
        [name for name, own in zip(names, told, strict=True) if own]
        for names in (records.rows, records.columns)
    )
    return Past(rows, columns, records.values[told], temper, path.name)
