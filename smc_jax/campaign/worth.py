"""What an ask is worth: the value that it may bring, how likely an answer is, and what it costs.

The worth of an ask is P(answer) (value - zero) / cost. The zero is a value that is worth nothing:
values may be negative, or low ones wanted, so that nothing else could be divided by a cost, nor be
compared with an ask that is not answered.
"""

import hashlib
import json
import math
import pathlib
from os import PathLike
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.campaign.arguments import file_named, finite
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.checks import can_be_cost
from smc_jax.data.features import Lines, read_lines
from smc_jax.data.offered import costs_of
from smc_jax.data.ratings import DataError
from smc_jax.types import Offer

Path = str | PathLike[str]
DIGEST = "sha256"  # of the cells of a table, in the description of an ask
TENTH = 10  # one value in ten lies below the lower decile
SELDOM = 1e-6  # no P(answer) is taken to be lower: worth is divided by it


class Costs(NamedTuple):
    """What asks cost and what is worth nothing, as somebody who asks says it."""

    lines: Lines | None  # of the table by row, by column or by entry; None where nothing has a cost
    source: str  # what errors call the table
    overhead: float = 0.0  # what every ask costs on top
    worthless: float | None = None  # a value that is worth nothing; None: a low one that is known
    is_gone: bool = False  # whether there was a table that cannot be read any more

    @classmethod
    def checked(
        cls,
        file: Path | None,
        overhead: float | None,
        worthless: float | None,
        policy: str,
        *,
        may_be_gone: bool = False,
    ) -> "Costs | None":
        """What is given, None where nothing is; refused where it makes no sense.

        Args:
          file: of the costs; it is read here, once.
          overhead: what every ask costs on top.
          worthless: a value that is worth nothing.
          policy: of the campaign.
          may_be_gone: whether the file need not be there.
        """
        file_named("costs", file)
        for name, value in (("overhead", overhead), ("worthless", worthless)):
            finite(name, value)
        if file is None and overhead is not None:
            raise CampaignError("overhead: nothing has a cost; give costs (--costs=FILE) too")
        if overhead is not None and overhead < 0.0:
            raise CampaignError(f"overhead: must not be negative, got {overhead!r}")
        if file is None and worthless is None:
            return None
        if policy == "random":
            raise CampaignError(
                f"{'worthless' if file is None else 'costs'}: this campaign chooses at random,"
                " whatever an ask is worth; set another policy first (smc-jax set CAMPAIGN"
                " --policy=ids)"
            )
        lines = None if file is None else _read(file, may_be_gone)
        is_gone = file is not None and lines is None
        return cls(lines, str(file), overhead or 0.0, worthless, is_gone)

    def described(self) -> dict[str, Any]:
        """What it is, as JSON can hold it; without the table where that is gone."""
        found: dict[str, Any] = {"overhead": self.overhead, "worthless": self.worthless}
        if self.is_gone:
            return found
        cells = None if self.lines is None else json.dumps([cells for _, cells in self.lines])
        digest = None if cells is None else hashlib.sha256(cells.encode()).hexdigest()
        return found | {DIGEST: digest}

    def of(
        self,
        needed: np.ndarray,
        row_ids: list[str],
        column_ids: list[str],
        names: tuple[str, str] = (ROW, COLUMN),
    ) -> np.ndarray | None:
        """The cost [D, N] of each ask, the overhead included; NaN where it is not needed.

        Args:
          needed: [D, N] bool, the entries that may be suggested.
          row_ids: of the campaign.
          column_ids: of the campaign.
          names: what the campaign calls a row and a column.

        Returns:
          The costs; None where nothing has a cost.
        """
        if self.lines is None:
            return None
        rows, columns = np.flatnonzero(needed.any(1)), np.flatnonzero(needed.any(0))
        ids = [row_ids[i] for i in rows], [column_ids[i] for i in columns]
        block = np.ix_(rows, columns)
        try:
            found = costs_of(self.lines, self.source, *ids, needed=needed[block], names=names)
        except DataError as error:
            raise CampaignError(f"costs: {error}") from None
        costs = np.full(needed.shape, np.nan)
        costs[block] = np.where(needed[block], found + self.overhead, np.nan)
        lowest, highest = float(np.nanmin(costs)), float(np.nanmax(costs))
        if not can_be_cost(highest / lowest):
            raise CampaignError(
                f"costs: from {lowest:g} to {highest:g} they are too far apart to be compared;"
                " close what nobody could pay (smc-jax close), or give it a lower cost"
            )
        return costs


