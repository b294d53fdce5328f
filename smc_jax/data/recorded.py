"""Matrices of real ratings as problems: an answer is what was recorded."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.beliefs.history import History, check_temper
from smc_jax.checks import at_least
from smc_jax.observations import Observations
from smc_jax.simulation.problem import Problem


def recorded(
    values: np.ndarray,
    mask: np.ndarray,
    *,
    columns: int | None = None,
    history: int = 0,
    temper: float = 1.0,
) -> Callable[..., Problem]:
    """A function (key, seed=0) -> a matrix of ratings, of which those under the mask exist.

    Args:
      values: ratings [D, N], numbers where the mask is; elsewhere they may be NaN.
      mask: which of them exist; no other entry is ever available.
      columns: how many columns the key draws, without replacement; None takes all that are left.
      history: how many other columns the key draws, all of whose ratings policies are told of. They
        are never offered. Which columns the matrix has does not depend on their number.
      temper: what an observation of history counts as; see `History.of`.
    """
    at_least("history", history, 0)
    check_temper(temper)
    width = np.shape(values)[1]
    if history and columns is None:
        columns = width - history
    if columns is not None and not 1 <= columns <= width - history:
        raise ValueError(
            f"columns: must lie between 1 and {width - history}, the columns that a history of"
            f" {history} leaves of {width}, got {columns}"
        )
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
            drawn = jax.random.choice(key, width, (columns + history,), replace=False)
            entries, available = entries[:, drawn], available[:, drawn]
        known = None
        if history:
            earlier = Observations.from_matrix(entries[:, columns:], available[:, columns:])
            known = History.of(earlier, temper=temper)
            entries, available = entries[:, :columns], available[:, :columns]
        return Problem(entries, jnp.zeros((), held.dtype), available, None, known)

    return make
