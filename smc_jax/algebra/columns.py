"""A function of many columns, some of them at a time, and columns over several devices.

Memory does not grow with the number of columns. Where there is a mesh with the axis AXIS, columns
lie on its devices and XLA partitions the same program: what is said here decides where arrays lie.
Sums over columns are then rounded otherwise, and where a step of SVI takes some columns, it takes
others. A block of columns takes as many from each device.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec

AXIS = "smc_columns"  # not one that a mesh of the caller's is likely to have


def shards(columns: int) -> int:
    """Over how many devices the columns are shared out evenly; 1 without such a mesh."""
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


def split(array: Array, axis: int, devices: int) -> Array:
    """The columns' axis as two: devices, and the columns of each."""
    axis %= array.ndim
    before, columns, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    return by_columns(array.reshape(*before, devices, columns // devices, *after), axis)


def merged(array: Array, axis: int) -> Array:
    """Undoes `split`, which left the devices on that axis."""
    axis %= array.ndim
    before, after = array.shape[:axis], array.shape[axis + 2 :]
    return array.reshape(*before, array.shape[axis] * array.shape[axis + 1], *after)


def each_column(
    function: Callable[..., Any], arrays: Sequence[Array], *, axis: int, width: int
) -> Any:
    """Applies the function to blocks of `width` columns; nothing is added up over them.

    Where `width` does not divide their number, the last block overlaps the one before.

    Args:
      function: from blocks of the arrays to arrays with columns on the last axis, each of which
        depends on its own column alone.
      arrays: with the same number of columns.
      axis: of the arrays, on which they are.
      width: columns at once.
    """
    devices = shards(arrays[0].shape[axis])
    arrays = [split(x, axis, devices) for x in arrays]
    columns = arrays[0].shape[axis + 1]
    width = min(max(width // devices, 1), columns)

    def block(start: Array | int) -> Any:
        parts = (lax.dynamic_slice_in_dim(x, start, width, axis + 1) for x in arrays)
        found = function(*(merged(part, axis) for part in parts))
        return jax.tree.map(lambda x: split(x, -1, devices), found)

    def step(made: Any, start: Array) -> tuple[Any, None]:
        def put(made: Array, part: Array) -> Array:
            return lax.dynamic_update_slice_in_dim(made, part, start, axis=-1)

        return jax.tree.map(put, made, block(start)), None

    shapes = jax.eval_shape(lambda: block(0))
    made = jax.tree.map(lambda x: jnp.zeros((*x.shape[:-1], columns), x.dtype), shapes)
    starts = jnp.minimum(width * jnp.arange(-(-columns // width)), columns - width)
    made, _ = lax.scan(step, made, starts)
    return jax.tree.map(lambda x: by_columns(merged(x, -2), -1), made)


def over_columns(
    function: Callable[..., tuple[Any, Any]], arrays: Sequence[Array], *, width: int
) -> tuple[Any, Any]:
    """Applies the function to blocks of `width` columns, which are the last axis of the arrays.

    Args:
      function: from blocks of the arrays to what is added up over the blocks, and what is one
        behind the other: arrays with columns on the last axis.
      arrays: with the same last axis.
      width: columns at once; where there are no more than that, the function is just called.
    """
    if arrays[0].shape[-1] <= width:
        return function(*arrays)
    devices = shards(arrays[0].shape[-1])
    arrays = [split(x, -1, devices) for x in arrays]
    columns = arrays[0].shape[-1]
    width = max(width // devices, 1)
    blocks, rest = divmod(columns, width)

    def block(start: Array | int, size: int) -> tuple[Any, Any]:
        parts = (lax.dynamic_slice_in_dim(x, start, size, -1) for x in arrays)
        added, each = function(*(merged(part, -2) for part in parts))
        return added, jax.tree.map(lambda x: split(x, -1, devices), each)

    def step(total: Any, start: Array) -> tuple[Any, Any]:
        added, each = block(start, width)
        return jax.tree.map(jnp.add, total, added), each

    def behind_one_another(each: Array) -> Array:  # [blocks, ..., devices, width]
        each = jnp.moveaxis(each, 0, -2)
        return each.reshape(*each.shape[:-2], blocks * width)

    shapes = jax.eval_shape(lambda: block(0, width)[0])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, each = lax.scan(step, nothing, width * jnp.arange(blocks))
    each = jax.tree.map(behind_one_another, each)
    if rest:
        added, last = block(blocks * width, rest)
        total = jax.tree.map(jnp.add, total, added)
        each = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=-1), each, last)
    return total, jax.tree.map(lambda x: merged(x, -2), each)
