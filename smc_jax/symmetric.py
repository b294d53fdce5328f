"""Symmetric K x K matrices by their upper triangles, half the work of the whole."""

import numpy as np


def upper_triangle(k: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Rows and columns [K (K + 1) / 2] of its entries, and where [K, K] each of the whole is."""
    row, column = np.triu_indices(k)
    place = np.zeros((k, k), int)
    place[row, column] = place[column, row] = np.arange(row.size)
    return (row, column), place
