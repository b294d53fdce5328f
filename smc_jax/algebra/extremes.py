"""The largest of many values: `jnp.argmax` and `lax.top_k` are slow on CPUs, these are not."""

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike


def argmax(values: Array) -> Array:
    """Flat index of the first of the largest values; where one is NaN, the size of the array."""
    index = jnp.arange(values.size).reshape(values.shape)
    return jnp.where(values == values.max(), index, values.size).min()


def first_largest(values: Array) -> tuple[Array, Array]:
    """Row and column of the largest of the values [D, C]: the first row, then the first column.

    Where one is NaN, the row is D: there is no such entry.
    """
    rows = jnp.arange(values.shape[0])[:, None]
    row = jnp.where(values == values.max(), rows, values.shape[0]).min()
    return row, argmax(jnp.take(values, row, axis=0, mode="clip"))


def argmin(values: Array) -> Array:
    """Flat index of the first of the smallest values; where one is NaN, the size of the array."""
    return argmax(-values)


def number_th_largest(values: Array, number: ArrayLike) -> Array:
    """The number-th largest [] of the finite values, or the least of them if there are fewer.

    A bisection finds it to 2^-20 of the range of the values, by passes over them in place of a
    sort. It errs upwards.
    """
    finite = jnp.isfinite(values)
    there = jnp.minimum(number, finite.sum())

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        enough = (values >= middle).sum() >= there
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    ends = (jnp.min(values, initial=jnp.inf, where=finite), values.max())
    return lax.fori_loop(0, 20, halve, ends)[1]


def mean_of_largest(values: Array, number: ArrayLike) -> Array:
    """Mean [] of the `number` largest values, or of all finite ones if there are fewer; 0 of none.

    Let t be the number-th largest value; the mean is t + sum(max(v - t, 0)) / number. It is off by
    no more than t is.
    """
    there = jnp.minimum(number, jnp.isfinite(values).sum())
    last = number_th_largest(values, number)
    mean = last + jnp.maximum(values - last, 0.0).sum() / jnp.maximum(there, 1)
    return jnp.where(there > 0, mean, 0.0)
