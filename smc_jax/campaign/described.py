"""What is known of rows, columns and entries beforehand: how it is kept, what the model gets.

Of one id and one feature the last value holds, so that ids may come later, and other features too.
"""

import pathlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import NamedTuple

import numpy as np

from smc_jax.campaign import predicted, schema
from smc_jax.campaign.answers import note_new
from smc_jax.campaign.cells import check_ids
from smc_jax.campaign.predicted import KeptPrediction
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.data.features import FeatureCells, matrix_of_columns, read_cells
from smc_jax.data.ratings import DataError

MOST_CELLS = 10_000_000  # about 50 bytes each in the file


class Described(NamedTuple):
    """Features [n, P] of rows and of columns, and predicted values; None where there are none."""

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None
    entries: np.ndarray | None = None  # [D, N]  NaN where there is no prediction

    def turned(self) -> "Described":
        """The same for the transposed matrix."""
        return Described(self.columns, self.rows, None if self.entries is None else self.entries.T)


def read_tables(
    rows: str | PathLike[str] | None, columns: str | PathLike[str] | None
) -> dict[str, FeatureCells]:
    """What files say of rows and of columns, by axis."""
    files = {ROW: rows, COLUMN: columns}
    found = {}
    for axis, path in files.items():
        if path is None:
            continue
        if not str(path).strip():
            raise CampaignError(f"features of {axis}s: no file is named")
        try:
            table = read_cells(path)
            table.columns()  # what is wrong with a column is said before anything is written
        except (DataError, ImportError) as error:
            raise CampaignError(str(error)) from None
        except OSError as error:
            raise CampaignError(f"{path}: cannot be read: {error.strerror}") from None
        check_ids(list(table.cells), axis, lambda i, path=path: f"{path}, line {i + 2}")  # type: ignore[misc]
        found[axis] = table
    return found


def source_of(
    who: str, tables: Mapping[str, FeatureCells], prediction: KeptPrediction | None = None
) -> str:
    """Who tells what is in some tables, for the history; there must be one."""
    sources = [one.source for one in tables.values()]
    sources += [] if prediction is None else [prediction.source]
    if not sources:
        raise CampaignError("describe: give a table of rows, of columns, or a prediction")
    return ": ".join([who, *(pathlib.Path(one).name for one in sources)])


def notes_of(
    tables: Mapping[str, FeatureCells],
    new: Mapping[str, int],
    ids: Callable[[str], list[str]],
    names: Sequence[str],
) -> list[str]:
    """What was understood of each table, and which new ids may be mistakes, one sentence each.

    Args:
      tables: what was described, by axis.
      new: how many ids of an axis were new.
      ids: of an axis, the ids of the campaign afterwards, in the order of their numbers.
      names: what a row and a column are called.
    """
    notes = []
    for axis, table in tables.items():
        columns = table.columns()
        texts = [name for name, own in columns.items() if own.dtype != float]
        kinds = f"{len(columns) - len(texts):,} of numbers and {len(texts):,} of categories"
        said = f" ({', '.join(texts[:5])}{', ...' if len(texts) > 5 else ''})" if texts else ""
        added = f", {new[axis]:,} of them new to the campaign" if new[axis] else ""
        notes.append(
            f"Features of {len(table.cells):,} {axis}s{added}: {kinds}{said}; they are"
            " standardised, and how much they matter is learned."
        )
    sides = [(names[i], ids(axis), new.get(axis, 0)) for i, axis in enumerate((ROW, COLUMN))]
    for axis, own, other in zip((ROW, COLUMN), sides, sides[::-1], strict=True):
        if axis in tables:
            notes += [line for line in note_new(own, other, set(tables[axis].cells)) if "(" in line]
    return notes


def write_described(
    database: sqlite3.Connection,
    stamp: tuple[float, str, str],
    tables: Mapping[str, FeatureCells],
    prediction: KeptPrediction | None = None,
) -> dict[str, int]:
    """Adds tables by axis with their ids, and a prediction; how many ids are new, by axis."""
    known, new = {}, {}
    for axis in (ROW, COLUMN):
        named = list(tables[axis].cells) if axis in tables else []
        known[axis], new[axis] = schema.read_numbers(database, axis, named)
    for axis, table in tables.items():
        _check_known(axis, table, known, new)
    schema.check_size(database, len(known[ROW]), len(known[COLUMN]))
    detail: dict[str, object] = {axis: one.names for axis, one in tables.items()}
    if prediction is not None:
        detail[predicted.KEY] = prediction.cells.values.size
    event = schema.write_event(database, stamp, detail)
    schema.write_ids(database, event, new)
    for axis, table in tables.items():
        _write_features(database, event, axis, known[axis], table)
    if prediction is not None:
        predicted.write_prediction(database, event, prediction)
    elif any(new.values()):
        predicted.check_predicted_size(database)
    return {axis: len(ids) for axis, ids in new.items()}


