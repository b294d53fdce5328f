"""Columns of one big matrix over devices: where there is a mesh with that axis, else nothing.

XLA partitions the same program: what is said here decides where arrays lie. Sums over columns are
then rounded otherwise, and where a step of SVI looks at some columns, they are others.
"""

from typing import Any

import jax
from jax import Array
from jax.sharding import PartitionSpec

AXIS = "smc_columns"  # not one that a mesh of the caller's is likely to have


def shards(columns: int) -> int:
    """Over how many devices so many columns are shared out evenly; 1 without such a mesh."""
    devices = jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)
    return devices if columns % devices == 0 else 1


def column_spec(shape: tuple[int, ...], columns: int) -> PartitionSpec:
    """Of an array with seeds on its first axis: the last axis of that length is the columns'.

    Where another axis is as long, an array may be cut the wrong way, which costs time alone.
    """
    found = [axis for axis, size in enumerate(shape) if axis > 0 and size == columns]
    return _spec(len(shape), found[-1]) if found else PartitionSpec()


def _spec(axes: int, axis: int) -> PartitionSpec:
    return PartitionSpec(*(AXIS if i == axis % axes else None for i in range(axes)))


def by_columns(array: Array, axis: int) -> Array:
    """The array with that axis over the devices."""
    if shards(array.shape[axis]) == 1:
        return array
    return jax.lax.with_sharding_constraint(array, _spec(array.ndim, axis))


def whole(tree: Any) -> Any:
    """Arrays of which every device has all."""
    if AXIS not in jax.sharding.get_abstract_mesh().shape:
        return tree
    return jax.lax.with_sharding_constraint(tree, PartitionSpec())
