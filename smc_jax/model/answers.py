"""Who answers where that depends on the value, so that a refusal tells of the value that was asked.

An ask of entry (d, n) is answered where u = a_n + c_d + g z_dn + e, e ~ N(0, 1), is positive: with
probability Phi(a_n + c_d + g z_dn), z_dn = (y_dn - centre) / scale. A priori g ~ N(0, 1); a and c
are those of `response`. Values that are seen are then a biased sample, and what was refused is not
missing at random. The value of an entry that was asked and never answered is a latent variable:

    y_dn ~ N(mu_dn, s_n^2) given the factors,   u = a_n + c_d + g z_dn + e < 0 for each refusal,

which is normal given u. A chain draws it in every sweep, and the factor model takes it for data.

Of an entry that was not asked the value is y ~ N(m, v) given a draw, and the probit b + h y. Then
u ~ N(b + h m, 1 + h^2 v), so that with t = (b + h m) / sqrt(1 + h^2 v)

    P(answer) = Phi(t),   E[y; answer] = m Phi(t) + h v / sqrt(1 + h^2 v) phi(t).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import log_ndtr, ndtr
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from smc_jax.model.response import (
    Asks,
    Response,
    sample_effects,
    sample_normal,
    sample_utilities,
    sample_variances,
)
from smc_jax.observations import Observations
from smc_jax.types import Outcome


class Answering(NamedTuple):
    """What a draw says of the answers of some entries; draws may be a leading axis."""

    probit: Array  # [..., D]  b, of the probability of an answer were the value zero
    slope: Array  # [..., D]  h, what the probit rises by for each unit of the value
    values: Array  # [..., D]  of entries that were refused
    refused: Array  # [..., D]  one where the value is known to the draw in this way, else zero

    def _normal(self, mean: ArrayLike, variance: ArrayLike) -> tuple[Array, ...]:
        """m, v, sqrt(1 + h^2 v) and t; a value that the draw knows has no variance."""
        refused = self.refused > 0
        mean, variance = jnp.where(refused, self.values, mean), jnp.where(refused, 0.0, variance)
        spread = jnp.sqrt(1.0 + self.slope**2 * variance)
        return mean, variance, spread, (self.probit + self.slope * mean) / spread

    def chance(self, mean: ArrayLike, variance: ArrayLike = 0.0) -> Array:
        """P(answer) where values are normal with these means and variances."""
        return ndtr(self._normal(mean, variance)[-1])

    def collected(
        self, mean: ArrayLike, variance: ArrayLike = 0.0, bonus: ArrayLike = 0.0
    ) -> Array:
        """What is collected on average: the expected value of an answer, zero where none comes.

        A bonus is added to every answer whose value is not known to the draw.
        """
        bonus = jnp.where(self.refused > 0, 0.0, bonus)
        mean, variance, spread, t = self._normal(mean, variance)
        return (mean + bonus) * ndtr(t) + self.slope * variance / spread * norm.pdf(t)

    def log_chance(self, mean: ArrayLike, variance: ArrayLike, outcome: Outcome) -> Array:
        """The log probability that an answer came, or none, as the outcome says; else zero."""
        no = log_ndtr(-self._normal(mean, variance)[-1])
        yes = log_ndtr(self.probit + self.slope * outcome.value)
        refused = jnp.asarray(False if outcome.refused is None else outcome.refused)
        return jnp.where(outcome.answered, yes, jnp.where(refused, no, 0.0))


class Answers(NamedTuple):
    """One draw of who answers, and of the values that were refused."""

    response: Response  # a, c and what they are drawn from
    slope: Array  # []  g
    centre: Array  # []  of the values, where z is zero
    scale: Array  # []  of the values, in units of which z is
    values: Array  # [N, D]  of entries that were asked and never answered
    refused: Array  # [N, D]  one for these entries, else zero

    @classmethod
    def start(cls, data: Observations) -> "Answers":
        """Half of the asks are answered, whoever is asked for what."""
        response, none = Response.start(data.rows, data.columns), jnp.zeros_like(data.average().T)
        return cls(response, jnp.zeros_like(response.level), *data.units(), none, none)

    def filled(self, data: Observations) -> Observations:
        """The data with a draw of what was refused beside what was seen."""
        return data.filled(self.values.T, self.refused.T)

    def in_units(self, centre: Array, scale: Array) -> "Answers":
        """The same of centre + scale times the matrix."""
        return self._replace(
            centre=centre + scale * self.centre,
            scale=scale * self.scale,
            values=centre + scale * self.values,
        )

    def of_columns(self) -> tuple[Array, Array, Array]:
        """What columns [N, ...] have of their own: a, the values and which were refused."""
        return self.response.columns, self.values, self.refused

    def with_own(self, columns: Array, values: Array, refused: Array) -> "Answers":
        """The same with other `of_columns`."""
        response = self.response._replace(columns=columns)
        return self._replace(response=response, values=values, refused=refused)

    def with_columns(self, change: Callable[[Array], Array]) -> "Answers":
        """The same with what columns [N, ...] have of their own changed."""
        return self.with_own(*map(change, self.of_columns()))

    def answering(self) -> Answering:
        """What it says of all entries [D, N]."""
        slope = self.slope / self.scale
        probit = self.response.probit() - slope * self.centre
        return Answering(
            probit, jnp.broadcast_to(slope, probit.shape), self.values.T, self.refused.T
        )

    def answering_of(self, column: Array) -> Answering:
        """What it says of one column [D]."""
        own = self.with_columns(lambda x: jnp.take(x, column[None], axis=0, mode="clip"))
        return Answering(*(x[:, 0] for x in own.answering()))


def sample_slope(key: Array, left: Array, number: Array, z: Array) -> Array:
    """An exact draw of g given the utilities of all asks, less a and c.

    Args:
      key: randomness.
      left: the sum [D, N], over the asks of an entry, of u - a_n - c_d.
      number: how often each entry was asked [D, N].
      z: its value [D, N], standardised.
    """
    return sample_normal(key, 1.0 + (number * z**2).sum(), (left * z).sum())


def sample_refused(
    key: Array, answers: Answers, mean: Array, noise: Array, asks: Asks, utilities: Array
) -> Array:
    """Exact draws [D, N] of the values of entries that were refused only, given the utilities.

    Args:
      key: randomness.
      answers: whose g, a and c are given.
      mean: of the entries [D, N] given their factors.
      noise: what they deviate from it, [N] or [].
      asks: of every entry.
      utilities: the sum [D, N] over the asks of an entry.
    """
    answering = answers.answering()
    precision = noise**-2.0 + asks.refused * answering.slope**2
    left = utilities - asks.refused * answering.probit
    return sample_normal(key, precision, mean / noise**2 + answering.slope * left)


def sample_answers(
    key: Array, answers: Answers, mean: Array, noise: Array, data: Observations
) -> Answers:
    """A Gibbs sweep given the factors: utilities, effects, slope, variances, refused values.

    Args:
      key: randomness.
      answers: where the chain stands; what was refused since begins at its mean.
      mean: of the entries [D, N] given their factors.
      noise: what they deviate from it, [N] or [].
      data: what was seen, and how often every entry was refused.
    """
    keys = jax.random.split(key, 5)
    asks = Asks.of(data)
    number, never = asks.answered + asks.refused, (asks.refused > 0) & (asks.answered == 0)
    values = jnp.where(answers.refused.T > 0, answers.values.T, mean)
    values = jnp.where(never, values, data.average())
    z = jnp.where(number > 0, (values - answers.centre) / answers.scale, 0.0)
    moved = answers.slope * z
    utilities = sample_utilities(keys[0], answers.response.probit() + moved, asks)
    response = sample_effects(keys[1], answers.response, asks, utilities - number * moved)
    slope = sample_slope(keys[2], utilities - number * response.probit(), number, z)
    answers = answers._replace(response=sample_variances(keys[3], response), slope=slope)
    values = sample_refused(keys[4], answers, mean, noise, asks, utilities)
    refused = never.astype(values.dtype)
    return answers._replace(values=jnp.where(never, values, 0.0).T, refused=refused.T)
