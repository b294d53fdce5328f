"""What is said of observations, however they are stored."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


class NeedsMatrix(ValueError, AttributeError):
    """Looks were asked for what a dense matrix alone can tell."""


def or_one(counts: Array) -> Array:
    """Counts to divide by: one where nothing was seen; a count may be a fraction."""
    return jnp.where(counts > 0, counts, 1.0)


def entry_of(matrix: Array, row: ArrayLike, column: ArrayLike) -> Array:
    """One entry, as a gather: a slice of a matrix over devices would bring all of it together."""
    return matrix.at[jnp.asarray(row)[None], jnp.asarray(column)[None]].get(mode="clip")[0]


def units_of(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Centre and scale of values; the scale is 1 where their variance is no more than rounding."""
    rounding = 4 * jnp.finfo(mean.dtype).eps * mean
    varies = variance > rounding**2
    return mean, jnp.sqrt(jnp.where(varies, variance, 1.0))


class Entry(NamedTuple):
    """What was seen of one entry."""

    count: Array  # type: ignore[assignment]  # []  how often it was seen
    mean: Array  # []  of its values, 0 where there are none


class Misfit(NamedTuple):
    """What a fit leaves of the values that were seen."""

    total: Array  # [N]  sum of the residuals of all observations of a column
    squares: Array  # [N]  sum of their squares


class Slopes(NamedTuple):
    """What a fit leaves of the values, and how it pulls at the rows."""

    squares: Array  # [N]  sum of squared residuals of all observations of a column
    of_rows: Any  # for `row_slopes`, to be added up over blocks of columns
