"""Who answers: a probit model with effects of rows and of columns, partially pooled.

An ask of entry (d, n) is answered where its utility u = a_n + c_d + e, e ~ N(0, 1), is positive:
with probability Phi(a_n + c_d), whatever the value is. A priori a_n ~ N(level, s_a^2),
c_d ~ N(0, s_c^2), level ~ N(0, 1), s_a^2 and s_c^2 inverse gamma. Given the utilities everything is
a linear regression, whose blocks are drawn exactly (Albert & Chib 1993); their sums over the asks
of a row and of a column are all that it needs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from smc_jax.algebra.batching import mapped
from smc_jax.observations import Observations

SCALE_SHAPE, SCALE_RATE = 1.0, 0.1  # of the inverse gamma prior of s_a^2 and s_c^2
FARTHEST = 8.0  # beyond that many deviations a tail has no quantiles in float32
SUMMED = 20  # more utilities of an entry than that are drawn by their sum, not one by one


class Response(NamedTuple):
    """One draw of the parameters."""

    level: Array  # []  the mean of a
    rows: Array  # [D]  c
    columns: Array  # [N]  a
    row_variance: Array  # []  s_c^2
    column_variance: Array  # []  s_a^2

    @classmethod
    def start(cls, rows: int, columns: int) -> "Response":
        """Half of the asks are answered, whoever is asked."""
        zero = jnp.zeros(())
        some = jnp.full_like(zero, 0.3)  # of a strong type, as all later ones: one compilation
        return cls(zero, jnp.zeros(rows), jnp.zeros(columns), some, some)

    def probit(self) -> Array:
        """The probit [D, N] of the probability of an answer."""
        return self.columns + self.rows[:, None]


class Asks(NamedTuple):
    """How often every entry was asked, and with what success."""

    answered: Array  # [D, N]
    refused: Array  # [D, N]

    @classmethod
    def of(cls, data: Observations) -> "Asks":
        """The asks behind what was seen."""
        return cls(data.times_seen(), data.times_refused())


def _tail_rate(mean: Array) -> Array:
    """The rate of the exponential that N(mean, 1) nearly is above zero, for means below -FARTHEST.

    Its density falls as exp(-t x - x^2 / 2) with t = -mean, and has the mean 1/t - 2/t^3 + ...
    """
    distance = jnp.maximum(-mean, FARTHEST)
    return distance + 2.0 / distance


def _positive(key: Array, mean: Array) -> Array:
    """Draws of N(mean, 1) given that they are positive; exponential ones far out in the tail."""
    near = jnp.maximum(mean, -FARTHEST)
    tiny = jnp.finfo(mean.dtype).tiny
    part = jax.random.uniform(key, mean.shape, mean.dtype, 1e-6, 1.0)
    drawn = jnp.maximum(near - ndtri(jnp.maximum(part * ndtr(near), tiny)), 0.0)
    return jnp.where(mean < -FARTHEST, -jnp.log(part) / _tail_rate(mean), drawn)


def _positive_moments(mean: Array) -> tuple[Array, Array]:
    """Mean and variance of the draws of `_positive`: m + phi(m) / Phi(m) and so on."""
    near, of_tail, far = jnp.maximum(mean, -FARTHEST), 1.0 / _tail_rate(mean), mean < -FARTHEST
    ratio = jnp.exp(norm.logpdf(near) - log_ndtr(near))
    variance = jnp.where(far, of_tail**2, 1.0 - ratio * (ratio + near))
    return jnp.where(far, of_tail, near + ratio), jnp.maximum(variance, 0.0)


def sum_of_positive(key: Array, mean: Array, number: Array) -> Array:
    """The sum [D, N] of a number [D, N] of draws of N(mean, 1), each given that it is positive.

    Where the number exceeds SUMMED, the sum is a draw of the gamma distribution with its mean and
    variance, which is positive and skewed as the sum is.
    """

    def one(index: Array, total: Array) -> Array:
        drawn = _positive(jax.random.fold_in(key, index), mean)
        return total + jnp.where(index < number, drawn, 0.0)

    def with_many(total: Array) -> Array:
        centre, variance = _positive_moments(mean)
        shape = jnp.maximum(number, 1.0) * centre**2 / variance
        drawn = jax.random.gamma(jax.random.fold_in(key, SUMMED), shape, dtype=mean.dtype)
        return jnp.where(number > SUMMED, drawn * variance / centre, total)

    most = number.max()
    rounds = jnp.minimum(jnp.ceil(most), SUMMED).astype(int)
    total = lax.fori_loop(0, rounds, one, jnp.zeros_like(mean))
    return lax.cond(most > SUMMED, with_many, lambda total: total, total)


def sample_utilities(key: Array, mean: Array, asks: Asks) -> Array:
    """The sum [D, N] of the utilities of all asks of an entry, given the probit [D, N]."""
    yes, no = jax.random.split(key)
    return sum_of_positive(yes, mean, asks.answered) - sum_of_positive(no, -mean, asks.refused)


def sample_normal(key: Array, precision: Array, weighted: Array) -> Array:
    """A draw of the normal with this precision and precision times mean."""
    z = jax.random.normal(key, weighted.shape, weighted.dtype)
    return weighted / precision + z / jnp.sqrt(precision)


def sample_effects(key: Array, response: Response, asks: Asks, utilities: Array) -> Response:
    """Exact draws of a, level, c, and a shift between them, given the utilities."""
    keys = jax.random.split(key, 4)
    number = asks.answered + asks.refused
    within, between = 1.0 / response.row_variance, 1.0 / response.column_variance
    of_columns = (utilities - number * response.rows[:, None]).sum(0) + between * response.level
    columns = sample_normal(keys[0], number.sum(0) + between, of_columns)
    level = sample_normal(keys[1], 1.0 + columns.size * between, between * columns.sum())
    rows = sample_normal(keys[2], number.sum(1) + within, (utilities - number * columns).sum(1))
    # All of c up and all of a down leaves the utilities as they are: this is drawn by itself.
    shift = sample_normal(keys[3], 1.0 + rows.size * within, level - within * rows.sum())
    return response._replace(level=level - shift, rows=rows + shift, columns=columns - shift)


def sample_variances(key: Array, response: Response) -> Response:
    """Exact draws of s_c^2 and s_a^2 given the effects."""

    def variance(key: Array, deviations: Array) -> Array:
        rate = SCALE_RATE + 0.5 * (deviations**2).sum()
        shape = SCALE_SHAPE + 0.5 * deviations.size
        return rate / jax.random.gamma(key, shape, dtype=rate.dtype)

    row_key, column_key = jax.random.split(key)
    return response._replace(
        row_variance=variance(row_key, response.rows),
        column_variance=variance(column_key, response.columns - response.level),
    )


def sweep(key: Array, response: Response, asks: Asks) -> Response:
    """One Gibbs sweep: utilities, effects, variances."""
    keys = jax.random.split(key, 3)
    utilities = sample_utilities(keys[0], response.probit(), asks)
    response = sample_effects(keys[1], response, asks, utilities)
    return sample_variances(keys[2], response)


def sample_response(
    key: Array, response: Response, asks: Asks, *, draws: int, sweeps: int, first: ArrayLike
) -> Response:
    """Draws [S] of a chain that goes on from one draw: `first` sweeps, and `sweeps` before each."""

    def move(index: Array, response: Response) -> Response:
        return sweep(jax.random.fold_in(key, index), response, asks)

    def store(response: Response, begin: Array) -> tuple[Response, Response]:
        response = lax.fori_loop(begin, begin + sweeps, move, response)
        return response, response

    response = lax.fori_loop(0, first, move, response)
    return lax.scan(store, response, jnp.asarray(first) + sweeps * jnp.arange(draws))[1]


def mean_chance(draws: Response, log_weights: Array) -> Array:
    """P(answer) [D, N], averaged over draws with weights [S, N] a column."""
    weights = jax.nn.softmax(log_weights, axis=0)

    def one(draw: tuple[Response, Array]) -> Array:
        response, weight = draw
        return weight * ndtr(response.probit())

    return mapped(one, (draws, weights), on_cpu=1).sum(0)
