"""A campaign at one moment, in memory: what may be asked, what is suggested, what is predicted."""

import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from smc_jax.campaign.asking import Proposal, in_campaign_units, propose, room_for
from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.design import designed_start
from smc_jax.campaign.forecast import Forecast, keys_at
from smc_jax.campaign.log import Log
from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.plates import Plates, propose_plate
from smc_jax.campaign.types import COLUMN, ROW, CampaignError, Prediction, Suggestion

Pair = tuple[str | None, str | None]
SPREAD = "It spreads the first measurements over rows and columns."


class Fitted(NamedTuple):
    """A fitted model, and what its earlier errors say of intervals."""

    forecast: Forecast
    calibrator: Calibrator


class Snapshot:
    """What a campaign knows at one position of its log."""

    def __init__(self, settings: dict[str, Any], log: Log, matrix: Matrix):
        self.settings, self.log, self.matrix = settings, log, matrix
        self.keys = keys_at(settings["seed"], log.position)
        self.fitted: Fitted | None = None  # the model, once somebody has asked for it
        self.is_refitted = False  # whether the model was fitted to everything that was told

    @functools.cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        ids = {ROW: self.log.row_ids, COLUMN: self.log.column_ids}
        return {axis: {one: number for number, one in enumerate(ids[axis])} for axis in ids}

    @functools.cached_property
    def _open(self) -> np.ndarray:
        """The entries of the campaign that may be asked; a cache, not to be written to."""
        return self.matrix.turned(self.matrix.open)

    def sizes(self) -> dict[str, int]:
        """How many rows, columns and known, pending and failed entries there are."""
        return {
            "rows": len(self.log.row_ids),
            "columns": len(self.log.column_ids),
            "known": int(self.matrix.known.sum()),
            "pending": int(self.matrix.pending.sum()),
            "failed": len(self.log.failed_row),
        }

    def number_of(self, axis: str, name: str) -> int:
        """The number of a row or a column; the error for an unknown id names similar ones."""
        name = str(name).strip()
        found = self._numbers[axis].get(name)
        if found is None:
            alike = difflib.get_close_matches(name, self._numbers[axis], n=3)
            hint = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else ""
            raise CampaignError(
                f"{axis} {name!r}: the campaign has no such {axis}{hint}; new ones are added by a"
                " tell, or by `smc-jax add`"
            )
        return found

    def offered(
        self,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        closed: Iterable[Pair] = (),
    ) -> np.ndarray:
        """The entries [D, N], in the model's orientation, that may be suggested.

        Args:
          rows: only these; None is all.
          columns: only these.
          closed: entries, rows (column None) or columns (row None) that are closed for now.
        """
        # Index by index, so that a few columns of a large table cost what they are.
        asked = [
            slice(None) if wanted is None else [self.number_of(axis, one) for one in wanted]
            for axis, wanted in ((ROW, rows), (COLUMN, columns))
        ]
        is_open = np.zeros_like(self._open)
        if rows is not None and columns is not None:
            asked = list(np.ix_(*asked))  # type: ignore[arg-type]
        is_open[tuple(asked)] = self._open[tuple(asked)]
        for row, column in closed:
            at_row = slice(None) if row is None else self.number_of(ROW, row)
            at_column = slice(None) if column is None else self.number_of(COLUMN, column)
            is_open[at_row, at_column] = False
        if not is_open.any():
            raise CampaignError(
                f"ask: no entry is open: {self.matrix.known.sum()} of"
                f" {is_open.size} are known, {self.matrix.pending.sum()} pending and"
                f" {(self.matrix.blocked & ~self.matrix.known).sum()} failed or closed; relax the"
                " rows, the columns or what is closed, or add new ones"
            )
        return self.matrix.turned(is_open)

    def suggest(
        self,
        fitted: Fitted | None,
        is_open: np.ndarray,
        number: int,
        plate: Plates | None = None,
    ) -> list[tuple[int, int, Suggestion]]:
        """Entries by number with their suggestions, at most `number` of those that are open.

        Without a model it is a designed start.
        """
        found = self._propose(fitted, is_open, number, plate)
        suggestions = []
        for one in found:
            row, column = self.matrix.place(one.row, one.column)
            forecast = one._asdict()
            forecast |= {"row": self.log.row_ids[row], "column": self.log.column_ids[column]}
            suggestions.append((row, column, Suggestion(**forecast)))
        return suggestions

    def _propose(
        self, fitted: Fitted | None, is_open: np.ndarray, number: int, plate: Plates | None
    ) -> list[Proposal]:
        labels = None if plate is None else plate.labels(self.log, self.matrix)
        number = min(number, int(np.count_nonzero(is_open)))
        if fitted is None:
            rng = np.random.default_rng([self.settings["seed"], self.log.position])
            if labels is not None:
                is_open = is_open & labels.fullest(is_open)
            taken = self.matrix.known | self.matrix.pending
            chosen = designed_start(rng, is_open, taken, number)
            return [Proposal.unknown(row, column, SPREAD) for row, column in chosen]
        key, (forecast, calibrator) = self.keys.ask, fitted
        planned = self.settings["budget"]
        asked = int(np.count_nonzero(self.log.asked))
        best_of = number if planned is None else (planned - asked) // 2
        best_of = min(max(best_of, number), int(np.count_nonzero(self._open)))
        if labels is None:
            return propose(key, forecast, is_open, number, best_of, calibrator).proposals
        rule = self.settings["policy"]
        return propose_plate(key, forecast, is_open, number, best_of, calibrator, labels, rule)

    def predict(self, fitted: Fitted, pairs: Iterable[tuple[str, str]]) -> list[Prediction]:
        """What the model says of any entries, known or not."""
        entries = [
            (self.number_of(ROW, row), self.number_of(COLUMN, column)) for row, column in pairs
        ]
        if not entries:
            raise CampaignError("pairs: must be at least one (row, column)")
        (forecast, calibrator), matrix = fitted, self.matrix
        row, column = matrix.place(*np.resize(np.asarray(entries), (room_for(len(entries)), 2)).T)
        predicted = forecast.engine.predict(
            self.keys.predict,
            forecast.fit,
            forecast.matrix.data,
            jnp.asarray(row),
            jnp.asarray(column),
        )
        figures = in_campaign_units(predicted, forecast, calibrator)
        average = matrix.units.back(matrix.data.average())
        known = np.where(matrix.known, average, np.nan)[row, column]
        return [
            Prediction(
                self.log.row_ids[own],
                self.log.column_ids[other],
                *(float(x[i]) for x in (*figures, known)),
            )
            for i, (own, other) in enumerate(entries)
        ]
