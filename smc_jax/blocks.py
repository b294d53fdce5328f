"""A function of many columns, some of them at a time: memory does not grow with their number."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


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
    columns = arrays[0].shape[axis]
    width = min(width, columns)

    def block(start: Array | int) -> Any:
        return function(*(lax.dynamic_slice_in_dim(x, start, width, axis) for x in arrays))

    def step(whole: Any, start: Array) -> tuple[Any, None]:
        def put(whole: Array, part: Array) -> Array:
            return lax.dynamic_update_slice_in_dim(whole, part, start, axis=-1)

        return jax.tree.map(put, whole, block(start)), None

    shapes = jax.eval_shape(lambda: block(0))
    whole = jax.tree.map(lambda x: jnp.zeros((*x.shape[:-1], columns), x.dtype), shapes)
    starts = jnp.minimum(width * jnp.arange(-(-columns // width)), columns - width)
    return lax.scan(step, whole, starts)[0]


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
    columns = arrays[0].shape[-1]
    if columns <= width:
        return function(*arrays)
    blocks, rest = divmod(columns, width)

    def block(start: Array | int, size: int) -> tuple[Any, Any]:
        return function(*(lax.dynamic_slice_in_dim(x, start, size, -1) for x in arrays))

    def step(total: Any, start: Array) -> tuple[Any, Any]:
        added, each = block(start, width)
        return jax.tree.map(jnp.add, total, added), each

    def behind_one_another(each: Array) -> Array:  # [blocks, ..., width]
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
    return total, each
