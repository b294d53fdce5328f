"""How many factors there are: columns of W that count, and directions that no rotation changes.

The data tell W only up to a rotation W R, which leaves W W' as it is and changes the norms of the
columns: a count of columns depends on where a fit happens to lie. W W' is the covariance that the
factors give the rows, and the noise variance stands beside it in every direction.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.model.parameters import Parameters

THRESHOLD = 0.05  # of the largest column's squared norm


class Ranks(NamedTuple):
    """Both counts."""

    effective: Array  # []  columns of W that are not far smaller than the largest
    signal: Array  # []  directions in which the factors vary more than the noise, at most K


def columns_above(norms: Array, threshold: float = THRESHOLD) -> Array:
    """The number [] of squared norms [K] that are at least `threshold` of the largest."""
    return (norms >= threshold * norms.max()).sum()


def eigenvalues_above(matrix: Array, bound: Array | float) -> Array:
    """The number [] of eigenvalues of a symmetric matrix [K, K] that exceed the bound.

    By Sylvester's law of inertia as many pivots of the matrix minus the bound are positive: K steps
    of elimination, and no eigenvalue is computed. There is no pivoting: in float32 an eigenvalue
    within some percent of the bound may count or not where the largest is a million times that.
    """
    size = len(matrix)
    tiny = jnp.finfo(matrix.dtype).eps * jnp.maximum(jnp.abs(matrix).max(), jnp.abs(bound))

    def eliminate(k: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        left, above = state
        pivot = left[k, k]
        safe = jnp.where(jnp.abs(pivot) > tiny, pivot, tiny)
        return left - jnp.outer(left[:, k], left[k] / safe), above + (safe > 0)

    shifted = matrix - bound * jnp.eye(size, dtype=matrix.dtype)
    return lax.fori_loop(0, size, eliminate, (shifted, jnp.zeros((), int)))[1]


def ranks(gram: Array, noise_variance: Array) -> Ranks:
    """Both counts for W'W [K, K], whose eigenvalues are those of W W' that are not zero."""
    columns = columns_above(gram.diagonal())
    return Ranks(1.0 * columns, 1.0 * eigenvalues_above(gram, noise_variance))


def expected_ranks(mean: Array, variance: Array, noise_variance: Array) -> Ranks:
    """The ranks of E[W'W] for independent loadings with means and variances [D, K]."""
    return ranks(mean.T @ mean + jnp.diag(variance.sum(0)), noise_variance)


def ranks_of_draws(draws: Parameters) -> Ranks:
    """The means of the counts over draws with a leading axis S."""

    def one(parameters: Parameters) -> Ranks:
        w = parameters.loadings
        return ranks(w.T @ w, (parameters.noise() ** 2).mean())

    return jax.tree.map(lambda x: x.mean(), jax.vmap(one)(draws))
