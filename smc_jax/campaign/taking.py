"""Reads what a new campaign takes over: the answers of an earlier one, or a table of history."""

import math
import time
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.past import Past
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.tables import read_records
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


def _of_campaign(path: Path, temper: float) -> Past:
    # A copy, for the campaign may be in use, or of an earlier version: it stays as it is.
    with Storage(path, schema.open_copy(path), time.time) as storage:
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
