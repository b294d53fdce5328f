"""Gaussian algebra of the columns given the loadings; nothing but K x K matrices, no LAPACK.

Column n is seen in the entries O_n, y = b + W x_n + noise, x_n ~ N(p_n, I_K), noise ~ N(0, s2); s2
may differ from column to column, and p_n is zero where nothing is known of a column beforehand.
With counts in place of a mask, everything depends on

    A_n = I + W' diag(count_n) W / s2,   C_n = A_n^-1,   m_n = C_n f_n,

with f_n = W'(total_n - count_n b) / s2 + p_n, and x_n | data ~ N(m_n, C_n).
"""

import functools
import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from smc_jax.algebra.batching import mapped
from smc_jax.algebra.symmetric import Solved, solve, upper_triangle
from smc_jax.looks import Seen
from smc_jax.model.parameters import Known, Parameters
from smc_jax.observations import Observations
from smc_jax.tiles import Tiles

BLOCK = 1024  # columns that the likelihood takes at once


class Columns(NamedTuple):
    """Latent posteriors x_n | data ~ N(m_n, C_n) of all columns, given the parameters."""

    mean: Array  # [N, K]
    covariance: Array  # [N, K, K]


def _solved(
    loadings: Array,
    intercepts: Array,
    variance: Array,
    latent_means: Array | None,
    observations: Observations | Tiles,
    normals: Array | None = None,
) -> Solved:
    """C_n, m_n, log det A_n for means [K, N], and with normals [K, N] a draw of x_n - m_n."""
    (i, j), _ = upper_triangle(loadings.shape[1])
    products = observations.gram(loadings, variance)
    precision = products + jnp.where(i == j, 1.0, 0.0)[:, None]
    field = observations.field(loadings, intercepts, variance)
    if latent_means is not None:
        field = field + latent_means
    return solve(precision, field, normals)


def log_likelihood(
    loadings: Array,
    intercepts: Array,
    variance: Array,
    observations: Seen,
    latent_means: ArrayLike = 0.0,
    prediction_weight: Known = None,
    prediction: Array | None = None,
) -> Array:
    """log p(Y | W, b, s2, p) with the latent columns integrated out.

    -1/2 sum_n [ |O_n| log(2 pi s2) + log det A_n + |y_n - b - W m_n|^2 / s2 + |m_n - p_n|^2 ],
    with its gradient in closed form. The observations are data: their gradient is zero.
    For p_n = 0 the last two terms equal (|y_n - b|^2 - (y_n - b)'W m_n) / s2 without its
    cancellation. In float32 the inverses lose accuracy once |W_k|^2 / s2 exceeds about 1e5.

    Args:
      loadings: W [D, K].
      intercepts: b [D].
      variance: s2, [] or [N].
      observations: what was seen.
      latent_means: p [N, K], or [] zero.
      prediction_weight: a [], where y has a times a prediction from elsewhere in it.
      prediction: that prediction [N, D], which is data: its gradient is zero.
    """
    chex.assert_shape(intercepts, loadings.shape[:1])
    chex.assert_equal(observations.rows, loadings.shape[0])
    variance = jnp.broadcast_to(variance, (observations.columns,))
    means = jnp.asarray(latent_means, loadings.dtype)
    elsewhere = None if prediction is None else Elsewhere(prediction_weight, prediction)
    return _log_likelihood(loadings, intercepts, variance, means, elsewhere, observations)


class Elsewhere(NamedTuple):
    """A prediction from elsewhere, and its weight."""

    weight: Array  # []  a
    prediction: Array  # [N, D]


@jax.custom_vjp
def _log_likelihood(*given: Any) -> Array:
    return _log_likelihood_forward(*given)[0]


def _log_likelihood_forward(
    loadings: Array,
    intercepts: Array,
    variance: Array,
    means: Array,
    elsewhere: Elsewhere | None,
    observations: Seen,
) -> tuple[Array, tuple]:
    by_column = {"variance": variance}
    if means.ndim:
        by_column["latent_means"] = means.T
    if elsewhere is not None:
        by_column["prediction"] = elsewhere.prediction.T
    weight = None if elsewhere is None else elsewhere.weight
    block = functools.partial(_likelihood_terms, loadings, intercepts, weight)
    sums, (d_variance, d_means) = observations.over_columns(block, by_column, width=BLOCK)
    value, of_rows, *d_weight = sums
    d_loadings, d_intercepts = observations.row_slopes(loadings, of_rows)
    d_means = d_means.T if means.ndim else jnp.zeros_like(means)
    gradients = d_loadings, d_intercepts, d_variance, d_means
    return value, (gradients, d_weight, elsewhere)


