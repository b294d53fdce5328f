"""What was seen as lists of looks: memory and cost follow what was seen, not D x N.

They answer the questions that a fit asks of `Observations`, which are quicker where more than a
fifth of the entries was seen. Looks lie in groups of columns, as `dealing` puts them; a pass over
the data takes one group at a time, so that the memory it needs is that of one group.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax.dealing import check_settings, deal, merged, sizes
from smc_jax.layout import Layout, Turn
from smc_jax.observations import Observations
from smc_jax.seen import Entry, Misfit, NeedsMatrix, or_one, units_of
from smc_jax.tiles import Tiles, over_groups

Seen = Any  # Observations or Looks


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Looks:
    """Sufficient statistics of the entries that were seen, and of no others."""

    count: Array  # [G, T, L]  how often an entry was seen; 0 where a slot is empty
    total: Array  # [G, T, L]  sum of its values
    scatter: Array  # [G, T, L]  sum of their squared deviations from their mean
    layout: Layout
    turn: Turn | None
    rows: int = dataclasses.field(metadata={"static": True})  # D
    columns: int = dataclasses.field(metadata={"static": True})  # N

    @classmethod
    def of(
        cls,
        row: ArrayLike,
        column: ArrayLike,
        value: ArrayLike,
        weight: ArrayLike = 1.0,
        *,
        rows: int,
        columns: int,
        like: "Looks | None" = None,
        groups: int | None = None,
        width: int | None = None,
        turns: bool = True,
        seed: int = 0,
    ) -> "Looks":
        """Looks [n] at entries; an entry may be seen more than once.

        Args:
          row: of the entry.
          column: of the entry.
          value: what was seen.
          weight: how often, which may be a fraction.
          rows: D.
          columns: N.
          like: looks of a similar number before, whose shapes are kept where these fit into them: a
            program is then not compiled again.
          groups: G, between which the columns are shared out; None is what is quick. The fewest
            columns that a step of SVI can take are those of one group.
          width: L, of a tile; None is what is quick.
          turns: whether columns can be made rows, which Gibbs sampling needs; it takes half as much
            memory again.
          seed: of how the columns are dealt.
        """
        old = None if like is None else (like.rows, like.columns)
        check_settings(groups, width, old, (rows, columns))
        given = [np.asarray(x) for x in (row, column, value, weight)]
        one, other, seen, often = np.broadcast_arrays(*given)
        looks = merged(one, other, seen, often, rows, columns)
        random = np.random.default_rng(seed)
        before = None if like is None else like.layout.sizes
        shape = before or sizes(looks.column, columns, rows, width=width, groups=groups)
        own = deal(looks.row, looks.column, columns, shape, random)
        turn = None
        if turns:
            order = np.argsort(looks.row, kind="stable")
            across, along = looks.column[order], looks.row[order]
            before = None if like is None or like.turn is None else like.turn.layout.sizes
            shape = before or sizes(along, rows, columns, width=width, groups=groups)
            turned = deal(across, along, rows, shape, random)
            turn = Turn.of(turned, own.slot[order], own.row.size)

        def placed(values: np.ndarray) -> Array:
            slots = np.zeros(own.row.size, jnp.result_type(float))
            slots[own.slot] = values
            return jnp.asarray(slots.reshape(own.row.shape))

        statistics = (placed(x) for x in (looks.count, looks.total, looks.scatter))
        made = _looks(statistics, Layout.of(own), rows, columns)
        return dataclasses.replace(made, turn=turn)

    def __getattr__(self, name: str) -> NoReturn:
        if name in vars(Observations) and not name.startswith("_"):
            raise NeedsMatrix(f"{name}: needs the whole matrix, which looks are not; use dense()")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @property
    def groups(self) -> int:
        """G."""
        return self.layout.row.shape[-3]

    @property
    def slots(self) -> int:
        """How many looks the arrays have room for."""
        return self.count.size

    @property
    def counts_refusals(self) -> bool:
        """Whether refusals are counted."""
        return False

    def of_values(self) -> "Looks":
        """What was seen, without who refused to answer."""
        return self

    def number(self) -> Array:
        """How many observations there are []."""
        return self.count.sum()

    def mean(self) -> Array:
        """The mean [] of all values, 0 where there are none, rounded once."""
        number = or_one(self.number())
        rough = self.total.sum() / number
        return rough + (self.total - self.count * rough).sum() / number

    def variance(self) -> Array:
        """The mean [] of the squared deviations of all values from their mean."""
        return self.error_about(jnp.full(self.rows, self.mean())) / or_one(self.number())

    def units(self) -> tuple[Array, Array]:
        """Mean and standard deviation [] of all values; where all are alike the latter is 1."""
        return units_of(self.mean(), self.variance())

    def by_row(self) -> tuple[Array, Array]:
        """The number of observations of each row [D], and the sum of their values [D]."""
        nothing = jnp.zeros(self.rows, self.count.dtype)
        row = self.layout.row
        return nothing.at[row].add(self.count), nothing.at[row].add(self.total)

    def _by_column(self, of_looks: Array) -> Array:
        """The sum [N] over the looks [G, T, L] at a column."""
        groups, size = self.layout.members.shape
        owner = (self.layout.owner + size * jnp.arange(groups)[:, None]).ravel()
        of_tiles = of_looks.sum(-1).ravel()
        summed = jax.ops.segment_sum(of_tiles, owner, groups * size, indices_are_sorted=True)
        return summed[self.layout.position]

    def _of_tiles(self, of_columns: Array) -> Array:
        """What the column [N] of a tile has [G, T, 1]."""
        own = jnp.take(of_columns, self.layout.members, mode="clip")
        return jnp.take_along_axis(own, self.layout.owner, axis=1)[..., None]

    def by_column(self) -> Array:
        """The number of observations of each column [N]."""
        return self._by_column(self.count)

    def above(self, centre: Array) -> Array:
        """The sum [N], over the observations of a column, of y - centre [D]."""
        return self._by_column(self.total - self.count * centre[self.layout.row])

    def error_about(self, centre: Array) -> Array:
        """The sum [] of (y - centre_d)^2, for a centre [D], over all observations."""
        left = self.total / or_one(self.count) - centre[self.layout.row]
        return (self.scatter + self.count * left**2).sum()

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Looks":
        """The same for values (y - centre) / scale, both [] ; see `less` for others."""
        if jnp.ndim(centre) or jnp.ndim(scale):
            raise ValueError(
                "relative_to: lists of looks take one centre and one scale; use less()"
            )
        total = (self.total - self.count * centre) / scale
        return dataclasses.replace(self, total=total, scatter=self.scatter / scale**2)

    def tempered(self, weight: ArrayLike) -> "Looks":
        """The same with every observation counted as `weight` observations: a power likelihood."""
        names = ("count", "total", "scatter")
        return dataclasses.replace(self, **{name: weight * getattr(self, name) for name in names})

    def less(
        self, left: Array, right: Array, *, rows: Array, columns: Array, scale: Array
    ) -> "Looks":
        """The same for values (y - left_d'right_n - rows_d - columns_n) / scale_n.

        Args:
          left: [D, R], or [1, R] where all rows have the same.
          right: [N, R].
          rows: [D], or [1].
          columns: [N].
          scale: [N].
        """
        row, alike = self.layout.row, len(left) == 1
        centre = self._of_tiles(columns + (right @ left[0] if alike else 0.0))
        centre = centre + (rows[0] if len(rows) == 1 else rows[row])
        if not alike:

            def product(group: tuple[Array, ...]) -> Array:
                row, owner, right = group
                return jnp.einsum("tlr,tr->tl", left[row], right[owner])

            own = jnp.take(right, self.layout.members, axis=0, mode="clip")
            centre = centre + lax.map(product, (row, self.layout.owner, own))
        scale = self._of_tiles(scale)
        total = (self.total - self.count * centre) / scale
        return dataclasses.replace(self, total=total, scatter=self.scatter / scale**2)

    def transposed(self) -> "Looks":
        """The same with columns as rows; what comes out cannot be turned back."""
        if self.turn is None:
            raise ValueError("transposed: these looks cannot be turned; make them with turns=True")

        source, stored = self.turn.source, (self.count, self.total, self.scatter)
        statistics = (jnp.take(x.ravel(), source, mode="fill", fill_value=0) for x in stored)
        return _looks(statistics, self.turn.layout, self.columns, self.rows)

    def at_columns(self, columns: Array) -> Observations:
        """What was seen of some columns [C], as a dense block [D, C].

        It takes a pass over the group of each, or one over all looks where that is less.
        """
        stored = (self.count, self.total, self.scatter)
        if columns.size >= self.groups:
            return self._at_many(columns, stored)

        def one(n: Array) -> Observations:
            place = self.layout.position[n]
            group, own = jnp.divmod(place, self.layout.members.shape[1])
            mine = (self.layout.owner[group] == own)[:, None]
            row, nothing = self.layout.row[group], jnp.zeros(self.rows, self.count.dtype)
            each = (jnp.where(mine, x[group], 0.0) for x in stored)
            return Observations(*(nothing.at[row].add(x) for x in each))

        return jax.tree.map(jnp.transpose, lax.map(one, columns))

    def _at_many(self, columns: Array, stored: tuple[Array, ...]) -> Observations:
        """The same by one pass over all looks."""
        number = columns.size
        first = jnp.full(self.columns + 1, number).at[columns].set(jnp.arange(number))
        own = jnp.take_along_axis(self.layout.members, self.layout.owner, axis=1)
        where = self.layout.row, first[own][..., None]
        block = jnp.zeros((self.rows, number), self.count.dtype)
        found = Observations(*(block.at[where].add(x, mode="drop") for x in stored))
        return found.at_columns(first[columns])  # a column may be named twice

    def blocks(self, width: int) -> Array:
        """All columns, a group at a time [G, B]; N stands for none. The width is for dense ones."""
        del width
        return self.layout.members

    def of_block(self, number: Array, columns: Array) -> "Looks":
        """What was seen of the columns of one of the `blocks`."""
        del columns
        return self.some_groups(number[None])[0]

    def dense(self) -> Observations:
        """The whole matrix [D, N]."""
        return self.at_columns(jnp.arange(self.columns))

    def column(self, n: Array) -> Observations:
        """What was seen of one column [D, 1]."""
        return self.at_columns(jnp.asarray(n)[None])

    def entry(self, row: ArrayLike, column: ArrayLike) -> Entry:
        """What was seen of one entry."""
        return self.column(jnp.asarray(column)).entry(row, 0)

    def some_groups(self, index: Array) -> tuple["Looks", Array]:
        """The looks at the columns of some groups [g], and which columns these are [g B].

        Where a group has fewer than B columns, others stand in at which nobody looked.
        """
        members = self.layout.members[index]
        fresh = jnp.arange(members.size).reshape(members.shape)
        row, owner = self.layout.row[index], self.layout.owner[index]
        layout = Layout(row, owner, fresh, fresh.ravel())
        statistics = (x[index] for x in (self.count, self.total, self.scatter))
        return _looks(statistics, layout, self.rows, members.size), members.ravel()

    def over_columns(
        self,
        function: Callable[..., tuple[Any, Any]],
        by_column: dict[str, Array],
        *,
        width: int | None = None,
    ) -> tuple[Any, Any]:
        """Applies a function to the groups of columns, one after another.

        Args:
          function: from the `Tiles` of a group, and keywords, to what is added up over the groups,
            and what each column has: arrays with columns on the last axis.
          by_column: the keywords, arrays whose last axis is the columns.
          width: for dense observations alone.
        """
        del width
        statistics = (self.count, self.total, self.scatter)
        return over_groups(function, self.layout, statistics, by_column, self.rows)

    def gram(self, loadings: Array, variance: Array) -> Array:
        """Upper triangles [K (K + 1) / 2, N] of the sum of w w' / variance over a column."""
        own = {"variance": jnp.broadcast_to(variance, (self.columns,))}
        return self.over_columns(lambda seen, variance: ((), seen.gram(loadings, variance)), own)[1]

    def field(self, loadings: Array, intercepts: Array, variance: Array) -> Array:
        """W'(y - b) / variance [K, N], summed over the observations of a column."""
        own = {"variance": jnp.broadcast_to(variance, (self.columns,))}

        def one(seen: Tiles, variance: Array) -> tuple[tuple, Array]:
            return (), seen.field(loadings, intercepts, variance)

        return self.over_columns(one, own)[1]

    def misfit(self, loadings: Array, intercepts: Array, latents: Array) -> Misfit:
        """What b + W x_n, for latents [K, N], leaves of the values."""

        def one(seen: Tiles, latents: Array) -> tuple[tuple, Misfit]:
            return (), seen.misfit(loadings, intercepts, latents)

        return self.over_columns(one, {"latents": latents})[1]

    def row_slopes(self, loadings: Array, of_rows: Any) -> tuple[Array, Array]:
        """The gradients [D, K] and [D] for W and b that `Tiles.slopes` has, added up."""
        return of_rows

    def moment(self, centre: Array, vector: Array) -> Array:
        """(Z Z' - diag(Z Z')) u [D], with Z the means of the entries less a centre [D] of the rows.

        An entry that counts as a fraction of an observation has that part in Z Z'.
        """
        row, mean = self.layout.row, self.total / or_one(self.count)
        z = jnp.sqrt(jnp.minimum(self.count, 1.0)) * (mean - centre[row])
        along = self._of_tiles(self._by_column(z * vector[row]))
        return jnp.zeros_like(vector).at[row].add(z * (along - z * vector[row]))


def _looks(statistics: Iterable[Array], layout: Layout, rows: int, columns: int) -> Looks:
    """Looks that cannot be turned."""
    count, total, scatter = statistics
    return Looks(count, total, scatter, layout, None, rows, columns)
