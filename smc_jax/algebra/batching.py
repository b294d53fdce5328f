"""How many at once: caches decide on a CPU, an accelerator takes all of them side by side."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax


def at_once(on_cpu: int, everything: int) -> int:
    """How many of `everything` things to compute side by side on the default platform."""
    return on_cpu if jax.default_backend() == "cpu" else everything


def mapped(function: Callable[..., Any], arguments: Any, *, on_cpu: int) -> Any:
    """The function over the leading axis: `on_cpu` at a time on a CPU, else all in one vmap."""
    everything = jax.tree.leaves(arguments)[0].shape[0]
    width = at_once(on_cpu, everything)
    if width == 1:  # a vmap of one would make every product a batched one
        return lax.map(function, arguments)
    if width >= everything:
        return jax.vmap(function)(arguments)
    return lax.map(function, arguments, batch_size=width)
