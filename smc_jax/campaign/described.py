"""Features of the rows and columns of a campaign: how they are kept, and what the model gets.

Of one id and one feature the last value holds, so that ids may come later, and other features too.
"""

import sqlite3
from collections.abc import Mapping
from os import PathLike
from typing import NamedTuple

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.data.features import FeatureCells, matrix_of_cells, read_cells
from smc_jax.data.ratings import DataError
from smc_jax.model.features import Features, coordinates


class Described(NamedTuple):
    """The features [n, P] of rows and of columns; None where there are none."""

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None

    def turned(self) -> "Described":
        """The same for the transposed matrix."""
        return Described(self.columns, self.rows)

    def coordinates(self) -> Features:
        """As the model takes them; features that are alike in all ids tell nothing."""
        return Features(*(None if x is None or not varies(x) else coordinates(x) for x in self))


def varies(table: np.ndarray) -> bool:
    """Whether a feature differs between two ids."""
    return bool((np.ptp(table, axis=0) > 0.0).any())


def read_tables(
    rows: str | PathLike[str] | None, columns: str | PathLike[str] | None
) -> dict[str, FeatureCells]:
    """What files say of rows and of columns, by axis."""
    files = {ROW: rows, COLUMN: columns}
    try:
        return {axis: read_cells(path) for axis, path in files.items() if path is not None}
    except (DataError, OSError, ImportError) as error:
        raise CampaignError(str(error)) from None


def notes_of(tables: Mapping[str, FeatureCells], new: Mapping[str, int]) -> list[str]:
    """What was understood of each table, one sentence each."""
    notes = []
    for axis, table in tables.items():
        numbers = len(table.numbers)
        kinds = f"{numbers:,} of numbers and {len(table.names) - numbers:,} of categories"
        added = f", {new[axis]:,} of them new to the campaign" if new[axis] else ""
        notes.append(
            f"Features of {len(table.cells):,} {axis}s{added}: {kinds}; they are standardised, and"
            " how much they matter is learned."
        )
    return notes


def write_features(
    database: sqlite3.Connection,
    event: int,
    axis: str,
    numbers: Mapping[str, int],
    table: FeatureCells,
) -> None:
    """Adds the cells of a table, of ids that have these numbers; a feature keeps its kind."""
    kinds = dict(
        database.execute(
            "SELECT name, max(value IS NOT NULL) FROM features WHERE axis = ? GROUP BY name",
            (axis,),
        )
    )
    for name in table.names:
        if kinds.get(name, name in table.numbers) != (name in table.numbers):
            was, now = ("numbers", "texts") if kinds[name] else ("texts", "numbers")
            raise CampaignError(
                f"features of {axis}s: {name!r} had {was} before and has {now} now; give it another"
                " name"
            )
    database.executemany(
        "INSERT INTO features (event, axis, number, name, value, category)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            (event, axis, numbers[id], name, *_typed(text, name in table.numbers))
            for id, cells in table.cells.items()
            for name, text in zip(table.names, cells, strict=True)
            if text
        ),
    )


def _typed(text: str, is_number: bool) -> tuple[float | None, str | None]:
    return (float(text), None) if is_number else (None, text)


def read_described(database: sqlite3.Connection, rows: int, columns: int) -> Described:
    """The features that hold now, of so many rows and columns."""
    return Described(_read(database, ROW, rows), _read(database, COLUMN, columns))


def _read(database: sqlite3.Connection, axis: str, ids: int) -> np.ndarray | None:
    found = database.execute(
        "SELECT number, name, value, category FROM features WHERE axis = ? ORDER BY event, rowid",
        (axis,),
    )
    columns: dict[str, np.ndarray] = {}
    numbers = set()
    for number, name, value, category in found:
        column = columns.setdefault(name, np.full(ids, "", object))
        column[number] = category if value is None else repr(value)
        if value is not None:
            numbers.add(name)
    return matrix_of_cells(columns, numbers) if columns else None


def write_described(
    database: sqlite3.Connection,
    stamp: tuple[float, str, str],
    tables: Mapping[str, FeatureCells],
) -> dict[str, int]:
    """Adds tables by axis, and their ids where these are new; how many are, by axis."""
    known, new = {}, {}
    for axis in (ROW, COLUMN):
        named = list(tables[axis].cells) if axis in tables else []
        known[axis], new[axis] = schema.read_numbers(database, axis, named)
    schema.check_size(len(known[ROW]), len(known[COLUMN]))
    event = schema.write_event(database, stamp, {axis: one.names for axis, one in tables.items()})
    schema.write_ids(database, event, new)
    for axis, table in tables.items():
        write_features(database, event, axis, known[axis], table)
    return {axis: len(ids) for axis, ids in new.items()}
