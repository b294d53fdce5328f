"""What is known of rows and of columns beforehand, as coordinates that samplers can use one by one.

A table F [n, P] of features enters the model as F B with independent normal weights B of one
variance. With F = U diag(s) V' this is U diag(s) B' for weights B' = V'B of the same distribution:
the columns of U diag(s) are orthogonal, there are at most n of them however many features there
are, and nothing of the size P x P is ever made.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

SMALLEST = 1e-6  # singular values below this part of the largest are rounding


class Features(NamedTuple):
    """Coordinates of the rows and of the columns; None where nothing is known of them.

    Each is centred, its columns are orthogonal, and rows have a mean squared norm of one.
    """

    rows: Array | np.ndarray | None = None  # [D, M]
    columns: Array | np.ndarray | None = None  # [N, Q]

    def beside(self, table: ArrayLike | None, number: int) -> "Features":
        """The same with that many columns more; without a table [M, Q] they are average ones."""
        if self.columns is None:
            if table is not None:
                raise ValueError("features: the belief knows no features of columns")
            return self
        own = jnp.asarray(self.columns, float)
        more = jnp.zeros((number, own.shape[1])) if table is None else jnp.asarray(table, float)
        if more.shape[1] != own.shape[1]:
            raise ValueError(
                f"features: history has {more.shape[1]} coordinates a column, but the data have"
                f" {own.shape[1]}; make them of one table"
            )
        return self._replace(columns=jnp.concatenate([own, more]))


def coordinates(table: ArrayLike, name: str = "features") -> np.ndarray:
    """U diag(s) [n, M] of a table [n, P] of numbers, centred and scaled as `Features` has them.

    A column of the table that never varies is left out; M is the rank of what is left.

    Args:
      table: the features, one line an id; each column should be of scale one already.
      name: what an error calls it.
    """
    table = np.asarray(table, float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"{name}: must be a matrix of finite numbers, got shape {table.shape}")
    centred = table - table.mean(0)
    n, p = centred.shape
    if p > n:  # by the n x n products: there may be far more features than lines
        values, vectors = np.linalg.eigh(centred @ centred.T)
        scores = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    else:
        left, singular, _ = np.linalg.svd(centred, full_matrices=False)
        scores = left * singular
    norms = np.sqrt((scores**2).sum(0))
    rounding = 1e-12 * np.sqrt(table.size) * np.abs(table).max(initial=0.0)
    scores = scores[:, norms > max(SMALLEST * norms.max(initial=0.0), rounding)]
    if not scores.size:
        raise ValueError(f"{name}: no feature differs between two lines")
    return scores / np.sqrt((scores**2).sum(1).mean())
