"""How many factors there are: columns of W that count, and directions that no rotation changes.

The data tell W only up to a rotation W R, which leaves W W' as it is and changes the norms of the
columns: a count of columns depends on where a fit happens to lie. W W' is the covariance that the
factors give the rows, and the noise variance stands beside it in every direction.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from smc_jax.model.parameters import Parameters

THRESHOLD = 0.05  # of the largest column's squared norm


class Ranks(NamedTuple):
    """Both counts."""

    effective: Array  # []  columns of W that are not far smaller than the largest
    signal: Array  # []  directions in which the factors are expected to vary more than the noise


def columns_above(norms: Array, threshold: float = THRESHOLD) -> Array:
    """The number [] of squared norms [K] that are at least `threshold` of the largest."""
    return (norms >= threshold * norms.max()).sum()


def eigenvalues_above(matrix: Array, bound: Array | float) -> Array:
    """The number [] of eigenvalues of a symmetric matrix [K, K] that exceed the bound.

    By Sylvester's law of inertia as many pivots of the matrix minus the bound are positive: K steps
    of elimination, and no eigenvalue is computed. An eigenvalue within rounding of the bound may
    count or not.
    """
    size = len(matrix)
    tiny = jnp.finfo(matrix.dtype).tiny

    def eliminate(k: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        left, above = state
        pivot = left[k, k]
        safe = jnp.where(jnp.abs(pivot) > tiny, pivot, tiny)
        return left - jnp.outer(left[:, k], left[k] / safe), above + (pivot > 0)

    shifted = matrix - bound * jnp.eye(size, dtype=matrix.dtype)
    return lax.fori_loop(0, size, eliminate, (shifted, jnp.zeros((), int)))[1]


def directions_above(factors: Array, own: Array, bound: Array) -> Array:
    """The number [] of eigenvalues of F F' + diag(own) that exceed the bound.

    Let G = diag(own - bound). Both Schur complements of [[G, F], [F', -I]] have its inertia, so
    that G + F F' has as many positive eigenvalues as G and -I - F'G^-1 F together.

    Args:
      factors: F [D, T].
      own: [D], not negative.
      bound: [].
    """
    rows, number = factors.shape
    if rows <= number:
        return eigenvalues_above(factors @ factors.T + jnp.diag(own), bound)
    gap = own - bound
    tiny = jnp.finfo(gap.dtype).tiny
    gap = jnp.where(jnp.abs(gap) > tiny, gap, -tiny)
    inner = -(factors.T / gap) @ factors
    return (gap > 0).sum() + eigenvalues_above(inner, 1.0)


def expected_ranks(mean: Array, variance: Array, noise_variance: Array) -> Ranks:
    """The ranks of independent loadings with means and variances [D, K].

    E[W'W]_kk are the squared norms, and E[W W'] is M M' plus the summed variances of each row.
    """
    norms = (mean**2 + variance).sum(0)
    signal = directions_above(mean, variance.sum(1), noise_variance)
    return Ranks(1.0 * columns_above(norms), 1.0 * signal)


def ranks_of_draws(draws: Parameters) -> Ranks:
    """The mean number of columns that count, and the rank of the mean of W W', over S draws."""
    w, number = draws.loadings, len(draws.sigma)  # [S, D, K]
    norms = (w**2).sum(1)
    effective = (norms >= THRESHOLD * norms.max(1, keepdims=True)).sum(1).mean()
    noise = draws.sigma[:, None] * draws.noise_scales.reshape(number, -1)
    factors = jnp.moveaxis(w, 0, 1).reshape(w.shape[1], -1) / number**0.5
    signal = directions_above(factors, jnp.zeros(w.shape[1], w.dtype), (noise**2).mean())
    return Ranks(effective, 1.0 * signal)
