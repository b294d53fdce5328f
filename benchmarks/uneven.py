"""Entries that are seen as unevenly as films and users are."""

import numpy as np

SPREAD = 1.0  # standard deviation of the logarithm of how often a row, or a column, is seen


def uneven_entries(
    rows: int, columns: int, number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a number of entries; how often each is seen is log-normal."""
    weights = [np.cumsum(rng.lognormal(0.0, SPREAD, side)) for side in (rows, columns)]
    entries = np.empty(0, np.int64)
    while entries.size < number:
        drawn = [np.searchsorted(w, w[-1] * rng.random(number)) for w in weights]
        entries = np.unique(np.append(entries, drawn[0] * columns + drawn[1]))
    row, column = np.divmod(rng.permutation(entries)[:number], columns)
    return row, column
