"""A prediction of the values from elsewhere: how a campaign keeps it, and what the model gets.

It is kept by the ids of rows and columns, as history is: cells of ids that the campaign does not
have are kept too, and count once these are added. Of one entry the last value holds.
"""

import pathlib
import sqlite3
from collections.abc import Sequence
from os import PathLike
from typing import NamedTuple

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.arguments import file_named
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.data.predicted import PredictedCells, read_predicted_cells
from smc_jax.data.ratings import DataError

KEY = "prediction"  # of the number of its cells, in the detail of an event
MOST_CELLS = 10_000_000  # about 60 bytes each in the file
MOST_ENTRIES = 4_000_000  # of the table: each draw of the parameters has a prediction of its own


class KeptPrediction(NamedTuple):
    """A prediction that was read from a file."""

    cells: PredictedCells
    source: str  # the file, for an error


def read_prediction(
    path: str | PathLike[str] | None,
    row_ids: Sequence[str],
    column_ids: Sequence[str],
    *,
    names: tuple[str, str] = (ROW, COLUMN),
) -> KeptPrediction | None:
    """What a file predicts; None where no file is named.

    Args:
      path: of a matrix with ids on both sides, or of a table row, column, prediction.
      row_ids: the rows of the campaign, which tell the way round of a matrix.
      column_ids: the columns of the campaign.
      names: what the campaign calls a row and a column.
    """
    file_named("prediction", path)
    if path is None:
        return None
    if not row_ids or not column_ids:
        raise CampaignError(
            "prediction: the campaign has no rows and columns yet that it could be of; add them"
            " first (smc-jax add, or a table), then smc-jax describe takes it"
        )
    try:
        cells = read_predicted_cells(path, row_ids, column_ids, names=names)
    except (DataError, ImportError) as error:
        raise CampaignError(f"prediction: {error}") from None
    except OSError as error:
        raise CampaignError(f"prediction: {path}: cannot be read: {error.strerror}") from None
    return KeptPrediction(cells, str(path))


def write_prediction(database: sqlite3.Connection, event: int, given: KeptPrediction) -> None:
    """Adds the cells of a prediction, to an event of the caller's."""
    cells = given.cells
    (before,) = database.execute("SELECT count(*) FROM predictions").fetchone()
    if before + cells.values.size > MOST_CELLS:
        raise CampaignError(
            f"{given.source}: {before + cells.values.size:,} predictions are more than the"
            f" {MOST_CELLS:,} that a campaign can keep; give those of its own entries"
        )
    lines = zip(cells.rows, cells.columns, cells.values.tolist(), strict=True)
    database.executemany(
        "INSERT INTO predictions (event, place, row, column, value) VALUES (?, ?, ?, ?, ?)",
        ((event, place, *line) for place, line in enumerate(lines)),
    )
    check_predicted_size(database)


def check_predicted_size(database: sqlite3.Connection) -> None:
    """Refuses a table that is too large for its prediction, if it has one."""
    if not database.execute("SELECT EXISTS (SELECT 1 FROM predictions)").fetchone()[0]:
        return
    rows, columns = (len(schema.read_ids(database, axis)) for axis in (ROW, COLUMN))
    if rows * columns > MOST_ENTRIES:
        raise CampaignError(
            f"prediction: {rows:,} rows x {columns:,} columns are more than the {MOST_ENTRIES:,}"
            " entries of a campaign with a prediction of its values; leave out rows or columns"
        )


def stored_prediction(database: sqlite3.Connection, rows: int, columns: int) -> np.ndarray | None:
    """The predictions [D, N] that hold now, NaN where there is none; None without any."""
    found = np.fromiter(
        database.execute(
            "SELECT r.number, c.number, value FROM predictions p"
            " JOIN ids r ON r.axis = 'row' AND r.id = p.row"
            " JOIN ids c ON c.axis = 'column' AND c.id = p.column ORDER BY p.event, p.place"
        ),
        "i8, i8, f8",
    )
    if not found.size:
        return None
    matrix = np.full((rows, columns), np.nan)
    matrix[found["f0"], found["f1"]] = found["f2"]  # of one entry the last one stays
    return matrix


def note_of(given: KeptPrediction, row_ids: Sequence[str], column_ids: Sequence[str]) -> str:
    """What was understood of a prediction, in one sentence."""
    rows, columns = set(row_ids), set(column_ids)
    pairs = zip(given.cells.rows, given.cells.columns, strict=True)
    there = sum(row in rows and column in columns for row, column in pairs)
    whole, others = len(rows) * len(columns), given.cells.values.size - there
    passed = ""
    if others:
        passed = f"; {others:,} of ids that the campaign does not have count once these are added"
    return (
        f"Prediction {pathlib.Path(given.source).name}: of {there:,} of {whole:,} entries{passed};"
        " its scale does not matter, and how much it matters is learned."
    )
