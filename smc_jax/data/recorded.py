"""Matrices of real ratings as problems: an answer is what was recorded."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.simulation.problem import Problem


def recorded(
    values: np.ndarray, mask: np.ndarray, *, columns: int | None = None
) -> Callable[..., Problem]:
    """A function (key, seed=0) -> a matrix of ratings, of which those under the mask exist.

    Args:
      values: ratings [D, N], numbers where the mask is; elsewhere they may be NaN.
      mask: which of them exist; no other entry is ever available.
      columns: how many columns the key draws, without replacement; None takes all.
    """
    held, exists = jnp.asarray(values, jnp.result_type(float)), jnp.asarray(mask, bool)
    broken = np.argwhere(np.asarray(exists & ~jnp.isfinite(held)))
    if len(broken):
        row, column = broken[0]
        raise ValueError(
            f"values: must be finite under the mask, got {np.asarray(values)[row, column]} at"
            f" row {row}, column {column}; correct it, or set the mask to False there"
        )
    held = jnp.where(exists, held, 0.0)

    def make(key: Array, seed: Array | int = 0) -> Problem:
        del seed
        # Or XLA would sort what exists while it compiles.
        entries, available = lax.optimization_barrier((held, exists))
        if columns is not None:
            drawn = jax.random.choice(key, held.shape[1], (columns,), replace=False)
            entries, available = entries[:, drawn], available[:, drawn]
        return Problem(entries, jnp.zeros((), held.dtype), available, truth=None)

    return make
