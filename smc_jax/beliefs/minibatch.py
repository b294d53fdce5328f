"""Some columns at random for a step of SVI: neighbours in an order that is drawn anew."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.columns import merged, shards, split
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


def ring(key: Array, observations: Observations, columns: int) -> Ring:
    """A random order of the columns, of which `columns` neighbours can be taken from any start.

    Data often come in an order that means something: neighbours are alike, and a few of them would
    tell less of all the others than as many at random.
    """
    devices = shards(observations.columns)
    everything = observations.columns // devices
    own = min(max(columns // devices, 1), everything)
    order = jax.random.permutation(key, everything)
    order = jnp.concatenate([order, order[: own - 1]])
    ordered = jax.tree.map(lambda x: jnp.take(split(x, 1, devices), order, axis=-1), observations)
    return Ring(order, ordered, own)


def columns_from(
    start: Array, around: Ring, parameters: Parameters
) -> tuple[Parameters, Observations, float]:
    """Columns start, start + 1, ... of a ring, and what to multiply their likelihood by.

    For a start that is uniform on 0, ..., N - 1 every column is as likely as any other to be taken,
    and the product is unbiased in whatever order. All rings start at the same position.
    """
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
