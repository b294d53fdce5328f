"""Where an array is largest or smallest: `jnp.argmax` is not vectorised on CPUs, these are."""

import jax.numpy as jnp
from jax import Array


def argmax(values: Array) -> Array:
    """Flat index of the first of the largest values; where one is NaN, the size of the array."""
    index = jnp.arange(values.size).reshape(values.shape)
    return jnp.where(values == values.max(), index, values.size).min()


def argmin(values: Array) -> Array:
    """Flat index of the first of the smallest values; where one is NaN, the size of the array."""
    return argmax(-values)
