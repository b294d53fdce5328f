"""Which entries to measure next, from a forecast; what a person is told of each of them."""

from math import isnan
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.engine import Asked
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.types import NAN
from smc_jax.campaign.worth import Worth
from smc_jax.predictions import Predicted


class Proposal(NamedTuple):
    """One entry in the model's orientation, with its forecast in the units of the campaign."""

    row: int
    column: int
    mean: float
    sd: float
    low: float
    high: float
    probability: float
    gain: float
    reason: str
    p_answer: float = NAN
    cost: float = NAN

    @classmethod
    def unknown(cls, row: int, column: int, reason: str) -> "Proposal":
        """An entry of which there is no forecast."""
        nan = float("nan")
        return cls(row, column, nan, nan, nan, nan, nan, nan, reason)

    def with_worth(self, worth: Worth | None) -> "Proposal":
        """The same with P(answer) and the cost of an ask, where these are known."""
        if worth is None:
            return self
        at = self.row, self.column
        p_answer, cost = (
            NAN if own is None else float(own[at]) for own in (worth.p_answer, worth.cost)
        )
        return self._replace(p_answer=p_answer, cost=cost)


class Batch(NamedTuple):
    """Proposals, and what they bring together."""

    proposals: list[Proposal]
    reward: float  # the sum of their expected values, or of what their asks are worth
    gain: float  # bits, each entry's times P(answer)
    optimum: float  # expected average of as many of the best open entries, in the same units
    worthless: float = NAN  # the value that is worth nothing, where it is asks that are worth


class Offered(NamedTuple):
    """The entries that may be proposed, by the columns of the model that have them."""

    columns: np.ndarray  # [C] int, ascending: the numbers of the columns in question
    open: np.ndarray  # [D, C] bool: the entries of these columns that may be proposed
    everything: int  # how many entries of the whole matrix are open

    @classmethod
    def of(cls, is_open: np.ndarray, everything: int) -> "Offered":
        """From the entries [D, N] of the whole matrix."""
        columns = np.flatnonzero(is_open.any(0))
        return cls(columns, is_open[:, columns], everything)

    def whole(self, columns: int) -> np.ndarray:
        """The entries [D, N] of the whole matrix, which has that number of columns."""
        is_open = np.zeros((len(self.open), columns), bool)
        is_open[:, self.columns] = self.open
        return is_open