def _read(file: Path, may_be_gone: bool) -> Lines | None:
    """The lines of a table of costs; None where it is gone and may be."""
    try:
        return read_lines(pathlib.Path(file))
    except OSError as error:
        if may_be_gone:
            return None
        raise CampaignError(f"costs: {file} cannot be read ({error.strerror})") from None
    except (DataError, ImportError) as error:
        raise CampaignError(f"costs: {error}") from None


class Worth(NamedTuple):
    """What makes the worth of an ask, in the model's orientation."""

    zero: float  # the value that is worth nothing, in the units of the campaign
    # Whether it holds as it is. If not, the lower decile of what is expected on offer is the zero
    # where it is worse still, so that most of the offer is worth something.
    firm: bool
    is_told: bool  # whether somebody told the zero: what is expected below it is then a loss
    p_answer: np.ndarray | None  # [D, N]  of an answer; None where answers are certain
    cost: np.ndarray | None  # [D, N]  None where all asks cost the same
    by_mean: bool = True  # whether the rule looks at expected values alone, as greedy does

    def terms(self, units: Units, columns: np.ndarray | None = None) -> "Terms":
        """The same as programs take it, in the model's units and in parts of the lowest cost.

        Args:
          units: of the model.
          columns: the numbers of the columns that are offered; None: all of them.
        """

        def own(array: np.ndarray) -> Array:
            taken = array if columns is None else array[:, columns]
            return jnp.asarray(taken, jnp.result_type(float))

        price, p_answer = None, None
        if self.cost is not None:  # 1 where none is known: such an entry is not offered
            price = own(np.nan_to_num(self.cost / np.nanmin(self.cost), nan=1.0))
        if self.p_answer is not None:
            p_answer = own(np.maximum(self.p_answer, SELDOM))
        zero = jnp.asarray(units.of(self.zero), jnp.result_type(float))
        firm, is_told, by_mean = map(jnp.asarray, (self.firm, self.is_told, self.by_mean))
        return Terms(zero, firm, is_told, by_mean, price, p_answer)


class Terms(NamedTuple):
    """`Worth` as programs take it, of entries that are offered."""

    zero: Array  # []  in the model's units
    firm: Array  # [] bool: the zero holds also where most of the offer is expected to be lower
    is_told: Array  # [] bool: what is expected to be below the zero is a loss
    by_mean: Array  # [] bool: the rule looks at expected values alone
    price: Array | None  # [D, C]  1 is the lowest
    p_answer: Array | None  # [D, C]

    def settled(self, mean: Array, is_open: Array) -> "Settled":
        """What asks are worth where these are the expected values of the open entries.

        What is expected to be below a zero that was told is a loss. A high price, or a doubtful
        answer, would make it smaller, so that it counts as if it were certain and cost the least:
        under a rule that looks at expected values always, and under other rules, which hope for
        more than is expected, where nothing but losses is expected on offer.
        """

        def decile() -> Array:
            ordered = jnp.sort(jnp.where(is_open, mean, jnp.inf), axis=None)
            return ordered[(is_open.sum() - 1) // TENTH]

        zero = lax.cond(self.firm, lambda: self.zero, lambda: jnp.minimum(self.zero, decile()))
        rate = jnp.ones_like(mean) if self.p_answer is None else self.p_answer
        rate = rate if self.price is None else rate / self.price
        losing = mean <= zero
        all_losing = jnp.where(is_open, losing, True).all()
        in_full = self.is_told & losing & (self.by_mean | all_losing)
        return Settled(zero, jnp.where(in_full, 1.0, rate), self.p_answer)


class Settled(NamedTuple):
    """The worth of asks as a line in the value: rate (value - zero)."""

    zero: Array  # []  in the model's units
    rate: Array  # [D, C]  P(answer) / price, 1 where a loss counts in full
    p_answer: Array | None  # [D, C]

    def worth(self, value: Array) -> Array:
        """What asks of all offered entries are worth at these values [D, C]."""
        return self.rate * (value - self.zero)

    def offer(self, offer: Offer) -> Offer:
        """An offer whose rewards, factor P(answer) (value - zero), are what asks are worth."""
        factor = self.rate if self.p_answer is None else self.rate / self.p_answer
        return offer._replace(factor=factor, chance=self.p_answer)


def low_known(matrix: Matrix) -> float:
    """The lower decile of the known values, in the units of the campaign, or the second worst.

    A single value that is out of all proportion does not decide what is worth nothing. Repeated
    values of an entry are averaged.
    """
    known = np.sort(np.asarray(matrix.data.average(), float)[matrix.known])
    if not known.size:
        return math.nan
    return float(matrix.units.back(known[-(-(known.size - 1) // TENTH)]))
