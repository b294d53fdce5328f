"""Columns of one big matrix over devices: where there is a mesh with that axis, else nothing.

XLA partitions the same program: what is said here decides where arrays lie, never what they hold.
"""

from typing import Any

import jax
from jax import Array
from jax.sharding import PartitionSpec

AXIS = "columns"


def shards(columns: int) -> int:
    """Over how many devices so many columns are shared out evenly; 1 without such a mesh."""
    devices = jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)
    return devices if columns % devices == 0 else 1


def column_spec(shape: tuple[int, ...], columns: int) -> PartitionSpec:
    """The last axis with so many entries is taken for the columns'."""
    found = [axis for axis, size in enumerate(shape) if size == columns]
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
