"""Looks that grow from pick to pick, and the offer of every entry that nobody has seen."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from smc_jax.looks import Looks
from smc_jax.observations import Observations
from smc_jax.types import Choice, Offer


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Growing:
    """Looks, and up to B answers that came since they were filled; an entry is seen once.

    A fit takes looks alone: before a refit new ones are filled with the answers too.
    """

    filled: Looks
    row: Array  # [B] int
    column: Array  # [B] int; N where there is no answer yet
    value: Array  # [B]
    number: Array  # [] int: how many answers there are

    @classmethod
    def of(cls, filled: Looks, room: int) -> "Growing":
        """Looks with room for some answers."""
        nowhere = jnp.full(room, filled.columns)
        return cls(filled, jnp.zeros(room, int), nowhere, jnp.zeros(room), jnp.zeros((), int))

    @property
    def rows(self) -> int:
        """D."""
        return self.filled.rows

    @property
    def columns(self) -> int:
        """N."""
        return self.filled.columns

    def at_columns(self, columns: Array) -> Observations:
        """What was seen of some columns [C], as a dense block [D, C]."""
        seen = self.filled.at_columns(columns)
        new = (self.column[:, None] == columns).astype(self.value.dtype)  # [B, C]
        nothing = jnp.zeros((self.rows, columns.size), self.value.dtype)
        count, total = (nothing.at[self.row].add(x) for x in (new, new * self.value[:, None]))
        return jax.tree.map(jnp.add, seen, Observations(count, total, nothing))

    def add(self, row: ArrayLike, column: ArrayLike, value: ArrayLike, seen: Array) -> "Growing":
        """One more answer, where it was seen; `answers` refuses more than there is room for."""
        at = jnp.where(seen, self.number, self.row.size)
        return dataclasses.replace(
            self,
            row=self.row.at[at].set(row, mode="drop"),
            column=self.column.at[at].set(column, mode="drop"),
            value=self.value.at[at].set(value, mode="drop"),
            number=self.number + seen,
        )

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Growing":
        """The same for values (y - centre) / scale, both []."""
        value = (self.value - centre) / scale
        filled = self.filled.relative_to(centre, scale)
        return dataclasses.replace(self, filled=filled, value=value)

    def answers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and values of the answers since the looks were filled, on the host."""
        number = int(self.number)
        if number > self.row.size:
            raise ValueError(f"room: there are {number} answers; make it at least that")
        row, column, value = (np.asarray(x)[:number] for x in (self.row, self.column, self.value))
        return row, column, value


class Unseen(NamedTuple):
    """The standing offer of all entries that were not seen, of a matrix too large for arrays."""

    data: Growing | Looks
    columns: None = None  # every column is present
    chance: None = None  # every ask is answered

    @property
    def open(self) -> Array:
        """Refused: an array of all entries."""
        raise ValueError("policy: needs arrays of all entries; give ids, greedy or ucb `kept`")

    def of(self, columns: Array, seen: Observations | Looks) -> Offer:
        """Some columns [C], of which this was seen, as an offer that names them."""
        is_open = ~seen.dense().seen()
        return Offer(columns, is_open, jnp.ones(is_open.shape, seen.number().dtype))

    def is_open(self, row: Array, column: Array) -> Array:
        """Whether an entry may be chosen []; none is outside the matrix."""
        inside = (row >= 0) & (row < self.data.rows)
        inside &= (column >= 0) & (column < self.data.columns)
        own = self.data.at_columns(jnp.where(inside, column, 0)[None])
        return inside & ~own.seen()[jnp.where(inside, row, 0), 0]

    def without(self, choice: Choice) -> "Unseen":
        """Not for this offer: what was chosen must be answered before the next choice."""
        raise ValueError("asked: must be 1 where the matrix is too large for arrays")