def _likelihood_terms(
    loadings: Array,
    intercepts: Array,
    weight: Known,
    observations: Seen,
    *,
    variance: Array,
    latent_means: Array | None = None,
    prediction: Array | None = None,
) -> tuple[tuple[Any, ...], tuple[Array, Array]]:
    """The log likelihood, and its gradient: what is summed over columns, and what is theirs.

    The gradient for p [K, N] is m - p: since m_n maximises what p_n enters, m_n need not be
    differentiated.
    """
    if prediction is not None:
        observations = observations.relative_to(weight * prediction)
    given = loadings, intercepts, variance, latent_means
    covariance, mean, log_det, _ = _solved(*given, observations)
    squares, of_rows = observations.slopes(loadings, intercepts, mean, covariance, variance)
    number = observations.by_column()
    away = mean if latent_means is None else mean - latent_means
    quadratic = (squares / variance).sum() + (away**2).sum()
    constant = number @ jnp.log(2 * jnp.pi * variance)
    value = -0.5 * (constant + log_det.sum() + quadratic)

    # tr Sigma_n^-1 = (|O_n| - K + tr C_n) / s2, and |Sigma_n^-1 (y - b - W p)|^2 is the sum of
    # squared residuals / s2^2.
    k = len(mean)
    _, position = upper_triangle(k)
    freedom = number - k + covariance[position.diagonal()].sum(0)
    d_variance = -0.5 * (freedom / variance - squares / variance**2)
    if prediction is None:
        return (value, of_rows), (d_variance, away)
    pull = observations.residual(loadings, intercepts, mean) / variance
    return (value, of_rows, (pull * prediction).sum()), (d_variance, away)


def _log_likelihood_backward(saved: tuple, cotangent: Array) -> tuple:
    gradients, d_weight, elsewhere = saved
    d_elsewhere = jax.tree.map(jnp.zeros_like, elsewhere)
    if elsewhere is not None:
        d_elsewhere = d_elsewhere._replace(weight=cotangent * d_weight[0])
    return *(cotangent * gradient for gradient in gradients), d_elsewhere, None


_log_likelihood.defvjp(_log_likelihood_forward, _log_likelihood_backward)


def latent_posterior(parameters: Parameters, observations: Seen) -> Columns:
    """x_n | data, W, sigma ~ N(m_n, C_n) for every column."""
    chex.assert_equal(observations.rows, parameters.loadings.shape[0])
    return _columns(_solved_given(parameters, observations))


def beyond_prediction(parameters: Parameters, observations: Seen) -> Seen:
    """The observations less a times what was predicted elsewhere: all that factors explain."""
    if parameters.prediction is None:
        return observations
    return observations.relative_to(parameters.prediction_weight * parameters.prediction.T)


def _solved_given(
    parameters: Parameters, observations: Seen, normals: Array | None = None
) -> Solved:
    """What `_solved` finds of all columns; offsets are among the factors."""
    if parameters.answers is not None:  # a draw of what was refused is as good as seen
        observations = parameters.answers.filled(observations)
    left = beyond_prediction(parameters, observations)
    variance = jnp.broadcast_to(parameters.noise() ** 2, (left.columns,))
    by_column = {"variance": variance}
    if parameters.latent_means.ndim:
        by_column["latent_means"] = parameters.latent_means.T
    if normals is not None:
        by_column["normals"] = normals

    def block(seen: Observations | Tiles, variance: Array, **own: Array) -> tuple[tuple, Solved]:
        means, fresh = own.get("latent_means"), own.get("normals")
        given = parameters.factors(), parameters.intercepts, variance, means
        return (), _solved(*given, seen, fresh)

    return left.over_columns(block, by_column)[1]


def _columns(solved: Solved) -> Columns:
    """Column by column, the covariances whole."""
    mean = solved.solution.T
    _, position = upper_triangle(mean.shape[1])
    return Columns(mean, solved.inverse.T[:, position])


def sample_columns(key: Array, parameters: Parameters, observations: Seen) -> tuple[Columns, Array]:
    """The latent posteriors, and an exact draw of x_n [N, K] from each."""
    factors = parameters.factors().shape[1]
    normals = jax.random.normal(key, (factors, observations.columns))
    solved = _solved_given(parameters, observations, normals)
    return _columns(solved), (solved.solution + solved.draw).T


def sample_matrix(
    key: Array, parameters: Parameters, observations: Observations, *, entry_noise: bool
) -> Array:
    """An exact draw of the matrix [D, N] given the data and one draw of the parameters.

    With `entry_noise` the noise is part of the entry, as where each is seen once: seen entries keep
    their value, the others have a fresh noise draw. Without, the entries are b + W x_n.
    """
    latent_key, noise_key = jax.random.split(key)
    _, latents = sample_columns(latent_key, parameters, observations)
    matrix = parameters.expected() + parameters.factors() @ latents.T
    if not entry_noise:
        return matrix
    noise = parameters.noise() * jax.random.normal(noise_key, matrix.shape)
    return jnp.where(observations.seen(), observations.average(), matrix + noise)


