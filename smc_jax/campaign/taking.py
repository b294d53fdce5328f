"""Reads what a new campaign takes over: the answers of an earlier one, or a table of history."""

import time
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.arguments import real
from smc_jax.campaign.past import Past, Source
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.tables import ROLES, read_records
from smc_jax.campaign.types import CampaignError

PAST: dict[str, tuple[str, type]] = {  # what `new` takes: the meanings, and the kinds
    "prior": ("an earlier campaign, whose answers for rows of the same id are history", str),
    "history": ("the same from a table of other columns, CSV or Parquet", str),
    "prior_temper": ("what one answer of history counts as, at most 1 (default: 1)", float),
}


def read_past(
    prior: str | PathLike[str] | None = None,
    history: str | PathLike[str] | None = None,
    prior_temper: float | None = None,
    *,
    names: tuple[str, str, str] = ROLES,
) -> tuple[Past, list[str]] | None:
    """The answers of another campaign, or of a table; None where neither is given.

    Args:
      prior: the file of the other campaign, which stays as it is.
      history: the table, long or wide.
      prior_temper: what one answer counts as.
      names: what the new campaign calls a row, a column and a value; taken where the table of
        history has these names.

    Returns:
      The answers, and what the user should know of them, a sentence each.
    """
    if prior is not None and history is not None:
        raise CampaignError("prior, history: give one of them")
    if prior is None and history is None:
        if prior_temper is not None:
            raise CampaignError("prior_temper: there is nothing to temper; give prior or history")
        return None
    real("prior_temper", prior_temper)
    temper = 1.0 if prior_temper is None else prior_temper
    if not 0.0 < temper <= 1.0:
        raise CampaignError(f"prior_temper: must be above 0 and at most 1, got {temper!r}")
    if prior is not None:
        found = _of_campaign(Path(prior), temper, names)
    else:
        assert history is not None
        found = _of_table(Path(history), temper, names), []
    past, _ = found
    if not past.values.size:
        name = past.sources[0].name
        raise CampaignError(f"{name} holds no value; there is nothing to take over")
    return found


def check_past(past: Past, row_ids: list[str], column_ids: list[str]) -> None:
    """Refuses history of columns that the new campaign has, or of none of its rows."""
    name = past.sources[0].name
    # What an earlier campaign has taken over itself may be of columns that are told again now:
    # those do not count. Its own columns are another matter, for they are likely a mistake.
    own = {column for column, part in zip(past.columns, past.part, strict=True) if part == 0}
    same = sorted(own & set(column_ids))
    if same:
        raise CampaignError(
            f"{name}: {len(same):,} of its columns are columns of the new campaign, such as"
            f" {same[0]!r}; history is of other columns: tell what is known of these in the table"
        )
    if row_ids and not set(past.rows) & set(row_ids):
        raise CampaignError(
            f"{name}: none of its rows, such as {past.rows[0]!r}, is a row of the new"
            " campaign; rows are found by their id"
        )


def _of_campaign(path: Path, temper: float, names: tuple[str, str, str]) -> tuple[Past, list[str]]:
    # A copy, for the campaign may be in use, or of an earlier version: it stays as it is.
    with Storage(path, schema.open_copy(path), time.time) as storage:
        state = storage.state(time.time())
    log, value_name = state.log, checked_settings(state.settings)["value"]
    rows = [log.row_ids[number] for number in log.row]
    columns = [log.column_ids[number] for number in log.column]
    past = _of_one(rows, columns, log.value, Source(path.name, temper))
    if log.past is not None:
        past = _followed_by(past, log.past, log.column_ids, temper)
    notes = []
    if value_name != names[2]:
        notes.append(
            f"The values of {path.name} are called {value_name!r}, those of the new campaign"
            f" {names[2]!r}; history is of use where both are the same measurement."
        )
    return past, notes


def _of_one(rows: list[str], columns: list[str], values: np.ndarray, source: Source) -> Past:
    return Past(rows, columns, values, np.zeros(values.size, int), [source])


def _followed_by(past: Past, earlier: Past, column_ids: list[str], temper: float) -> Past:
    """Answers of a campaign, and what it had taken over of columns that it has not itself."""
    own = set(column_ids)
    kept = [i for i, column in enumerate(earlier.columns) if column not in own]
    sources = [one._replace(temper=temper * one.temper) for one in earlier.sources]
    return Past(
        rows=past.rows + [earlier.rows[i] for i in kept],
        columns=past.columns + [earlier.columns[i] for i in kept],
        values=np.concatenate([past.values, earlier.values[kept]]),
        part=np.concatenate([past.part, earlier.part[kept] + len(past.sources)]),
        sources=past.sources + sources,
    )


def _of_table(path: Path, temper: float, names: tuple[str, str, str]) -> Past:
    records = read_records(path, names=names)
    told = np.array([kind == "value" for kind in records.kinds], bool)
    if not np.isfinite(records.values[told]).all():
        raise CampaignError(f"{path.name}: a value of history is not finite")
    rows, columns = (
        [name for name, own in zip(names, told, strict=True) if own]
        for names in (records.rows, records.columns)
    )
    return _of_one(rows, columns, records.values[told], Source(path.name, temper))
