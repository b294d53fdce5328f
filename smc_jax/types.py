"""The pytrees that flow between the modules. D rows, N columns, K the rank bound."""

from typing import NamedTuple

import chex
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


class Parameters(NamedTuple):
    """One draw of the model's parameters; all positive but intercepts and signed loadings."""

    loadings: Array  # [D, K]  W
    strengths: Array  # [K]  r
    gamma: Array  # []
    gamma0: Array  # []
    c0: Array  # []
    sigma: Array  # []  noise standard deviation
    intercepts: Array  # [D]  b, zeros where the model has none
    noise_scales: Array  # [N]  of each column's noise, in sigmas; [] one where it is the same

    def noise(self) -> Array:
        """Standard deviation of the noise in each column [N], or [] in all of them."""
        return self.sigma * self.noise_scales

    def noise_at(self, column: Array) -> Array:
        """Standard deviation [] of the noise in one column."""
        noise = self.noise()
        return jnp.take(noise, column, mode="clip") if noise.ndim else noise

    @classmethod
    def plain(cls, loadings: Array, sigma: Array, intercepts: Array | None = None) -> "Parameters":
        """W, sigma and b of a model without the hyperparameters, which are ones."""
        rows, k = loadings.shape
        one = jnp.ones((), loadings.dtype)
        b = jnp.zeros(rows, loadings.dtype) if intercepts is None else intercepts
        return cls(loadings, jnp.ones(k, loadings.dtype), one, one, one, sigma, b, one)


class Unconstrained(NamedTuple):
    """The parameters mapped to the whole real line: logs, but for what has a sign already."""

    loadings: Array  # [D, K]
    strengths: Array  # [K]
    gamma: Array | None  # []  None where the loadings are signed
    gamma0: Array  # []
    c0: Array  # []
    sigma: Array | None  # []  None where the noise is known
    intercepts: Array | None  # [D]  None where the model has none
    noise_scales: Array | None  # [N]  None where the noise is the same in all columns


class Observations(NamedTuple):
    """Sufficient statistics of all that has been seen, entry by entry."""

    count: Array  # type: ignore[assignment]  # [D, N]  times seen: a mask if never twice
    total: Array  # [D, N]  sum of the values seen
    square: Array  # [D, N]  sum of their squares

    @classmethod
    def empty(cls, rows: int, columns: int) -> "Observations":
        """Nothing seen yet."""
        zeros = jnp.zeros((rows, columns))
        return cls(zeros, zeros, zeros)

    @classmethod
    def from_matrix(cls, values: Array, mask: Array) -> "Observations":
        """Each entry under the mask seen once; values elsewhere are ignored, NaN included."""
        chex.assert_equal_shape([values, mask])
        count = jnp.asarray(mask, jnp.result_type(float))
        values = jnp.where(count > 0, values, 0.0).astype(count.dtype)
        return cls(count, values, values**2)

    def average(self) -> Array:
        """The mean [D, N] of the looks at each entry, 0 where there are none."""
        return self.total / jnp.maximum(self.count, 1.0)

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Observations":
        """The same looks at values (y - centre) / scale; both broadcast against [D, N]."""
        count, total, square = self
        squares = square - 2 * centre * total + count * centre**2
        return Observations(count, (total - count * centre) / scale, squares / scale**2)

    def add(self, row: Array, column: Array, value: Array, weight: Array) -> "Observations":
        """One more look at an entry; weight 0 leaves everything as it was."""
        return Observations(
            self.count.at[row, column].add(weight),
            self.total.at[row, column].add(weight * value),
            self.square.at[row, column].add(weight * value**2),
        )


class View(NamedTuple):
    """All that a policy may look at before it chooses."""

    observations: Observations
    available: Array  # [D, N] bool: may be chosen now
    discount: Array  # [D, N]: beta^(times chosen before)


class Outcome(NamedTuple):
    """What one choice showed."""

    row: Array  # [] int
    column: Array  # [] int
    value: Array  # []  the entry, with noise, before the discount
    weight: Array  # []  1 if the look showed something new, 0 if not (a repeat at beta = 0)

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Outcome":
        """The same look at a value (y - centre) / scale."""
        return self._replace(value=(self.value - centre) / scale)
