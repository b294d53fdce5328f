"""What an ask earns on average, and tells, where an answer may not come."""

from typing import Protocol

import jax
from jax import Array
from jax.typing import ArrayLike

from smc_jax.model.answers import Answering


class Offered(Protocol):
    """Some entries with what is believed of their answers: an offer, or one column of it."""

    @property
    def factor(self) -> Array:
        """What the value of an entry is multiplied by."""

    @property
    def chance(self) -> Array | None:
        """The probability of an answer; None where it is certain."""


class Seen(Offered, Protocol):
    """The same with what every draw says of answers that depend on values."""

    @property
    def answers(self) -> Answering | None:
        """Of every draw; None where answers do not depend on values."""

    @property
    def log_weights(self) -> Array | None:
        """Of the draws [S], by who answered since the refit; None where they weigh alike."""


def expected_reward(
    offered: Offered,
    value: Array,
    answers: Answering | None = None,
    variance: ArrayLike = 0.0,
) -> Array:
    """The factor times what is collected on average of the values.

    Args:
      offered: the entries.
      value: of the entries, or their means.
      answers: what is believed of answers that depend on the value; None where they do not.
      variance: what the values deviate from these by, which matters to such answers alone.
    """
    if answers is not None:
        return offered.factor * answers.collected(value, variance)
    if offered.chance is None:
        return offered.factor * value
    return offered.factor * offered.chance * value


def averaged(column: Seen, quantity: Array) -> Array:
    """The mean over the draws [D] of a quantity [S, D], by their weights."""
    if column.log_weights is None:
        return quantity.mean(0)
    return jax.nn.softmax(column.log_weights) @ quantity


def mean_reward(column: Seen, value: Array, variance: ArrayLike, bonus: ArrayLike = 0.0) -> Array:
    """The expected reward [D], averaged over draws, of values with these means [S, D].

    Args:
      column: the entries.
      value: their means in each draw.
      variance: what the values deviate from these by, noise included; for answers that depend on
        the value.
      bonus: what an answer is worth beyond its value, where the value is not known.
    """
    if column.answers is None:
        return expected_reward(column, (value + bonus).mean(0))
    collected = column.answers.collected(value, variance, bonus)
    return column.factor * averaged(column, collected)


def expected_gain(offered: Offered, gain: Array) -> Array:
    """What an ask tells on average: what an answer tells, times the probability that it comes.

    That a refusal tells something of the other probabilities is left out.
    """
    return gain if offered.chance is None else offered.chance * gain
