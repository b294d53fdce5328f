"""Where the labels of lines go so that none covers another."""

from collections.abc import Sequence

import numpy as np


def spread(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Positions that keep the order of the wanted ones and are at least a gap apart.

    The sum of the squared distances between the positions and the wanted ones is the least that
    there is between the two ends. Where the labels do not fit, the gap shrinks.

    Args:
      wanted: where each label would be if it were alone.
      gap: the least distance of two labels.
      low: the lowest position.
      high: the highest position.
    """
    number = len(wanted)
    if not number:
        return []
    if number > 1:
        gap = min(gap, (high - low) / (number - 1))
    order = np.argsort(wanted, kind="stable")
    # With k gaps taken off the k-th position, positions a gap apart become positions in order:
    # neighbours that are out of order share the mean of what they wanted.
    pools: list[list[float]] = []
    for value in np.asarray(wanted, float)[order] - gap * np.arange(number):
        pools.append([float(value)])
        while len(pools) > 1 and np.mean(pools[-2]) >= np.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    placed = np.clip(level, low, high - gap * (number - 1)) + gap * np.arange(number)
    found = np.empty(number)
    found[order] = placed
    return found.tolist()
