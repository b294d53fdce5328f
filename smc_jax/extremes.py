"""The largest of many values: `jnp.argmax` and `lax.top_k` are slow on CPUs, these are not."""

import jax.numpy as jnp
from jax import Array, lax


def argmax(values: Array) -> Array:
    """Flat index of the first of the largest values; where one is NaN, the size of the array."""
    index = jnp.arange(values.size).reshape(values.shape)
    return jnp.where(values == values.max(), index, values.size).min()


def argmin(values: Array) -> Array:
    """Flat index of the first of the smallest values; where one is NaN, the size of the array."""
    return argmax(-values)


def mean_of_largest(values: Array, number: int) -> Array:
    """Mean [] of so many of the largest values, or of all that are finite where they are fewer.

    With t the last of them it is t + sum of (v - t)+ over their number. A bisection finds t to
    2^-20 of the range, passes over the values in place of a sort, and errs upwards: of the values
    above t there are then too few, however many are alike, and the mean is off by no more than t
    is.
    """
    finite = jnp.isfinite(values)
    there = jnp.minimum(number, finite.sum())

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        enough = (values >= middle).sum() >= there
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    ends = (jnp.min(values, initial=jnp.inf, where=finite), values.max())
    _, last = lax.fori_loop(0, 20, halve, ends)
    return last + jnp.maximum(values - last, 0.0).sum() / there