def _check_known(
    axis: str,
    table: FeatureCells,
    known: Mapping[str, Mapping[str, int]],
    new: Mapping[str, Mapping[str, int]],
) -> None:
    """Refuses a table of none of the ids that an axis has: it is of something else."""
    if len(new[axis]) < len(table.cells) or len(known[axis]) == len(new[axis]):
        return
    other = COLUMN if axis == ROW else ROW
    there = any(one in known[other] and one not in new[other] for one in table.cells)
    fix = f"they are {other}s" if there else "check the ids, or add new ones with smc-jax add first"
    for name, texts in zip(table.names, zip(*table.cells.values(), strict=True), strict=True):
        if any(text in known[axis] and text not in new[axis] for text in texts):
            fix = f"the column {name!r} has them: put it first"
    first = next(iter(table.cells))
    raise CampaignError(
        f"{table.source}: none of its ids, such as {first!r}, is a {axis} of the campaign; {fix}"
    )


def _write_features(
    database: sqlite3.Connection,
    event: int,
    axis: str,
    numbers: Mapping[str, int],
    table: FeatureCells,
) -> None:
    """Adds the cells of a table, of ids that have these numbers; a feature keeps its kind."""
    query = (
        "SELECT name, max(value IS NOT NULL), count(*) FROM features WHERE axis = ? GROUP BY name"
    )
    before = {name: (bool(kind), cells) for name, kind, cells in database.execute(query, (axis,))}
    cells = sum(number for _, number in before.values()) + len(table.names) * len(table.cells)
    if cells > MOST_CELLS:
        raise CampaignError(
            f"{table.source}: {cells:,} features of {axis}s are more than the {MOST_CELLS:,} that a"
            " campaign can keep; give fewer, such as principal components"
        )
    at = [numbers[one] for one in table.cells]
    for name, own in table.columns().items():
        is_number = own.dtype == float
        given = ~np.isnan(own) if is_number else own != ""
        if not given.any():
            continue
        if name in before and before[name][0] != is_number:
            was, now = ("numbers", "texts") if before[name][0] else ("texts", "numbers")
            raise CampaignError(
                f"{table.source}: {name!r} had {was} before and has {now} now; give it another name"
            )
        database.executemany(
            "INSERT INTO features (event, axis, number, name, value, category)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                (event, axis, at[i], name, float(own[i]), None)
                if is_number
                else (event, axis, at[i], name, None, own[i])
                for i in np.flatnonzero(given)
            ),
        )


def told(database: sqlite3.Connection, prediction: np.ndarray | None) -> str | None:
    """How many ids have features, and how many entries a prediction, in one line; None of none.

    Args:
      database: of the campaign.
      prediction: the one that holds now, NaN where there is none.
    """
    query = "SELECT axis, count(DISTINCT number) FROM features GROUP BY axis"
    ids = dict(database.execute(query).fetchall())
    sides = [
        f"{ids[axis]:,} {axis}{'' if ids[axis] == 1 else 's'}"
        for axis in (ROW, COLUMN)
        if axis in ids
    ]
    parts = [f"features of {' and '.join(sides)}"] if sides else []
    if prediction is not None:
        entries = int(np.isfinite(prediction).sum())
        parts.append(f"a prediction of {entries:,} {'entry' if entries == 1 else 'entries'}")
    return f"known beforehand: {', '.join(parts)}" if parts else None


class Kept(NamedTuple):
    """Features that were read, and when there are others."""

    key: tuple[int, ...]  # the last event that brought some, and how many ids there are
    found: Described


def read_anew(database: sqlite3.Connection, kept: Kept | None) -> Kept:
    """The features that hold now; read again only where there are others, or more ids."""
    last = "SELECT max(event) FROM events WHERE kind = 'described'"
    ids = {axis: len(schema.read_ids(database, axis)) for axis in (ROW, COLUMN)}
    key = (database.execute(last).fetchone()[0] or 0, *ids.values())
    if kept is not None and kept.key == key:
        return kept
    rows, columns = (_read(database, axis, number) for axis, number in ids.items())
    entries = predicted.stored_prediction(database, ids[ROW], ids[COLUMN])
    return Kept(key, Described(rows, columns, entries))


def _read(database: sqlite3.Connection, axis: str, ids: int) -> np.ndarray | None:
    query = "SELECT number, name, value, category FROM features WHERE axis = ?"
    query += " ORDER BY event, rowid"
    lines = database.execute(query, (axis,)).fetchall()
    if not lines:
        return None
    number, name, value, category = zip(*lines, strict=True)
    names = {one: i for i, one in enumerate(dict.fromkeys(name))}
    row, column = np.array(number), np.array([names[one] for one in name])
    is_number = np.array([one is not None for one in value])
    values = np.full((len(names), ids), np.nan)
    texts = np.full((len(names), ids), "", object)
    # Of the cells of one id and one feature the last one stays.
    values[column[is_number], row[is_number]] = [one for one in value if one is not None]
    texts[column[~is_number], row[~is_number]] = [one for one in category if one is not None]
    of_numbers = np.bincount(column[is_number], minlength=len(names)) > 0
    columns = {one: values[i] if of_numbers[i] else texts[i] for one, i in names.items()}
    return matrix_of_columns(columns)
