"""What an ask earns on average, and tells, where an answer may not come."""

from typing import Protocol

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from smc_jax.model.response import answer_probability, expected_collected
from smc_jax.types import Slope

RARE = 1e-6  # probits of a smaller chance, or of a larger one than its complement, run away


class Offered(Protocol):
    """Some entries with what is believed of their answers: an offer, or one column of it."""

    @property
    def factor(self) -> Array:
        """What the value of an entry is multiplied by."""

    @property
    def chance(self) -> Array | None:
        """The probability of an answer; None where it is certain."""

    @property
    def slope(self) -> Slope | None:
        """How that depends on the value; None where it does not."""


def _probit(offered: Offered) -> Array:
    assert offered.chance is not None
    return ndtri(jnp.clip(offered.chance, RARE, 1.0 - RARE))


def _number(variance: ArrayLike | tuple) -> Array:
    assert not isinstance(variance, tuple)
    return jnp.asarray(variance)


def expected_reward(offered: Offered, value: Array, variance: ArrayLike | tuple = 0.0) -> Array:
    """The factor times what is collected on average, of values N(value, variance).

    The variance matters only where a slope says that the answer depends on the value.
    """
    if offered.chance is None:
        return offered.factor * value
    if offered.slope is None:
        return offered.factor * offered.chance * value
    rise, centre = offered.slope
    given = (_probit(offered), rise, value - centre, _number(variance))
    collected = centre * answer_probability(*given) + expected_collected(*given)
    return offered.factor * collected


def expected_gain(
    offered: Offered, gain: Array, value: Array, variance: ArrayLike | tuple = 0.0
) -> Array:
    """What an ask tells on average: what an answer tells, times the probability that it comes.

    That a refusal tells something of the value too is left out.
    """
    if offered.chance is None:
        return gain
    if offered.slope is None:
        return offered.chance * gain
    rise, centre = offered.slope
    at = value - centre
    return answer_probability(_probit(offered), rise, at, _number(variance)) * gain
