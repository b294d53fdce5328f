"""What an ask earns on average, and tells, where an answer may not come."""

from typing import Protocol

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


def mean_reward(column: Seen, value: Array, variance: ArrayLike) -> Array:
    """The expected reward [D], averaged over draws, of values with these means [S, D]."""
    if column.answers is None:
        return expected_reward(column, value.mean(0))
    return expected_reward(column, value, column.answers, variance).mean(0)


def expected_gain(offered: Offered, gain: Array) -> Array:
    """What an ask tells on average: what an answer tells, times the probability that it comes.

    That a refusal tells something of the other probabilities is left out.
    """
    return gain if offered.chance is None else offered.chance * gain
