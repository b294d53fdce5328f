"""The seen part P(M) of a matrix."""

import chex
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


def seen_part(values: ArrayLike, mask: ArrayLike) -> tuple[Array, Array]:
    """The mask as zeros and ones [D, N], and the values under it, 0 elsewhere, even for NaN."""
    chex.assert_equal_shape([values, mask])
    ones = jnp.asarray(jnp.asarray(mask) > 0, jnp.result_type(float))
    return ones, jnp.where(ones > 0, values, 0.0).astype(ones.dtype)
