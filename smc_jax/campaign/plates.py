"""Plates: batches whose entries must share a row, a column, or a group of rows or columns."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.campaign.asking import Batch, Offered, propose
from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.cells import read_grid
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.log import Log
from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.campaign.worth import Worth

SHORTLIST = 24  # plates whose batch is found entry by entry
HERE = "on its plate"
NOTHING_OPEN = "plate: no entry of any plate is open; ask for others, or without plates"


class Labels(NamedTuple):
    """Which plate each row, or each column, of the model is on."""

    axis: int  # 0: rows of the model, 1: columns
    label: np.ndarray  # [D] or [N] int, -1 for no plate

    def mask(self, plate: int) -> np.ndarray:
        """The entries of a plate, which broadcasts against [D, N]."""
        on = self.label == plate
        return on[:, None] if self.axis == 0 else on

    def total(self, score: np.ndarray, number: int) -> np.ndarray:
        """For each plate the sum of its `number` highest finite scores [D, N]; -inf of none."""
        plates = self.label.max() + 1
        totals = np.full(plates, -np.inf)
        for plate in range(plates):
            found = score[np.broadcast_to(self.mask(plate), score.shape)]
            found = found[np.isfinite(found)]
            if found.size:
                number_here = min(number, found.size)
                totals[plate] = np.partition(found, -number_here)[-number_here:].sum()
        return totals

    def fullest(self, is_open: np.ndarray) -> np.ndarray:
        """The mask of the plate that has most open entries."""
        entries = self.total(np.where(is_open, 1.0, -np.inf), is_open.size)
        if not np.isfinite(entries.max()):
            raise CampaignError(NOTHING_OPEN)
        return self.mask(int(np.argmax(entries)))


class Plates(NamedTuple):
    """What the entries of a batch must share."""

    axis: str  # "row" or "column"
    groups: Mapping[str, str] | None = None  # from ids to groups; None: each id is its own

    def described(self) -> dict[str, object]:
        """What it is, as JSON can hold it."""
        return {"axis": self.axis, "groups": None if self.groups is None else dict(self.groups)}

    @classmethod
    def read(cls, path: str, *, rows: str = ROW, columns: str = COLUMN) -> "Plates":
        """From a CSV of ids and their groups; an id without a group is on no plate.

        Args:
          path: the file; its first name tells whether rows or columns are grouped.
          rows: what the campaign calls a row, beside `row`.
          columns: what the campaign calls a column, beside `column`.
        """
        grid = read_grid(path)
        named = {ROW: ROW, COLUMN: COLUMN, rows.lower(): ROW, columns.lower(): COLUMN}
        axis = named.get(grid.cells[0][0].lower())
        if axis is None or len(grid.cells[0]) != 2:
            raise CampaignError(
                f"{grid.place(0)}: must be row,group or column,group, which tells whose groups"
                " follow; for plates of one row or one column say --plate=row or --plate=column"
            )
        groups: dict[str, str] = {}
        for i, (one, group) in enumerate(grid.cells[1:], 1):
            if group and groups.setdefault(one, group) != group:
                raise CampaignError(f"{grid.place(i)}: {one!r} has two groups; keep one of them")
        return cls(axis, groups)

    def labels(self, log: Log, matrix: Matrix) -> Labels:
        """The plates in the model's orientation."""
        if self.axis not in (ROW, COLUMN):
            raise CampaignError(
                f"plate: must be row, column or a file of groups, got {self.axis!r}"
            )
        ids = log.row_ids if self.axis == ROW else log.column_ids
        axis = int((self.axis == COLUMN) != matrix.transposed)
        if self.groups is None:
            return Labels(axis, np.arange(len(ids)))
        names = {name: number for number, name in enumerate(dict.fromkeys(self.groups.values()))}
        label = [names[self.groups[one]] if one in self.groups else -1 for one in ids]
        if max(label, default=-1) < 0:
            raise CampaignError(f"plate: none of the grouped ids is a {self.axis} of the campaign")
        return Labels(axis, np.asarray(label))


def propose_plate(
    key: jax.Array,
    forecast: Forecast,
    offered: Offered,
    number: int,
    best_of: int,
    calibrator: Calibrator,
    labels: Labels,
    rule: str,
    worth: Worth | None = None,
) -> Batch:
    """The batch of the best plate.

    Of the plates that have `number` open entries, or most of them if none has so many, each of a
    shortlist (by the expected values and spreads of its entries) has its batch found by the rule.
    IDS takes the plate of the least joint information ratio: the squared sum of expected shortfalls
    over the sum of bits, each entry's given those before it and times P(answer). The other rules
    take the highest sum of expected values, or of what asks are worth.
    """
    matrix = forecast.matrix
    is_open = offered.whole(matrix.data.columns)
    room = labels.total(np.where(is_open, 1.0, -np.inf), number)
    if not np.isfinite(room.max()):
        raise CampaignError(NOTHING_OPEN)
    survey = forecast.survey(is_open)
    hope = survey.mean + survey.sd
    if worth is not None:  # one zero for all plates
        settled = worth.terms(matrix.units).settled(survey.mean, jnp.asarray(is_open))
        worth = worth._replace(zero=float(matrix.units.back(settled.zero)), firm=True)
        hope = settled.worth(hope)
    totals = labels.total(np.where(is_open, np.asarray(hope), -np.inf), number)
    totals[room < room.max()] = -np.inf
    shortlist = [int(p) for p in np.argsort(-totals)[:SHORTLIST] if np.isfinite(totals[p])]
    whole = propose(key, forecast, offered, number, best_of, calibrator, worth=worth)
    batches = []
    for plate in shortlist:
        own = Offered.of(is_open & labels.mask(plate), offered.everything)
        batches.append(propose(key, forecast, own, number, best_of, calibrator, HERE, worth))
    return min(batches, key=lambda batch: _ratio(batch, whole.optimum, rule))


def _ratio(batch: Batch, optimum: float, rule: str) -> tuple[bool, float]:
    """What the best plate has least of; a plate without shortfall is better than any other."""
    shortfall = len(batch.proposals) * optimum - batch.reward
    if rule != "ids" or shortfall <= 0.0:
        return (rule == "ids" and shortfall > 0.0, -batch.reward)
    return (True, shortfall**2 / max(batch.gain, 1e-12))
