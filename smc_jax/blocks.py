"""A function of many columns, some of them at a time: memory does not grow with their number.

Where columns are shared out over devices, a block takes as many from each.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.sharding import by_columns, shards


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