def sample_matrices(
    key: Array,
    parameters: Parameters,
    observations: Observations,
    covariance: Array,
    *,
    draws: int,
    entry_noise: bool,
) -> Array:
    """S draws of the matrix [N, S, D], from the posterior covariances [N, K, K].

    They have the distribution of `sample_matrix`.
    A = I + W' diag(count) W / s2 is the covariance of a = z + W'(sqrt(count) * eps) / sigma for
    standard normal z and eps, and C a that of a draw of x_n around its mean: no factorisation is
    needed (after Doucet 2010). Where nothing is seen, eps is still free: the noise of the entry.

    On a CPU a few columns at a time: the random numbers of all of them would not fit in a cache.
    """
    w, columns = parameters.factors(), observations.columns

    def one_column(column: tuple) -> Array:
        key, covariance, count, average, sigma, mean, b = column
        latent_key, noise_key = jax.random.split(key)
        eps = jax.random.normal(noise_key, (draws, *count.shape))
        a = jax.random.normal(latent_key, (draws, w.shape[1])) + (jnp.sqrt(count) * eps) @ w / sigma
        field = count * (average - b) @ w / sigma**2 + mean
        entries = b + (field + a) @ covariance @ w.T
        if not entry_noise:
            return entries
        return jnp.where(count > 0, average, entries + sigma * eps)

    sigma = jnp.broadcast_to(parameters.noise(), (columns,))
    means = jnp.broadcast_to(parameters.latent_means, (columns, w.shape[1]))
    seen = (observations.times_seen().T, observations.average().T)
    b = jnp.broadcast_to(parameters.expected().T, (columns, len(w)))
    per_column = (jax.random.split(key, columns), covariance, *seen, sigma, means, b)
    return mapped(one_column, per_column, on_cpu=math.gcd(columns, 8))


def entry_moments(parameters: Parameters, columns: Columns) -> tuple[Array, Array]:
    """Mean and variance [D, N] of b_d + w_d' x_n under the latent posteriors, without noise.

    w'C w is a sum over pairs of factors, for all entries one product of matrices.
    """
    w = parameters.factors()
    (i, j), _ = upper_triangle(w.shape[1])
    mean = parameters.expected() + w @ columns.mean.T
    times = jnp.where(i == j, 1.0, 2.0)
    return mean, (times * w[:, i] * w[:, j]) @ columns.covariance[:, i, j].T


class Column(NamedTuple):
    """The latent posterior of one column and one sample of it, side by side: [C, m, x].

    An observation moves all three by one product of two vectors, in place; see `absorb`.
    """

    block: Array  # [K, K + 2]

    @classmethod
    def of(cls, mean: Array, covariance: Array, sample: Array) -> "Column":
        """From its parts, [..., K] and [..., K, K]."""
        return cls(jnp.concatenate([covariance, mean[..., None], sample[..., None]], axis=-1))

    @property
    def mean(self) -> Array:
        """m [..., K]."""
        return self.block[..., -2]

    @property
    def covariance(self) -> Array:
        """C [..., K, K]."""
        return self.block[..., :-2]

    @property
    def sample(self) -> Array:
        """x [..., K]."""
        return self.block[..., -1]


def gain(reach: Array, loading: Array, variance: Array, weight: Array) -> Array:
    """g = C w / (w'C w + s2) from C w: how a value of the row with loading w moves a column."""
    return weight * reach / (loading @ reach + variance)


def absorb(
    key: Array, column: Column, loading: Array, centred: Array, variance: Array, weight: Array
) -> Column:
    """Conditions one column on one more value y - b_d of its row with loading w_d.

    C -= g (C w)'; m += g (y - w'm); the sample moves by the same gain towards y minus a fresh
    noise draw. Weight 0 leaves the column as it was.
    """
    foreseen = loading @ column.block  # (C w)', w'm, w'x
    noise = jnp.sqrt(variance) * jax.random.normal(key)
    shown = jnp.zeros_like(foreseen).at[-2].set(centred).at[-1].set(centred - noise)
    moved = gain(foreseen[:-2], loading, variance, weight)
    return Column(column.block - jnp.outer(moved, foreseen - shown))


def expect(column: Column, loading: Array, variance: Array) -> Column:
    """Conditions one column on a value that was asked for and has not come yet.

    C -= g (C w)'; mean and sample stay: what the value will teach is not counted again, and no
    value is made up.
    """
    reach = loading @ column.covariance
    moved = gain(reach, loading, variance, jnp.ones_like(variance))
    return Column(column.block.at[:, :-2].add(-jnp.outer(moved, reach)))
