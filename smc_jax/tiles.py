"""The looks at one group of columns, tile by tile, and what a fit asks of them.

A tile has L looks at one column. What it adds to K x K matrices is one small product of matrices,
X'X of the loadings X [L, K] of its rows, each times the root of its count; tiles of one column are
then added up. On a CPU a product costs about 1 us and what its looks cost, while the loadings of a
group stay in a cache: see `dealing`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.symmetric import upper_triangle
from smc_jax.layout import Layout
from smc_jax.seen import Misfit, Slopes, or_one


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tiles:
    """What was seen of B columns, as `Observations` has it of a block."""

    row: Array  # [T, L] int
    owner: Array  # [T] int: the column of a tile, ascending
    count: Array  # [T, L]  how often an entry was seen; 0 where a slot is empty
    total: Array  # [T, L]  sum of its values
    scatter: Array  # [T, L]  sum of their squared deviations from their mean
    rows: int = dataclasses.field(metadata={"static": True})  # D
    columns: int = dataclasses.field(metadata={"static": True})  # B

    def _summed(self, of_tiles: Array) -> Array:
        """The sum [B, ...] over the tiles [T, ...] of a column."""
        return jax.ops.segment_sum(of_tiles, self.owner, self.columns, indices_are_sorted=True)

    def _reach(self, loadings: Array) -> Array:
        """sqrt(count) w_d of each look [T, L, K]."""
        return jnp.sqrt(self.count)[..., None] * loadings[self.row]

    def by_column(self) -> Array:
        """The number of observations of each column [B]."""
        return self._summed(self.count.sum(1))

    def gram(self, loadings: Array, variance: Array) -> Array:
        """Upper triangles [K (K + 1) / 2, B] of the sum of w w' / variance over a column."""
        reach = self._reach(loadings)
        products = self._summed(jnp.einsum("tlk,tlm->tkm", reach, reach))
        (i, j), _ = upper_triangle(loadings.shape[1])
        flat = products.reshape(self.columns, -1).T
        return flat[i * loadings.shape[1] + j] / variance

    def field(self, loadings: Array, intercepts: Array, variance: Array) -> Array:
        """W'(y - b) / variance [K, B], summed over the observations of a column."""
        centred = (self.total - self.count * intercepts[self.row]) / or_one(jnp.sqrt(self.count))
        field = jnp.einsum("tlk,tl->tk", self._reach(loadings), centred)
        return self._summed(field).T / variance

    def _residual(self, loadings: Array, intercepts: Array, latents: Array) -> Array:
        """y - b - W x, for latents [K, B], summed over the observations of an entry [T, L]."""
        explained = jnp.einsum("tlk,tk->tl", self._reach(loadings), latents.T[self.owner])
        centred = self.total - self.count * intercepts[self.row]
        return centred - jnp.sqrt(self.count) * explained

    def misfit(self, loadings: Array, intercepts: Array, latents: Array) -> Misfit:
        """What b + W x_n, for latents [K, B], leaves of the values."""
        residual = self._residual(loadings, intercepts, latents)
        squares = self.scatter + residual**2 / or_one(self.count)
        return Misfit(self._summed(residual.sum(1)), self._summed(squares.sum(1)))

    def slopes(
        self,
        loadings: Array,
        intercepts: Array,
        latents: Array,
        covariance: Array,
        variance: Array,
    ) -> Slopes:
        """What m_n [K, B] leaves, and its pull at W and b, C_n [K (K + 1) / 2, B] between them.

        A look at row d adds (e m_n - count C_n w_d) / variance to the gradient for w_d and
        e / variance to that for b_d, with e the residual.
        """
        k = len(latents)
        _, position = upper_triangle(k)
        variances = jnp.broadcast_to(variance, (self.columns,))
        pull = self._residual(loadings, intercepts, latents) / variances[self.owner][:, None]
        within = (
            covariance[position.ravel()].T.reshape(self.columns, k, k) / variances[:, None, None]
        )
        moved = jnp.einsum("tlk,tkm->tlm", self._reach(loadings), within[self.owner])
        away = pull[..., None] * latents.T[self.owner][:, None]
        at = away - jnp.sqrt(self.count)[..., None] * moved
        of_loadings = jnp.zeros_like(loadings, at.dtype).at[self.row].add(at)
        of_intercepts = jnp.zeros(self.rows, at.dtype).at[self.row].add(pull)
        squares = self.misfit(loadings, intercepts, latents).squares
        return Slopes(squares, (of_loadings, of_intercepts))


def over_groups(
    function: Callable[..., tuple[Any, Any]],
    layout: Layout,
    statistics: tuple[Array, ...],
    by_column: dict[str, Array],
    rows: int,
) -> tuple[Any, Any]:
    """Applies a function to the groups of columns, one after another: see `Looks.over_columns`.

    Args:
      function: from the `Tiles` of a group, and keywords.
      layout: where the looks are.
      statistics: count, total and scatter [G, T, L].
      by_column: the keywords, arrays whose last axis is the columns.
      rows: D.
    """
    members = layout.members

    def grouped(array: Array) -> Array:
        return jnp.moveaxis(jnp.take(array, members, axis=-1, mode="clip"), -2, 0)

    def together(each: Array) -> Array:  # [G, ..., B]
        each = jnp.moveaxis(each, 0, -2)
        flat = each.reshape(*each.shape[:-2], members.size)
        return jnp.take(flat, layout.position, axis=-1)

    def one(group: tuple) -> tuple[Any, Any]:
        of_tiles, own = group
        row, owner, count, total, scatter = of_tiles
        seen = Tiles(row, owner, count, total, scatter, rows, members.shape[1])
        return function(seen, **own)

    def step(total: Any, group: tuple) -> tuple[Any, Any]:
        added, each = one(group)
        return jax.tree.map(jnp.add, total, added), each

    groups = (layout.row, layout.owner, *statistics), jax.tree.map(grouped, by_column)
    first = jax.tree.map(lambda x: x[0], groups)
    if len(members) == 1:
        added, each = one(first)
        return added, jax.tree.map(lambda x: together(x[None]), each)
    shapes = jax.eval_shape(lambda: one(first)[0])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, each = lax.scan(step, nothing, groups)
    return total, jax.tree.map(together, each)
