"""The covariance between rows, estimated pair by pair, as a factor model with D factors."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax.types import Observations, Parameters


class Pairs(NamedTuple):
    """Sums over the columns in which both rows of a pair are seen."""

    products: Array  # [D, D]  sum of (y_dn - b_d)(y_en - b_e)
    count: Array  # type: ignore[assignment]  # [D, D]  columns


def pairs(observations: Observations, centre: Array) -> Pairs:
    """Pairwise-complete sums about `centre` [D]; several looks at an entry count as their mean."""
    seen = (observations.count > 0).astype(observations.total.dtype)
    centred = seen * (observations.average() - centre[:, None])
    return Pairs(centred @ centred.T, seen @ seen.T)


def row_means(observations: Observations, *, strength: float = 1.0) -> Array:
    """Row means [D], shrunk towards that of all looks as `strength` more looks at it would."""
    count, total = observations.count.sum(1), observations.total.sum(1)
    all_looks = total.sum() / jnp.maximum(count.sum(), 1.0)
    return all_looks + (total - count * all_looks) / jnp.maximum(count + strength, 1e-6)


def shrunk(pairs: Pairs, *, strength: float) -> Array:
    """The covariance [D, D] as if each pair had been seen `strength` more times, uncorrelated.

    Off the diagonal P_de / (n_de + strength): a pair says as much as the columns that share it,
    which differ far too much for the one weight of Ledoit & Wolf. Row variances shrink likewise
    towards their average over all rows. The result need not be positive definite.
    """
    products, count = pairs
    total = jnp.maximum(jnp.trace(count), 1.0)
    variance = jnp.where(jnp.trace(products) > 0, jnp.trace(products) / total, 1.0)
    target = strength * variance * jnp.eye(len(count))
    return (products + target) / jnp.maximum(count + strength, 1e-6)


def factorise(covariance: Array, intercepts: Array, *, floor: float) -> Parameters:
    """Parameters whose W W' + sigma^2 I is the covariance, made positive definite.

    W = V sqrt(lambda - sigma^2) from the eigenvectors V [D, D], where sigma^2 is the least
    eigenvalue: the whole covariance is that of the entries, whatever of it is noise of a look.
    Eigenvalues below `floor` times their mean are raised to it.
    """
    values, vectors = jnp.linalg.eigh(covariance)
    variance = jnp.maximum(values[0], floor * values.mean())
    loadings = vectors * jnp.sqrt(jnp.maximum(values - variance, 0.0))
    return Parameters.plain(loadings, jnp.sqrt(variance), intercepts)
