"""What an ask is worth: the value that it may bring, how likely an answer is, and what it costs.

The worth of an ask is P(answer) (value - zero) / cost. The zero is a value that is worth nothing:
values may be negative, or low ones wanted, so that nothing else could be divided by a cost, nor be
compared with an ask that is not answered.
"""

import hashlib
import math
from os import PathLike
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.data.offered import read_costs
from smc_jax.data.ratings import DataError

Path = str | PathLike[str]
LARGEST = 1e30


class Costs(NamedTuple):
    """What asks cost, as somebody who asks says it."""

    file: Path  # of costs by row, by column or by entry
    overhead: float = 0.0  # what every ask costs on top
    worthless: float | None = None  # a value that is worth nothing; None: the worst that is known

    @classmethod
    def checked(
        cls, file: Path | None, overhead: float | None, worthless: float | None, policy: str
    ) -> "Costs | None":
        """What is given, None where no file is; refused where it makes no sense."""
        for name, value in (("overhead", overhead), ("worthless", worthless)):
            if value is not None and file is None:
                raise CampaignError(f"{name}: nothing has a cost; give costs (--costs=FILE) too")
            if value is not None and not abs(value) <= LARGEST:
                raise CampaignError(f"{name}: must be a finite number, got {value!r}")
        if file is None:
            return None
        if overhead is not None and overhead < 0.0:
            raise CampaignError(f"overhead: must not be negative, got {overhead!r}")
        if policy == "random":
            raise CampaignError(
                "costs: this campaign chooses at random, whatever an entry costs; set another"
                " policy first (smc-jax set CAMPAIGN --policy=ids)"
            )
        return cls(file, overhead or 0.0, worthless)

    def described(self) -> dict[str, Any]:
        """What it is, as JSON can hold it."""
        try:
            with open(self.file, "rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise CampaignError(f"costs: {self.file} cannot be read ({error.strerror})") from None
        return {"sha256": digest, "overhead": self.overhead, "worthless": self.worthless}

    def of(
        self,
        needed: np.ndarray,
        row_ids: list[str],
        column_ids: list[str],
        names: tuple[str, str] = (ROW, COLUMN),
    ) -> np.ndarray:
        """The cost [D, N] of each ask, the overhead included; NaN where it is not needed.

        Args:
          needed: [D, N] bool, the entries that may be suggested.
          row_ids: of the campaign.
          column_ids: of the campaign.
          names: what the campaign calls a row and a column.
        """
        rows, columns = np.flatnonzero(needed.any(1)), np.flatnonzero(needed.any(0))
        ids = [row_ids[i] for i in rows], [column_ids[i] for i in columns]
        block = np.ix_(rows, columns)
        try:
            found = read_costs(self.file, *ids, needed=needed[block], names=names)
        except (DataError, OSError, ImportError) as error:
            told = getattr(error, "strerror", None)
            raise CampaignError(f"costs: {f'{self.file}: {told}' if told else error}") from None
        costs = np.full(needed.shape, np.nan)
        costs[block] = np.where(needed[block], found + self.overhead, np.nan)
        return costs


class Worth(NamedTuple):
    """What makes the worth of an ask, in the model's orientation."""

    zero: float  # the value that is worth nothing, in the units of the campaign
    # Whether that was told. If not, the lowest expected value on offer is the zero where it is
    # worse still, so that nothing is expected to be a loss.
    firm: bool
    chance: np.ndarray | None  # [D, N]  of an answer; None where answers are certain
    cost: np.ndarray | None  # [D, N]  None where all asks cost the same

    @property
    def unit(self) -> float:
        """The lowest cost of an ask."""
        assert self.cost is not None
        return float(np.nanmin(self.cost))

    def price(self) -> np.ndarray | None:
        """The costs [D, N] in parts of the lowest one; 1 where none is known."""
        return None if self.cost is None else np.nan_to_num(self.cost / self.unit, nan=1.0)

    def from_model(self, matrix: Matrix, mean: np.ndarray, is_open: np.ndarray) -> "Worth":
        """The same with the zero that holds among the open entries of a matrix.

        Args:
          matrix: with the units of the means.
          mean: [D, N] expected values.
          is_open: [D, N] bool.
        """
        if self.firm or not is_open.any():
            return self._replace(firm=True)
        lowest = min(float(matrix.units.of(self.zero)), float(mean[is_open].min()))
        return self._replace(zero=float(matrix.units.back(lowest)), firm=True)

    def of(self, value: np.ndarray, mean: np.ndarray, zero: float) -> np.ndarray:
        """The worth of values [D, N], in parts of the lowest cost.

        A loss is not made smaller by a higher cost: see `Terms`.

        Args:
          value: [D, N] in the model's units.
          mean: [D, N] what is expected of the entries.
          zero: the value that is worth nothing, in the model's units.
        """
        found = value - zero
        if self.chance is not None:
            found = self.chance * found
        price = self.price()
        return found if price is None else found / np.where(mean > zero, price, 1.0)


class Terms(NamedTuple):
    """`Worth` as programs take it, of entries that are offered: P(answer) (value - zero) / price.

    An entry that is expected to be below the zero is worth as little as at the lowest price: a
    high price would make its loss smaller.
    """

    zero: Array  # []  in the model's units
    firm: Array  # [] bool: the zero holds also where the lowest expected value is lower
    price: Array | None  # [D, C]  1 is the lowest
    chance: Array | None  # [D, C]  of an answer

    def settled(self, mean: Array, is_open: Array) -> "Terms":
        """The same for entries that are expected to be so, with the zero and the price to use."""
        lowest = jnp.where(is_open, mean, jnp.inf).min()
        zero = jnp.where(self.firm, self.zero, jnp.minimum(self.zero, lowest))
        price = None if self.price is None else jnp.where(mean > zero, self.price, 1.0)
        return self._replace(zero=zero, price=price)

    def worth(self, value: Array) -> Array:
        """What asks of all offered entries are worth at these values [D, C]."""
        found = value - self.zero
        found = found if self.chance is None else self.chance * found
        return found if self.price is None else found / self.price


def worst_known(matrix: Matrix) -> float:
    """The worst value that is known, in the units of the campaign; repeated ones are averaged."""
    if not matrix.known.any():
        return math.nan
    return float(matrix.units.back(np.asarray(matrix.data.average())[matrix.known].min()))
