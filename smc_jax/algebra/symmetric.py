"""Symmetric K x K matrices by their upper triangles, half the work of the whole; no LAPACK."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def upper_triangle(k: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Rows and columns [K (K + 1) / 2] of its entries, and where [K, K] each of the whole is."""
    row, column = np.triu_indices(k)
    position = np.zeros((k, k), int)
    position[row, column] = position[column, row] = np.arange(row.size)
    return (row, column), position


class Solved(NamedTuple):
    """What `solve` finds of N matrices A = L L', T = K (K + 1) / 2."""

    inverse: Array  # [T, N]  upper triangles of A^-1
    solution: Array  # [K, N]  A^-1 b
    log_det: Array  # [N]
    draw: Array  # [K, N]  L^-T z ~ N(0, A^-1); zeros without normals z


def solve(triangles: Array, vectors: Array, normals: Array | None = None) -> Solved:
    """K Gauss-Jordan sweeps without pivoting over matrices with eigenvalues >= 1, batch axis last.

    Sweep k maps A to A without its row and column k, minus v v'/d, where d = A_kk and v is row k
    with v_k = -1; all K of them give -A^-1, and the log determinant is the sum of log d. With b as
    one more column of A, which is never swept, they leave A^-1 b there. Of row k at its turn, the
    entries before k, with v_k, are -sqrt(d) times column k of L^-T.

    Args:
      triangles: upper triangles [T, N] of the matrices.
      vectors: b [K, N].
      normals: z [K, N], where a draw is wanted.
    """
    k = len(vectors)
    (first, second), position = upper_triangle(k)
    here = np.arange(k)
    # The matrix with b as its last column: rows and columns of the entries, and where row k is.
    rows = np.concatenate([first, here])
    columns = np.concatenate([second, np.full(k, k)])
    bordered = jnp.asarray(np.column_stack([position, first.size + here]))

    def sweep(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, pivots, draw = carry
        row = a[bordered[i]]  # [K + 1, N]
        pivot = jnp.maximum(lax.dynamic_index_in_dim(row, i, 0), 1.0)  # but for rounding, it is
        row = lax.dynamic_update_index_in_dim(row, -jnp.ones_like(pivot), i, 0)
        if normals is not None:
            z = lax.dynamic_index_in_dim(normals, i, 0)
            upto = (here <= i)[:, None]
            draw = draw - jnp.where(upto, row[:-1], 0.0) * (z / jnp.sqrt(pivot))
        others = ((rows != i) & (columns != i))[:, None]
        a = jnp.where(others, a, 0.0) - row[rows] * (row / pivot)[columns]
        return a, lax.dynamic_update_index_in_dim(pivots, pivot, i, 0), draw

    start = (jnp.concatenate([triangles, vectors]), jnp.ones_like(vectors), jnp.zeros_like(vectors))
    swept, pivots, draw = lax.fori_loop(0, k, sweep, start)
    return Solved(-swept[: first.size], swept[first.size :], jnp.log(pivots).sum(0), draw)
