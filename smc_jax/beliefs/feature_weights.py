"""What features of rows and of columns weigh, drawn exactly given what they explain."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from smc_jax.looks import Looks, Seen
from smc_jax.model.features import Features


class Weights(NamedTuple):
    """What the features of one side weigh."""

    weights: Array  # [M, L]  B, of the L quantities that the features move
    relevance: Array  # []  the variance of a weight, in parts of the variance of what it moves

    @classmethod
    def none(cls, features: ArrayLike, moved: int) -> "Weights":
        """Before anything is learned of the features [n, M], which move that many quantities."""
        return cls(jnp.zeros((jnp.shape(features)[1], moved)), jnp.ones(()))


def sample_weights(
    key: Array, features: ArrayLike, left: Array, scale: Array, given: Weights
) -> Weights:
    """Exact draws of the weights B in left = F B + scale * noise, then of their variance.

    The columns of F [n, M] are orthogonal, so that the weights of each are drawn alone. A half-
    Cauchy deviation is a mixture: relevance ~ IG(1/2, 1/m) with m ~ IG(1/2, 1) (Makalic and
    Schmidt 2016), and m is drawn first.

    Args:
      key: randomness.
      features: F.
      left: [n, L].
      scale: [L]; B_ml ~ N(0, relevance scale_l^2).
      given: the weights before.
    """
    weight_key, mixture_key, relevance_key = jax.random.split(key, 3)
    f = jnp.asarray(features, left.dtype)
    precision = (f**2).sum(0)[:, None] + 1.0 / given.relevance  # in units of 1 / scale^2
    z = jax.random.normal(weight_key, given.weights.shape, left.dtype)
    weights = f.T @ left / precision + scale * z / jnp.sqrt(precision)
    inverse_m = jax.random.exponential(mixture_key, dtype=left.dtype) / (
        1.0 + 1.0 / given.relevance
    )
    rate = inverse_m + 0.5 * ((weights / scale) ** 2).sum()
    shape = 0.5 * (1 + weights.size)
    relevance = rate / jax.random.gamma(relevance_key, shape, dtype=left.dtype)
    return Weights(weights, relevance)


def check_features(features: Features, data: Seen) -> None:
    """Refuses features of another number of lines than the data have, or that are not orthogonal.

    Arrays that are not known yet, because a program is being traced, are taken as they are.
    """
    wanted = data.rows, data.columns
    if features.entries is not None and isinstance(data, Looks):
        raise ValueError(
            "features.entries: predicts a whole matrix, which lists of looks are not; use dense()"
        )
    if features.entries is not None and jnp.shape(features.entries) != wanted:
        raise ValueError(
            f"features.entries: a matrix {jnp.shape(features.entries)}, but the data are {wanted}"
        )
    for name, number in zip(("rows", "columns"), wanted, strict=True):
        table = getattr(features, name)
        if table is None:
            continue
        if len(table) != number:
            raise ValueError(
                f"features.{name}: {len(table)} lines, but the data have {number} {name}"
            )
        if not isinstance(table, jax.core.Tracer):
            products = np.asarray(table, float).T @ np.asarray(table, float)
            size = products.diagonal().max(initial=0.0)
            if np.abs(products - np.diag(products.diagonal())).max(initial=0.0) > 1e-4 * size:
                raise ValueError(
                    f"features.{name}: its columns must be orthogonal; use coordinates(table)"
                )
