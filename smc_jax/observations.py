"""What was seen, entry by entry, as dense matrices; `looks` has it as lists.

Everybody else asks for the reductions below, or for the dense block of some columns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax.algebra.columns import over_columns
from smc_jax.algebra.symmetric import upper_triangle
from smc_jax.seen import Entry, Misfit, Slopes, entry_of, or_one, units_of


class Observations(NamedTuple):
    """Sufficient statistics of everything that was seen, entry by entry.

    A count need not be whole: an observation of half the weight counts as half an observation.
    """

    counts: Array  # [D, N]  how often an entry was seen
    sums: Array  # [D, N]  sum of the values seen
    scatter: Array  # [D, N]  sum of squared deviations from their mean
    refusals: Array | None = None  # [D, N]  how often no answer came; None: nobody counts

    @classmethod
    def empty(cls, rows: int, columns: int) -> "Observations":
        """Nothing seen yet."""
        zeros = jnp.zeros((rows, columns))
        return cls(zeros, zeros, zeros)

    @classmethod
    def from_matrix(cls, values: ArrayLike, mask: ArrayLike) -> "Observations":
        """Each entry under the mask seen once; values elsewhere are ignored, NaN included."""
        chex.assert_equal_shape([values, mask])
        counts = jnp.asarray(mask, jnp.result_type(float))
        values = jnp.where(counts > 0, values, 0.0).astype(counts.dtype)
        return cls(counts, values, jnp.zeros_like(values))

    @property
    def rows(self) -> int:
        """D."""
        return self.counts.shape[-2]

    @property
    def columns(self) -> int:
        """N."""
        return self.counts.shape[-1]

    def times_seen(self) -> Array:
        """How often each entry was seen [D, N]."""
        return self.counts

    def seen(self) -> Array:
        """Which entries were seen [D, N]."""
        return self.counts > 0

    def of_values(self) -> "Observations":
        """What was seen, without who refused to answer."""
        return Observations(self.counts, self.sums, self.scatter)

    @property
    def counts_refusals(self) -> bool:
        """Whether refusals are counted."""
        return self.refusals is not None

    def times_refused(self) -> Array:
        """How often each entry was asked and no answer came [D, N]; 0 where nobody counts."""
        return jnp.zeros_like(self.counts) if self.refusals is None else self.refusals

    def with_refusals(self, refusals: ArrayLike) -> "Observations":
        """The same with refusals counted, that many [D, N] so far."""
        refusals = jnp.asarray(refusals, self.counts.dtype)
        return Observations(self.counts, self.sums, self.scatter, refusals)

    def refuse(
        self, row: ArrayLike, column: ArrayLike, refused: ArrayLike | None
    ) -> "Observations":
        """One more refusal of an entry, where there was one and refusals are counted."""
        if self.refusals is None or refused is None:
            return self
        more = jnp.asarray(refused, self.refusals.dtype)
        return self.with_refusals(self.refusals.at[row, column].add(more))

    def refused_at(self, row: ArrayLike, column: ArrayLike) -> Array:
        """How often one entry was asked without an answer [], where refusals are counted."""
        assert self.refusals is not None
        return entry_of(self.refusals, row, column)

    def average(self) -> Array:
        """The mean [D, N] of the values seen of each entry, 0 where there are none."""
        return self.sums / or_one(self.counts)

    def number(self) -> Array:
        """How many observations there are []."""
        return self.counts.sum()

    def mean(self) -> Array:
        """The mean [] of all values, 0 where there are none, rounded once."""
        number = or_one(self.number())
        rough = self.sums.sum() / number
        return rough + (self.sums - self.counts * rough).sum() / number

    def variance(self) -> Array:
        """The mean [] of the squared deviations of all values from their mean."""
        return self.squared_error(self.mean()).sum() / or_one(self.number())

    def by_row(self) -> tuple[Array, Array]:
        """The number of observations of each row [D], and the sum of their values [D]."""
        return self.counts.sum(1), self.sums.sum(1)

    def by_column(self) -> Array:
        """The number of observations of each column [N]."""
        return self.counts.sum(0)

    def above(self, centre: Array) -> Array:
        """The sum [N], over the observations of a column, of y - centre [D]."""
        return (self.sums - self.counts * centre[:, None]).sum(0)

    def units(self) -> tuple[Array, Array]:
        """Mean and standard deviation [] of all values; where all are alike the latter is 1."""
        return units_of(self.mean(), self.variance())

    def squared_error(self, fitted: ArrayLike) -> Array:
        """The sum [D, N] of (y - fitted)^2 over the observations of each entry.

        Values are centred before they are squared: where their mean is far above their spread, a
        sum of squares has nothing of the spread left in float32.
        """
        return self.scatter + self.counts * (self.average() - fitted) ** 2

    def error_about(self, centre: Array) -> Array:
        """The sum [] of (y - centre_d)^2, for a centre [D], over all observations."""
        return self.squared_error(centre[:, None]).sum()

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Observations":
        """The same for values (y - centre) / scale; both broadcast against [D, N]."""
        sums = (self.sums - self.counts * centre) / scale
        return Observations(self.counts, sums, self.scatter / scale**2, self.refusals)

    def less(
        self, left: Array, right: Array, *, rows: Array, columns: Array, scale: Array
    ) -> "Observations":
        """The same for values (y - left_d'right_n - rows_d - columns_n) / scale_n.

        Args:
          left: [D, R], or [1, R] where all rows have the same.
          right: [N, R].
          rows: [D], or [1].
          columns: [N].
          scale: [N].
        """
        return self.relative_to(left @ right.T + rows[:, None] + columns, scale)

    def entry(self, row: ArrayLike, column: ArrayLike) -> Entry:
        """What was seen of one entry."""
        count, total = (entry_of(x, row, column) for x in (self.counts, self.sums))
        return Entry(count, total / or_one(count))

    def add(
        self,
        row: ArrayLike,
        column: ArrayLike,
        value: ArrayLike,
        weight: ArrayLike,
        before: Entry | None = None,
    ) -> "Observations":
        """One more value of an entry; weight 0 leaves everything as it was, -1 takes it away.

        A value at a distance d from the mean of the c before it adds d^2 c / (c + 1) to their
        scatter (Welford 1962).

        Args:
          row: of the entry.
          column: of the entry.
          value: what was seen.
          weight: how often.
          before: what was seen of the entry before, where the caller has read it; in a loop, a read
            here would make XLA copy what could be written in place.
        """
        count, mean = self.entry(row, column) if before is None else before
        after = count + weight
        added = jnp.where(after > 0, weight * count / jnp.where(after > 0, after, 1.0), 0.0)
        return Observations(
            self.counts.at[row, column].add(weight),
            self.sums.at[row, column].add(weight * value),
            self.scatter.at[row, column].add(added * (value - mean) ** 2),
            self.refusals,
        )

    def counting(self, more: ArrayLike) -> "Observations":
        """The same with some entries [D, N] counted once more, at the mean of what was seen.

        It is for what depends on the counts alone: the covariances once pending entries are known.
        """
        more = jnp.asarray(more, self.counts.dtype)
        sums = self.sums + more * self.average()
        return Observations(self.counts + more, sums, self.scatter, self.refusals)

    def filled(self, values: ArrayLike, more: ArrayLike) -> "Observations":
        """The same with entries that were never seen counted as often as `more`, at these values.

        Args:
          values: [D, N]  of entries that are added.
          more: [D, N]  how often they are; zero leaves an entry as it is.
        """
        more = jnp.where(self.seen(), 0.0, more)
        sums = self.sums + more * values
        return Observations(self.counts + more, sums, self.scatter, self.refusals)

    def tempered(self, weight: ArrayLike) -> "Observations":
        """The same with every observation counted as `weight` observations: a power likelihood."""
        return jax.tree.map(lambda x: x * weight, self)

    def beside(self, other: "Observations") -> "Observations":
        """The same rows with the columns of another table behind these columns [D, N + M].

        Who refused to answer is not in it: that is of these columns alone.
        """
        if self.rows != other.rows:
            raise ValueError(
                f"history: it has {other.rows} rows, but the data have {self.rows};"
                " give it the rows of the data, in their order"
            )

        def both(own: Array, more: Array) -> Array:
            return jnp.concatenate([own, more.astype(own.dtype)], axis=-1)

        return jax.tree.map(both, self.of_values(), other.of_values())

    def without(self, hidden: Array) -> "Observations":
        """The same without everything that was seen of some entries [D, N]."""
        return jax.tree.map(lambda x: jnp.where(hidden, 0.0, x), self)

    def column(self, n: Array) -> "Observations":
        """What was seen of one column [D, 1]."""
        return jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, n, 1, 1), self)

    def row(self, d: Array) -> "Observations":
        """What was seen of one row [1, N]."""
        return jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, d, 1, 0), self)

    def at_columns(self, columns: Array) -> "Observations":
        """What was seen of some columns [D, C]."""
        return jax.tree.map(lambda x: jnp.take(x, columns, axis=1, mode="clip"), self)

    def blocks(self, width: int) -> Array:
        """All columns, some at a time [blocks, C]: `width` of them, the last block overlapping."""
        columns = self.columns
        width = min(width, columns)
        starts = jnp.minimum(width * jnp.arange(-(-columns // width)), columns - width)
        return starts[:, None] + jnp.arange(width)

    def of_block(self, number: Array, columns: Array) -> "Observations":
        """What was seen of the columns of one of the `blocks`."""
        del number
        return self.at_columns(columns)

    def dense(self) -> "Observations":
        """The same; lists of looks become dense."""
        return self

    def at_rows(self, rows: Array) -> "Observations":
        """What was seen of some rows [R, N]; nothing of a row -1."""
        taken = jax.tree.map(lambda x: jnp.take(x, jnp.maximum(rows, 0), axis=0, mode="clip"), self)
        return taken.without(jnp.broadcast_to(rows[:, None] < 0, (rows.size, self.columns)))

    def transposed(self) -> "Observations":
        """The same with columns as rows."""
        return jax.tree.map(jnp.transpose, self)

    def sum_over_columns(self, features: Array, variance: Array) -> Array:
        """The sum [D, T], over the observations of a row, of features [T, N] / variance."""
        return self.counts / variance @ features.T

    def field(self, loadings: Array, intercepts: Array, variance: Array) -> Array:
        """W'(y - b) / variance [K, N], summed over the observations of a column."""
        return loadings.T @ ((self.sums - self.counts * intercepts[:, None]) / variance)

    def gram(self, loadings: Array, variance: Array) -> Array:
        """Upper triangles [K (K + 1) / 2, N] of the sum of w w' / variance over a column."""
        (i, j), _ = upper_triangle(loadings.shape[1])
        return (loadings[:, i] * loadings[:, j]).T @ (self.counts / variance)

    def residual(self, loadings: Array, intercepts: Array, latents: Array) -> Array:
        """y - b - W x_n, for latents [K, N], summed over the observations of an entry [D, N]."""
        explained = loadings @ latents
        centred = self.sums - self.counts * intercepts[:, None]
        return centred - self.counts * explained

    def misfit(self, loadings: Array, intercepts: Array, latents: Array) -> Misfit:
        """What b + W x_n, for latents [K, N], leaves of the values."""
        residual = self.residual(loadings, intercepts, latents)
        squares = self.scatter + residual**2 / or_one(self.counts)
        return Misfit(residual.sum(0), squares.sum(0))

    def slopes(
        self,
        loadings: Array,
        intercepts: Array,
        latents: Array,
        covariance: Array,
        variance: Array,
    ) -> Slopes:
        """What m_n [K, N] leaves, and its pull at W and b, C_n [K (K + 1) / 2, N] between them."""
        squares = self.misfit(loadings, intercepts, latents).squares
        pull = self.residual(loadings, intercepts, latents) / variance  # found once, once compiled
        spread = self.sum_over_columns(covariance, variance)
        return Slopes(squares, (pull @ latents.T, pull.sum(1), spread))

    def row_slopes(self, loadings: Array, of_rows: Any) -> tuple[Array, Array]:
        """The gradients [D, K] and [D] that `slopes`, added up over all blocks, are for W and b.

        For w_d it is the sum, over the observations of the row, of (e m_n - C_n w_d) / variance
        with e = y - b_d - w_d'm_n, for b_d that of e / variance.
        """
        _, position = upper_triangle(loadings.shape[1])
        of_loadings, of_intercepts, spread = of_rows
        within = jnp.einsum("dkl,dl->dk", spread[:, position], loadings)
        return of_loadings - within, of_intercepts

    def over_columns(
        self,
        function: Callable[..., tuple[Any, Any]],
        by_column: dict[str, Array],
        *,
        width: int | None = None,
    ) -> tuple[Any, Any]:
        """Applies a function to blocks of columns.

        Args:
          function: from what was seen of a block, and keywords, to what is added up over the
            blocks, and what each column has: arrays with columns on the last axis.
          by_column: the keywords, arrays whose last axis is the columns.
          width: columns at once; None is all.
        """
        arrays, structure = jax.tree.flatten((self, by_column))

        def block(*parts: Array) -> tuple[Any, Any]:
            seen, own = jax.tree.unflatten(structure, parts)
            return function(seen, **own)

        return over_columns(block, arrays, width=self.columns if width is None else width)
