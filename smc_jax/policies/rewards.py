"""What an ask earns on average, and tells, where an answer may not come."""

from typing import Protocol

from jax import Array


class Offered(Protocol):
    """Some entries with what is believed of their answers: an offer, or one column of it."""

    @property
    def factor(self) -> Array:
        """What the value of an entry is multiplied by."""

    @property
    def chance(self) -> Array | None:
        """The probability of an answer; None where it is certain."""


def expected_reward(offered: Offered, value: Array) -> Array:
    """The factor times what is collected on average of the values."""
    if offered.chance is None:
        return offered.factor * value
    return offered.factor * offered.chance * value


def expected_gain(offered: Offered, gain: Array) -> Array:
    """What an ask tells on average: what an answer tells, times the probability that it comes.

    That a refusal tells something of the other probabilities is left out.
    """
    return gain if offered.chance is None else offered.chance * gain
