"""A campaign at one moment, in memory: what may be asked, what is suggested, what is predicted."""

import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from smc_jax.campaign.asking import Batch, Offered, Proposal, in_campaign_units, propose, room_for
from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.design import designed_start
from smc_jax.campaign.forecast import FEWEST, Forecast, keys_at
from smc_jax.campaign.log import Log, OpenAsk, State
from smc_jax.campaign.matrix import matrix_of
from smc_jax.campaign.plates import Plates, propose_plate
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.silence import response_program
from smc_jax.campaign.types import (
    COLUMN,
    NAN,
    NO_ANSWER,
    ROW,
    CampaignError,
    Prediction,
    Suggestion,
)
from smc_jax.campaign.worth import Costs, Worth, low_known

Pair = tuple[str | None, str | None]
Suggested = tuple[int, int, Suggestion]  # numbers of the row and of the column, the suggestion
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
SPREAD = "It spreads the first measurements over rows and columns."


class Fitted(NamedTuple):
    """A fitted model, and what its earlier errors say of intervals."""

    forecast: Forecast
    calibrator: Calibrator


class Snapshot:
    """What a campaign knows at one position of its log."""

    def __init__(self, state: State):
        self.settings, self.answered = checked_settings(state.settings), state.answered
        names = ("maximise", "noise", "retry_failed", "retry_silent")
        self.matrix = matrix_of(state.log, **{name: self.settings[name] for name in names})
        self._be_at(state.log)
        self.fitted: Fitted | None = None  # the model, once somebody has asked for it
        self.is_refitted = False  # whether the model was fitted to everything that was told

    def _be_at(self, log: Log) -> None:
        self.log, self.keys = log, keys_at(self.settings["seed"], log.position)

    def ask_recorded(self, position: int, ask: OpenAsk, found: list[Suggested]) -> bool:
        """Moves on to the position after an ask; whether that is all that the log has added.

        What was told, and the fit, stay as they are: nothing of a large table is read again.
        """
        log = self.log
        if position != log.position + 1:  # others have written meanwhile
            return False
        row, column = (np.array(x, np.int32) for x in list(zip(*found, strict=True))[:2])
        at = self.matrix.place(row, column)
        self.matrix.pending[at], self._open[at] = True, False
        self._be_at(
            log._replace(
                position=position,
                pending_row=np.concatenate([log.pending_row, row]),
                pending_column=np.concatenate([log.pending_column, column]),
                last_suggestions=[one for *_, one in found] + log.last_suggestions,
                open_asks=[*log.open_asks, ask],
                next_expiry=min(log.next_expiry, np.inf if ask.expires is None else ask.expires),
            )
        )
        return True

    @functools.cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        ids = {ROW: self.log.row_ids, COLUMN: self.log.column_ids}
        return {axis: {one: number for number, one in enumerate(ids[axis])} for axis in ids}

    @functools.cached_property
    def means(self) -> dict[tuple[int, int], float]:
        """The mean value of each known entry, by its numbers, in the precision it was told in."""
        log, width = self.log, len(self.log.column_ids)
        entry, index = np.unique(log.row.astype(int) * width + log.column, return_inverse=True)
        mean = np.bincount(index, log.value) / np.maximum(np.bincount(index), 1)
        pairs = zip(
            (entry // max(width, 1)).tolist(), (entry % max(width, 1)).tolist(), strict=True
        )
        return dict(zip(pairs, mean.tolist(), strict=True))

    @functools.cached_property
    def p_answer(self) -> np.ndarray | None:
        """P(answer) [D, N] of the model's entries; None where every ask was answered."""
        if self.matrix.asked is None:
            return None
        return np.asarray(response_program()(self.keys.response, self.matrix.asked), float)

    def worth(self, offered: Offered, costs: Costs | None) -> Worth | None:
        """What asks are worth; None where it is the value of the entry alone."""
        if self.matrix.asked is None:
            if costs is None:
                return None
            if costs.lines is None:
                raise CampaignError(
                    "worthless: nothing has a cost, and every ask was answered so far, so that it"
                    " is of no use; give costs (--costs=FILE) too, or leave it out"
                )
        matrix, cost, is_told, zero = self.matrix, None, False, low_known(self.matrix)
        if costs is not None:
            needed = matrix.turned(offered.whole(matrix.data.columns))
            names = (self.settings["rows"], self.settings["columns"])
            cost = costs.of(needed, self.log.row_ids, self.log.column_ids, names)
            cost = None if cost is None else matrix.turned(cost)
            if costs.worthless is not None:
                zero, is_told = costs.worthless, True
            if is_told and matrix.known.any() and matrix.units.of(zero) >= matrix.best:
                raise CampaignError(
                    f"worthless: {zero:g} is no worse than the best value so far, so that nothing"
                    " known is worth anything; give a worse value (--worthless)"
                )
        by_mean = self.settings["policy"] == "greedy"
        return Worth(zero, is_told, is_told, self.p_answer, cost, by_mean)

    @functools.cached_property
    def _open(self) -> np.ndarray:
        """The entries [D, N] of the model that may be asked."""
        return self.matrix.open

    def sizes(self) -> dict[str, int]:
        """How many rows, columns and known, pending, failed and open entries there are.

        And how many were asked without an answer, where there are any.
        """
        silent = self.log.silent_row.size
        return {
            "rows": len(self.log.row_ids),
            "columns": len(self.log.column_ids),
            "known": int(self.matrix.known.sum()),
            "pending": int(self.matrix.pending.sum()),
            "failed": len(self.log.failed_row),
            **({NO_ANSWER: silent} if silent else {}),
            "open": int(np.count_nonzero(self._open)),
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
    ) -> Offered:
        """The entries that may be suggested.

        Args:
          rows: only these; None is all.
          columns: only these.
          closed: entries, rows (column None) or columns (row None) that are closed for now.
        """
        matrix = self.matrix
        numbers = [
            None if wanted is None else np.array([self.number_of(axis, one) for one in wanted], int)
            for axis, wanted in ((ROW, rows), (COLUMN, columns))
        ]
        # By the columns of the model, so that a few of a large table cost what they are.
        down, across = numbers[::-1] if matrix.transposed else numbers
        there = np.arange(matrix.data.columns) if across is None else np.unique(across)
        is_open = np.take(self._open, there, axis=1)
        if down is not None:
            is_open[np.isin(np.arange(len(is_open)), down, invert=True)] = False
        for pair in closed:
            own = [
                None if one is None else self.number_of(axis, one)
                for axis, one in zip((ROW, COLUMN), pair, strict=True)
            ]
            row, column = own[::-1] if matrix.transposed else own
            at_column = slice(None)
            if column is not None:  # nothing where the column is not there
                at_column = slice(*(np.searchsorted(there, column, side) for side in SIDES))
            is_open[slice(None) if row is None else row, at_column] = False
        if not is_open.any():
            raise CampaignError(f"ask: no entry is open: {self._taken()}; {self._opening()}")
        return Offered(there, is_open, int(np.count_nonzero(self._open)))

    def _taken(self) -> str:
        """Why entries of the whole campaign may not be asked, each kind counted for itself."""
        log, matrix = self.log, self.matrix
        left = matrix.turned(matrix.blocked & ~matrix.known & ~matrix.pending).copy()
        counts = {}
        for kind, entries in (
            ("failed", (log.failed_row, log.failed_column)),
            ("without an answer", (log.silent_row, log.silent_column)),
        ):
            counts[kind] = int(left[entries].sum())
            left[entries] = False
        counts["closed"] = int(left.sum())
        told = [f"{number:,} {kind}" for kind, number in counts.items() if number]
        return ", ".join(
            [
                f"{matrix.known.sum()} of {matrix.known.size} are known",
                f"{matrix.pending.sum()} pending",
                *told,
            ]
        )

    def _opening(self) -> str:
        """What to do where nothing that was wanted is open."""
        if self._open.any():
            return "relax the rows, the columns or what is closed, or add new ones"
        retry = ""
        if self.log.silent_row.size and not self.settings["retry_silent"]:
            retry = ", or let those without an answer be asked again (smc-jax set --retry-silent)"
        if self.matrix.pending.any():
            return (
                "tell what is pending (smc-jax tell), or take an ask back (smc-jax withdraw;"
                f" smc-jax status lists the tokens){retry}"
            )
        return f"add rows and columns (smc-jax add), or tell a table (smc-jax tell){retry}"

    def suggest(
        self,
        fitted: Fitted | None,
        offered: Offered,
        number: int,
        plate: Plates | None = None,
        worth: Worth | None = None,
    ) -> tuple[list[Suggested], float]:
        """Entries by number with their suggestions, at most `number` of those that are offered.

        And the value that is worth nothing, NaN where nobody needs one. Without a model it is a
        designed start.
        """
        found = self._propose(fitted, offered, number, plate, worth)
        suggestions = []
        for one in found.proposals:
            row, column = self.matrix.place(one.row, one.column)
            forecast = one._asdict()
            forecast |= {"row": self.log.row_ids[row], "column": self.log.column_ids[column]}
            suggestions.append((row, column, Suggestion(**forecast)))
        return suggestions, found.worthless

    def _propose(
        self,
        fitted: Fitted | None,
        offered: Offered,
        number: int,
        plate: Plates | None,
        worth: Worth | None,
    ) -> Batch:
        labels = None if plate is None else plate.labels(self.log, self.matrix)
        number = min(number, int(np.count_nonzero(offered.open)))
        if fitted is None:
            rng = np.random.default_rng([self.settings["seed"], self.log.position])
            is_open = offered.whole(self.matrix.data.columns)
            if labels is not None:
                is_open &= labels.fullest(is_open)
            taken = self.matrix.known | self.matrix.pending
            chosen = designed_start(rng, is_open, taken, number)
            start = [Proposal.unknown(row, column, SPREAD) for row, column in chosen]
            return Batch([one.with_worth(worth) for one in start], NAN, NAN, NAN)
        key, (forecast, calibrator) = self.keys.ask, fitted
        planned = self.settings["budget"]
        asked = int(np.count_nonzero(self.log.asked))
        best_of = number if planned is None else (planned - asked) // 2
        best_of = min(max(best_of, number), offered.everything)
        if labels is None:
            return propose(key, forecast, offered, number, best_of, calibrator, worth=worth)
        on_plates = (calibrator, labels, self.settings["policy"], worth)
        return propose_plate(key, forecast, offered, number, best_of, *on_plates)

    def entries_of(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
        """The numbers of the rows and columns of at least one entry."""
        entries = [
            (self.number_of(ROW, row), self.number_of(COLUMN, column)) for row, column in pairs
        ]
        if not entries:
            raise CampaignError("pairs: must be at least one (row, column)")
        return entries

    def predict(
        self, fitted: Fitted | None, entries: Sequence[tuple[int, int]]
    ) -> list[Prediction]:
        """What the model says of entries by number, known or not."""
        if fitted is None:
            raise CampaignError(
                f"predict: {self.matrix.known.sum()} known entries are too few, or all alike, for a"
                f" model; tell at least {FEWEST} different ones"
            )
        (forecast, calibrator), matrix = fitted, self.matrix
        row, column = matrix.place(*np.resize(np.asarray(entries), (room_for(len(entries)), 2)).T)
        predicted = forecast.engine.predict(
            forecast.key,
            forecast.fit,
            forecast.matrix.data,
            jnp.asarray(row),
            jnp.asarray(column),
        )
        figures = in_campaign_units(predicted, forecast, calibrator)
        known = [self.means.get(pair, float("nan")) for pair in entries]
        return [
            Prediction(
                self.log.row_ids[own],
                self.log.column_ids[other],
                *(float(x[i]) for x in (*figures, known)),
            )
            for i, (own, other) in enumerate(entries)
        ]
