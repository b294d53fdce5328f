"""The covariance between rows, estimated pair by pair, and factor models that have it."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from smc_jax.beliefs.base import Belief, Diagnostics, no_prior
from smc_jax.beliefs.history import heeding_history
from smc_jax.checks import positive
from smc_jax.looks import Seen
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


class Pairs(NamedTuple):
    """Sums over the columns in which both rows of a pair are seen."""

    products: Array  # [D, D]  sum of (y_dn - b_d)(y_en - b_e)
    count: Array  # type: ignore[assignment]  # [D, D]  columns


def pairs(observations: Observations, centre: Array) -> Pairs:
    """Pairwise-complete sums about `centre` [D]; an entry seen twice counts as the mean of both.

    An entry that counts as a fraction of an observation has a part of that size in its pairs.
    """
    average = observations.average()
    seen = jnp.sqrt(jnp.minimum(observations.times_seen(), 1.0))
    centred = seen * (average - centre[:, None])
    return Pairs(centred @ centred.T, seen @ seen.T)


def row_means(observations: Seen, *, strength: float = 1.0) -> Array:
    """Row means [D], shrunk towards the overall mean as by `strength` more values equal to it."""
    count, total = observations.by_row()
    number = count.sum()
    overall = total.sum() / jnp.where(number > 0.0, number, 1.0)
    return overall + (total - count * overall) / jnp.maximum(count + strength, 1e-6)


def shrunk(pairs: Pairs, *, strength: float) -> Array:
    """The covariance [D, D] as if each pair had been seen `strength` more times, uncorrelated.

    Off the diagonal P_de / (n_de + strength): a pair says as much as the columns that share it,
    which differ far too much for the one weight of Ledoit & Wolf. Row variances shrink towards
    their average over all rows. The result need not be positive definite.
    """
    products, count = pairs
    total = jnp.trace(count)
    varies = (total > 0) & (jnp.trace(products) > 0)
    variance = jnp.where(varies, jnp.trace(products) / jnp.where(varies, total, 1.0), 1.0)
    target = strength * variance * jnp.eye(len(count))
    return (products + target) / jnp.maximum(count + strength, 1e-6)


def with_floor(covariance: Array, intercepts: Array, *, floor: float) -> Parameters:
    """Parameters whose W W' + sigma^2 I is the covariance, made positive definite.

    W = V sqrt(lambda - sigma^2) from the eigenvectors V [D, D], where sigma^2 is the least
    eigenvalue: the whole covariance is that of the entries.
    Eigenvalues below `floor` times their mean are raised to it.
    """
    values, vectors = jnp.linalg.eigh(covariance)
    variance = jnp.maximum(values[0], floor * values.mean())
    loadings = vectors * jnp.sqrt(jnp.maximum(values - variance, 0.0))
    return Parameters.plain(loadings, jnp.sqrt(variance), intercepts)


def principal_factors(
    covariance: Array, intercepts: Array, *, columns: ArrayLike, floor: float = 1e-3
) -> Parameters:
    """The factor model with one noise variance that is most likely given a covariance.

    This is probabilistic PCA (Tipping & Bishop 1999): with q factors, sigma^2 is the mean of the
    D - q least eigenvalues and W = V_q sqrt(lambda_q - sigma^2), which keeps the trace and the q
    largest eigenvalues. The number of factors minimises Bayes' information criterion,

        sum of log lambda_i over i <= q + (D - q) log sigma^2 + (D q - q (q - 1) / 2) log(N) / N.

    A threshold at the conditional variance of an entry, 1 / (Sigma^-1)_dd, would not do: in a
    sample the eigenvalues of pure noise are spread by about 2 sqrt(D / N) sigma^2 to either side,
    and half of them would count as factors.

    Args:
      covariance: [D, D], which may be singular, or have eigenvalues below zero.
      intercepts: [D].
      columns: N, of which the covariance is the average. More than N / 2 factors would fit the
        columns, and are not considered.
      floor: eigenvalues below this fraction of their mean are raised to it. Where the mean itself
        is no more than rounding, there are no factors, and sigma is the scale of the intercepts.

    Returns:
      Parameters with loadings [D, D], of which all but the first q columns are zero.
    """
    ascending, vectors = jnp.linalg.eigh(covariance)
    values, vectors = ascending[::-1], vectors[:, ::-1]
    rows, square = len(values), (intercepts**2).mean()
    varies = values.mean() > (100 * jnp.finfo(values.dtype).eps) ** 2 * square
    alike = jnp.where(square > 0, square, 1.0)
    values = jnp.where(varies, jnp.maximum(values, floor * values.mean()), alike)

    q, logs, columns = jnp.arange(rows), jnp.log(values), jnp.maximum(columns, 2.0)
    noise = jnp.cumsum(values[::-1])[::-1] / (rows - q)
    fit = jnp.cumsum(logs) - logs + (rows - q) * jnp.log(noise)
    criterion = fit + (rows * q - q * (q - 1) / 2) * jnp.log(columns) / columns
    number = jnp.argmin(jnp.where(q <= columns / 2, criterion, jnp.inf))

    variance = noise[number]
    loadings = vectors * jnp.sqrt(jnp.maximum(values - variance, 0.0))
    return Parameters.plain(jnp.where(q < number, loadings, 0.0), jnp.sqrt(variance), intercepts)


def pairwise(*, strength: float = 2.0, floor: float = 0.5, centred: bool = False) -> Belief:
    """The shrunk pairwise-complete covariance as a belief without uncertainty.

    Args:
      strength: how many more times each pair of rows is taken as seen, uncorrelated.
      floor: the least eigenvalue, as a fraction of their mean. Shrinkage alone does not make a
        pairwise-complete estimate positive definite; raising eigenvalues does, and leaves the
        leading ones, which say where the good entries are, alone.
      centred: whether rows have means, or the second moment about zero is taken.
    """
    positive("strength", strength)
    positive("floor", floor)

    def estimate(data: Observations) -> Parameters:
        zero = jnp.zeros(data.rows, data.average().dtype)
        centre = row_means(data) if centred else zero
        covariance = shrunk(pairs(data, centre), strength=strength)
        return with_floor(covariance, centre, floor=floor)

    def init(key: Array, data: Observations, prior: Any = None) -> Parameters:
        del key
        no_prior("pairwise", prior)
        return estimate(data)

    def refit(key: Array, state: Parameters, data: Observations) -> Parameters:
        del key, state
        return estimate(data)

    def draw(key: Array, parameters: Parameters) -> Parameters:
        del key
        return parameters

    return heeding_history(Belief(init, refit, draw, Diagnostics.finite_only, point=True))
