"""What is known of rows and of columns beforehand, as coordinates that samplers can use one by one.

A table F [n, P] of features enters the model as F B with independent normal weights B of one
variance. With F = U diag(s) V' this is U diag(s) B' for weights B' = V'B of the same distribution:
the columns of U diag(s) are orthogonal, there are at most n of them however many features there
are, and nothing of the size P x P is ever made.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy import sparse

SMALLEST = 1e-6  # singular values below this part of the largest are rounding


class Features(NamedTuple):
    """Coordinates of the rows and of the columns, and a prediction; None where there is none.

    Coordinates are centred, their columns are orthogonal, and rows have a mean squared norm of one.
    """

    rows: Array | np.ndarray | None = None  # [D, M]
    columns: Array | np.ndarray | None = None  # [N, Q]
    entries: Array | np.ndarray | None = None  # [D, N]  as `entry_prediction` makes it

    def known(self) -> bool:
        """Whether anything is."""
        return any(table is not None for table in self)

    def beside(self, table: ArrayLike | None, number: int) -> "Features":
        """The same with that many columns more, of which nothing is predicted beyond their rows.

        The data have b_d + a q_dn, whose mean over the columns of a row is no b_d: a column of
        history has it too, or b would be torn between the two and a with it. Without a table
        [M, Q] of coordinates the columns are average ones.
        """
        if self.columns is None and table is not None:
            raise ValueError("features: the belief knows no features of columns")
        found = self
        if self.entries is not None:
            entries = jnp.asarray(self.entries, float)
            usual = jnp.repeat(entries.mean(1, keepdims=True), number, axis=1)
            found = found._replace(entries=jnp.concatenate([entries, usual], axis=1))
        if self.columns is None:
            return found
        own = jnp.asarray(self.columns, float)
        more = jnp.zeros((number, own.shape[1])) if table is None else jnp.asarray(table, float)
        if more.shape[1] != own.shape[1]:
            raise ValueError(
                f"features: history has {more.shape[1]} coordinates a column, but the data have"
                f" {own.shape[1]}; make them of one table"
            )
        return found._replace(columns=jnp.concatenate([own, more]))


def entry_prediction(matrix: ArrayLike, name: str = "prediction") -> np.ndarray:
    """A prediction [D, N] of the values from elsewhere, of mean zero and variance one.

    Where nothing is predicted, NaN, stands what row and column lead to expect: the mean of all
    predictions plus the deviations of the row and of the column, shrunk by one observation each.

    Args:
      matrix: in any unit; the model learns what one unit is worth.
      name: what an error calls it.
    """
    matrix = np.asarray(matrix, float)
    if matrix.ndim != 2 or np.isinf(matrix).any():
        raise ValueError(f"{name}: must be a matrix of numbers, got shape {matrix.shape}")
    given = ~np.isnan(matrix)
    largest = np.abs(matrix[given]).max(initial=0.0)
    if not given.any() or matrix[given].std() <= 1e-12 * largest:
        raise ValueError(f"{name}: no two entries are predicted to differ")
    left = np.where(given, matrix - matrix[given].mean(), 0.0)
    expected = np.zeros_like(left)
    for axis in (1, 0):
        own = (left - given * expected).sum(axis, keepdims=True)
        expected = expected + own / (1.0 + given.sum(axis, keepdims=True))
    whole = np.where(given, left, expected)
    whole = whole - whole.mean()
    return whole / whole.std()


def coordinates(table: Any, name: str = "features") -> np.ndarray:
    """U diag(s) [n, M] of a table [n, P] of numbers, centred and scaled as `Features` has them.

    A column of the table that never varies is left out; M is the rank of what is left.

    Args:
      table: the features, one line an id; each column should be of scale one already. A sparse
        one, of `scipy.sparse`, with more columns than lines stays sparse.
      name: what an error calls it.
    """
    if sparse.issparse(table):
        if table.shape[1] > table.shape[0]:
            return _coordinates_of_sparse(table.tocsr(), name)
        table = table.toarray()
    table = np.asarray(table, float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"{name}: must be a matrix of finite numbers, got shape {table.shape}")
    centred = table - table.mean(0)
    n, p = centred.shape
    if p > n:
        scores = _scores_of_products(centred @ centred.T)
    else:
        left, singular, _ = np.linalg.svd(centred, full_matrices=False)
        scores = left * singular
    return _scaled(scores, table.size, np.abs(table).max(initial=0.0), name)


def _coordinates_of_sparse(table: sparse.csr_array, name: str) -> np.ndarray:
    """The coordinates by the products of lines [n, n]; nothing of the size n x P is dense."""
    table = table.astype(float)
    if not np.isfinite(table.data).all():
        raise ValueError(f"{name}: must be a matrix of finite numbers")
    products = (table @ table.T).toarray()
    off = products.mean(0)  # of each line with the mean line
    centred = products - off - off[:, None] + off.mean()
    largest = np.abs(table.data).max(initial=0.0)
    # The products, and their centring, are rounded several times; a score is a root of theirs.
    lost = 16 * np.finfo(float).eps * len(products) * products.diagonal().max(initial=0.0)
    found = _scores_of_products(centred)
    return _scaled(found, np.prod(table.shape), largest, name, float(np.sqrt(lost)))


def _scores_of_products(products: np.ndarray) -> np.ndarray:
    """U diag(s) from F F' [n, n]: there may be far more features than lines."""
    values, vectors = np.linalg.eigh(products)
    return vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))


def _scaled(
    scores: np.ndarray, size: int, largest: float, name: str, lost: float = 0.0
) -> np.ndarray:
    """The coordinates that are more than rounding, scaled as `Features` has them."""
    norms = np.sqrt((scores**2).sum(0))
    rounding = 1e-12 * np.sqrt(size) * largest
    scores = scores[:, norms > max(SMALLEST * norms.max(initial=0.0), rounding, lost)]
    if not scores.size:
        raise ValueError(f"{name}: no feature differs between two lines")
    return scores / np.sqrt((scores**2).sum(1).mean())
