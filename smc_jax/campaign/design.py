"""Entries to begin with, before any value is known: spread over rows and columns."""

import numpy as np


def designed_start(
    rng: np.random.Generator, is_open: np.ndarray, taken: np.ndarray, number: int
) -> list[tuple[int, int]]:
    """Open entries such that rows, and columns, are tried equally often, as far as that goes.

    Rows and columns are put in a random order. Each entry is in the first of the columns that were
    taken least, and there in the first of the open rows that were taken least: where nothing is
    closed or taken, these are the diagonals of the table, one after another.

    Args:
      rng: puts rows and columns in order.
      is_open: [D, N] bool, the entries that may be asked.
      taken: [D, N] bool, the entries that are known or pending.
      number: how many entries; fewer where not so many are open.
    """
    rows, columns = (rng.permutation(size) for size in is_open.shape)
    is_open = is_open[np.ix_(rows, columns)]
    in_row, in_column = taken.sum(1)[rows].astype(float), taken.sum(0)[columns].astype(float)
    found: list[tuple[int, int]] = []
    left = is_open.sum(0)
    while len(found) < number and left.any():
        column = int(np.argmin(np.where(left > 0, in_column, np.inf)))
        row = int(np.argmin(np.where(is_open[:, column], in_row, np.inf)))
        found.append((int(rows[row]), int(columns[column])))
        is_open[row, column] = False
        left[column] -= 1
        in_row[row] += 1
        in_column[column] += 1
    return found
