"""What passes between a policy and whoever asks it: an offer, a choice, an outcome."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


class Offer(NamedTuple):
    """What may be chosen now.

    An offer without `columns` is the standing one: every column is present, and between two calls
    of a policy `factor` changes only in the entry whose outcome was absorbed, and what closes in
    `open` stays closed. A policy may keep what it found for a column, and heeds what closed since.
    An offer with `columns` promises nothing: a policy finds what it needs of those columns anew.
    """

    columns: Array | None  # [C] int: the columns that are present; None: all N of them
    open: Array  # [D, C] bool: the entries that may be chosen
    factor: Array  # [D, C]: what the value of an entry is multiplied by; it is not negative
    # What a policy believes of answers; an environment does not tell.
    chance: Array | None = None  # [D, C]: the probability of an answer; None: it is certain

    def column_of(self, position: Array) -> Array:
        """The column at a position of the offer."""
        if self.columns is None:
            return position
        return jnp.take(self.columns, position, mode="clip")

    def is_open(self, row: Array, column: Array) -> Array:
        """Whether an entry of a standing offer may be chosen []; none is outside the matrix."""
        return self.open.at[row, column].get(mode="fill", fill_value=False)

    def without(self, choice: "Choice") -> "Offer":
        """The same offer with one entry closed; nothing closes where there is no such entry."""
        row, column = choice
        if self.columns is None:
            row = jnp.where(row < 0, self.open.shape[0], row)
            return self._replace(open=self.open.at[row, column].set(False, mode="drop"))
        rows = jnp.arange(self.open.shape[0])[:, None]
        return self._replace(open=self.open & ~((rows == row) & (self.columns == column)))

    def of(self, columns: Array, seen: Any) -> "Offer":
        """Some columns [C] of a standing offer, as an offer that names them.

        What was `seen` of these columns is for offers that are no arrays; see `growing.Unseen`.
        """
        del seen

        def some(array: Array | None) -> Any:
            return None if array is None else jnp.take(array, columns, axis=1, mode="clip")

        return Offer(columns, some(self.open), some(self.factor), some(self.chance))

    def everyone(self) -> "Offer":
        """The same offer with its columns named, so that nothing that was kept is used."""
        if self.columns is not None:
            return self
        return self._replace(columns=jnp.arange(self.open.shape[1]))


class Choice(NamedTuple):
    """One entry; row and column are -1 where a score behind the choice was not a number."""

    row: Array  # [] int
    column: Array  # [] int


class Outcome(NamedTuple):
    """What one choice showed."""

    row: Array  # [] int
    column: Array  # [] int
    value: Array  # []  the entry, with noise, before the factor
    answered: Array  # [] bool: whether the value was shown, and was not known already
    refused: Array | None = None  # [] bool: whether no answer came; None: nobody counts refusals

    @property
    def weight(self) -> Array:
        """1.0 where there was an answer, else 0.0, in the precision of the value."""
        return jnp.asarray(self.answered, jnp.asarray(self.value).dtype)

    def relative_to(self, centre: ArrayLike, scale: ArrayLike = 1.0) -> "Outcome":
        """The same outcome for values (y - centre) / scale."""
        return self._replace(value=(self.value - centre) / scale)
