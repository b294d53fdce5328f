"""A new campaign, from what tables say."""

import pathlib
from collections.abc import Mapping
from typing import Any

from smc_jax.campaign import predicted
from smc_jax.campaign.batch import Path, user
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.tables import read_records
from smc_jax.campaign.taking import PAST, check_past, read_past
from smc_jax.campaign.types import COLUMN, ROW
from smc_jax.data.features import FeatureCells


def make_campaign(
    path: Path,
    table: Path | None,
    features: Mapping[str, FeatureCells],
    prediction: Path | None,
    source: str | None,
    settings: dict[str, Any],
) -> tuple[list[str], dict[str, int]]:
    """Makes the file of a campaign, whole or not at all.

    Args:
      path: of a file that does not exist yet.
      table: values by row and column; None where nothing is known.
      features: of rows and of columns, by axis.
      prediction: a table of the values that something else predicts; None where there is none.
      source: who makes it, for the history; None is the user.
      settings: those that are given.

    Returns:
      What was understood of the table, a sentence each, and how many ids of an axis came with
      features alone.
    """
    settings = dict(settings)
    wanted_past = {name: settings.pop(name, None) for name in PAST}
    wanted = checked_settings(settings)
    who = user() if source is None else source
    records = None
    if table is not None:
        named = {name: settings.get(name) for name in ("rows", "columns", "value")}
        records = read_records(table, **named)  # type: ignore[arg-type]
        wanted = checked_settings({**records.names, **settings})  # given names count first
        who += f": {pathlib.Path(table).name}"
    named_as = (wanted["rows"], wanted["columns"], wanted["value"])
    taken = read_past(**wanted_past, names=named_as)
    past = None
    if taken is not None:
        past, notes_of_past = taken
        named_rows = [] if records is None else [*records.row_ids, *records.rows]
        named_columns = [] if records is None else [*records.column_ids, *records.columns]
        check_past(past, named_rows, named_columns)
    known: dict[str, list[str]] = {ROW: [], COLUMN: []}
    if records is not None:
        known = {ROW: records.row_ids, COLUMN: records.column_ids}
    ids = [
        list(dict.fromkeys([*known[axis], *(features[axis].cells if axis in features else ())]))
        for axis in (ROW, COLUMN)
    ]
    guess = predicted.read_prediction(prediction, *ids, names=named_as[:2])
    Storage.create(path, wanted, who, records, features, past, guess).disconnect()
    new = {axis: len(one.cells.keys() - known[axis]) for axis, one in features.items()}
    notes = [] if records is None else list(records.notes)
    if past is not None:
        told = past.told(named_rows, named_columns)
        notes += [*notes_of_past, f"{told[:1].upper()}{told[1:]}."]
    if guess is not None:
        notes.append(predicted.note_of(guess, *ids))
    return notes, new
