"""Some columns at random for a step of SVI: neighbours in an order that is drawn anew."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.columns import merged, shards, split
from smc_jax.looks import Looks, Seen
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


class Ring(NamedTuple):
    """The columns in a random order, with the first few again at the end.

    Any `own` neighbours can then be cut out from any start. Columns that lie on several devices
    make one ring on each device, all in the same order: which columns are taken together depends
    on the number of devices.
    """

    order: Array  # [L] int: which column of its device each one is
    observations: Observations  # [D, devices, L]
    own: int  # how many columns a device takes at once; no array, since shapes depend on it

    @property
    def starts(self) -> int:
        """How many places there are to start from."""
        return self.observations.columns


class Hand(NamedTuple):
    """The groups of columns of lists of looks in a random order, with the first few again."""

    order: Array  # [G + own - 1] int
    looks: Looks
    own: int  # how many groups are taken at once

    @property
    def starts(self) -> int:
        """How many places there are to start from."""
        return self.looks.groups

    def taken(self, start: Array, parameters: Parameters) -> tuple[Parameters, Looks, float]:
        """What `columns_from` returns; every group has every column once, or none."""
        index = lax.dynamic_slice_in_dim(self.order, start % self.starts, self.own)
        looks, members = self.looks.some_groups(index)
        return parameters.at_columns(members), looks, self.starts / self.own


def ring(key: Array, observations: Seen, columns: int) -> Ring | Hand:
    """A random order of the columns, of which `columns` neighbours can be taken from any start.

    Data often come in an order that means something: neighbours are alike, and a few of them would
    tell less of all the others than as many at random.
    """
    if isinstance(observations, Looks):
        groups = observations.groups
        own = min(max(round(columns * groups / observations.columns), 1), groups)
        order = jax.random.permutation(key, groups)
        return Hand(jnp.concatenate([order, order[: own - 1]]), observations, own)
    devices = shards(observations.columns)
    everything = observations.columns // devices
    own = min(max(columns // devices, 1), everything)
    order = jax.random.permutation(key, everything)
    order = jnp.concatenate([order, order[: own - 1]])
    ordered = jax.tree.map(lambda x: jnp.take(split(x, 1, devices), order, axis=-1), observations)
    return Ring(order, ordered, own)


def columns_from(
    start: Array, around: Ring | Hand, parameters: Parameters
) -> tuple[Parameters, Seen, float]:
    """Columns start, start + 1, ... of a ring, and what to multiply their likelihood by.

    For a start that is uniform on 0, ..., N - 1 every column is as likely as any other to be taken,
    and the product is unbiased in whatever order. All rings start at the same position.
    """
    if isinstance(around, Hand):
        return around.taken(start, parameters)
    order, own = around.order, around.own
    everything = order.size - own + 1  # of one ring
    start = start % everything
    taken = lax.dynamic_slice_in_dim(order, start, own)

    def of_these(each: Array) -> Array:
        """What belongs to these columns."""
        return merged(split(each, 0, len(each) // everything)[:, taken], 0)

    own_parameters = parameters.with_columns(of_these)

    def window(ordered: Array) -> Array:
        return merged(lax.dynamic_slice_in_dim(ordered, start, own, -1), 1)

    windows = jax.tree.map(window, around.observations)
    return own_parameters, windows, everything / own