def room_for(number: int, most: int | None = None, *, steps: int = 1) -> int:
    """What a shape is rounded up to, so that few shapes are compiled; 8 at least.

    Args:
      number: the shape.
      most: an upper bound.
      steps: how many sizes there are from above one power of two up to the next.
    """
    power = 1 << max(number - 1, 0).bit_length()
    step = max(power // (2 * steps), 1)
    room = max(8, -(-number // step) * step)
    return room if most is None else min(room, most)


def propose(
    key: jax.Array,
    forecast: Forecast,
    offered: Offered,
    number: int,
    best_of: int,
    calibrator: Calibrator,
    where: str = "on offer",
    worth: Worth | None = None,
) -> Batch:
    """The entries that the rule of the campaign chooses among those that are offered.

    Only the columns that have an open entry are looked at: of a large matrix, a few columns cost
    what they are.

    Args:
      key: randomness of the choice.
      forecast: the fitted model.
      offered: the entries that may be proposed.
      number: how many; fewer where not so many are open.
      best_of: how many of the best entries of the whole matrix the rule measures regret from; of a
        part of its open entries, their share, and no fewer than `number`.
      calibrator: what earlier errors say of intervals.
      where: what the open entries are to a person, who is told which of them are best.
      worth: what asks are worth, where this is not the value of the entry alone.
    """
    matrix = forecast.matrix
    there = int(np.count_nonzero(offered.open))
    number = min(number, there)
    if not number:
        return Batch([], 0.0, 0.0, 0.0)
    best_of = max(round(there / max(offered.everything, 1) * best_of), number)
    some = np.flatnonzero(offered.open.any(0))
    # Columns that fill up the room have nothing open.
    room = room_for(some.size, matrix.data.columns)
    columns, shown = np.zeros(room, int), np.zeros((len(offered.open), room), bool)
    columns[: some.size], shown[:, : some.size] = offered.columns[some], offered.open[:, some]
    # Without terms the program is called as if there were none: it is another program with them.
    terms = () if worth is None else (worth.terms(matrix.units, columns),)
    found: Asked = forecast.engine.ask(
        key,
        forecast.key,
        forecast.fit,
        matrix.data,
        jnp.asarray(columns),
        jnp.asarray(shown),
        jnp.asarray(matrix.pending[:, columns]),
        jnp.asarray(number),
        room_for(best_of),
        room_for(number, steps=4),
        *terms,
    )
    found = jax.tree.map(np.asarray, found)
    if (found.choice.row[:number] < 0).any():
        raise FloatingPointError("the fit is not made of numbers; check the values for extremes")
    predicted = jax.tree.map(lambda figure: figure[..., :number], found.predicted)
    mean, sd, low, high = in_campaign_units(predicted, forecast, calibrator)
    proposals = [
        Proposal(
            row=int(found.choice.row[i]),
            column=int(columns[found.choice.column[i]]),
            mean=float(mean[i]),
            sd=float(sd[i]),
            low=float(low[i]),
            high=float(high[i]),
            probability=float(found.probability[i]),
            gain=float(found.gain[i]),
            reason=_reason(found, i, number, _Context(forecast, where, worth)),
        ).with_worth(worth)
        for i in range(number)
    ]
    brought = predicted.mean if found.worth is None else found.worth[:number]
    told = sum(one.gain * (1.0 if isnan(one.p_answer) else one.p_answer) for one in proposals)
    worthless = NAN if found.zero is None else float(matrix.units.back(found.zero))
    return Batch(proposals, float(brought.sum()), told, float(found.optimum), worthless)


def in_campaign_units(
    predicted: Predicted, forecast: Forecast, calibrator: Calibrator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and the two ends of the interval of predictions."""
    units = forecast.matrix.units
    mean, sd = units.back(predicted.mean), units.scale * np.asarray(predicted.sd, float)
    ends = np.sort([units.back(end) for end in predicted.quantiles], axis=0)
    return mean, sd, *calibrator.interval(mean, sd, *ends)


CHOSEN = {  # what the rules choose by where the expected value alone does not tell
    "thompson": "A draw of the table has it among the best",
    "ucb": "It may well be better than expected",
    "random": "It was drawn at random",
}


class _Context(NamedTuple):
    """What the reason of every entry of an ask depends on."""

    forecast: Forecast
    where: str
    worth: Worth | None

    def of_value(self) -> str:
        """What an entry is chosen for."""
        answer = "" if self.worth is None or self.worth.p_answer is None else " times P(answer)"
        cost = "" if self.worth is None or self.worth.cost is None else " per cost"
        return f"expected value{answer}{cost}"

    def is_loss(self, found: Asked, i: int) -> bool:
        """Whether an entry is expected to be worth less than what somebody said is nothing."""
        is_told = self.worth is not None and self.worth.is_told
        return is_told and found.worth is not None and bool(found.worth[i] < 0.0)

    def of_worth(self, found: Asked, i: int) -> str:
        """How much an ask is worth, beside the best one; no percentage of a loss."""
        assert found.worth is not None
        if self.is_loss(found, i):
            return "expected to be a loss"
        if found.worth[i] < 0.0:
            return f"among the lowest {self.where}"
        return f"{found.worth[i] / found.best_mean:.0%} of the best {self.where}"


def _reason(found: Asked, i: int, number: int, context: _Context) -> str:
    """Why an entry was chosen, one sentence."""
    rule, where = context.forecast.engine.rule, context.where
    probability = f"{found.probability[i]:.0%}"
    best = "the best" if number == 1 else f"one of the {number} best"
    if rule == "random":
        return f"{CHOSEN[rule]}; it is {best} {where} with probability {probability}."
    if found.hopeful[i] or rule == "greedy":
        loss = ", though a loss is expected" if context.is_loss(found, i) else ""
        return (
            f"Its {context.of_value()} is {best} {where}{loss}; it is so with probability"
            f" {probability}."
        )
    why = CHOSEN.get(rule, f"Its answer tells {found.gain[i]:.2f} bits")
    if found.worth is not None:
        return (
            f"{why}; its {context.of_value()} is {context.of_worth(found, i)}, and {best} with"
            f" probability {probability}."
        )
    short = context.forecast.matrix.units.scale * float(found.best_mean - found.predicted.mean[i])
    return (
        f"{why}; it is expected {short:.3g} short of the best"
        f" {where}, and is {best} with probability {probability}."
    )
