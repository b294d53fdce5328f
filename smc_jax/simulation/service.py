"""How the picks of a run are shared out among the columns: who is served."""

from typing import NamedTuple

import numpy as np

from smc_jax.simulation.regret import Curves


class Service(NamedTuple):
    """The picks that each column got, and the average of its entries, one line a seed."""

    picks: np.ndarray  # [seeds, N]
    average: np.ndarray  # [seeds, N]  NaN where a column has no entries
    regret: np.ndarray  # [seeds]  at the end


def gini(picks: np.ndarray) -> float:
    """Half the mean difference between two columns' picks, over the mean.

    0: every column got as many picks; near 1: one column got all.
    """
    ordered = np.sort(picks)
    rank = np.arange(1, ordered.size + 1)
    return float((2 * rank - ordered.size - 1) @ ordered / (ordered.size * ordered.sum()))


def service(curves: Curves, average: np.ndarray) -> Service:
    """Counts the picks of each column.

    Args:
      curves: of a finished sweep.
      average: [seeds, N] of each column's entries in the matrix of each seed.
    """
    columns = average.shape[1]
    picks = [np.bincount(cols[cols >= 0], minlength=columns) for cols in curves.cols]
    return Service(np.stack(picks), average, curves.regret[:, -1])


class Shares(NamedTuple):
    """How evenly columns are served, as means over the seeds."""

    regret: float  # at the end
    gini: float  # of the picks over the columns
    top_tenth: float  # share of the picks that went to the tenth with the highest averages
    correlation: float  # of a column's picks with its average
    unserved: float  # share of the columns that got no picks


def describe(served: Service) -> Shares:
    """The figures of a run. A column without entries cannot be served, and is left out."""
    each = []
    for picks, average in zip(served.picks, served.average, strict=True):
        if not picks.any():
            raise ValueError("served: a seed of the run made no picks")
        there = np.isfinite(average)
        picks, average = picks[there], average[there]
        highest = np.argsort(-average)[: max(average.size // 10, 1)]
        together = (picks - picks.mean()) @ (average - average.mean())
        apart = picks.size * picks.std() * average.std()
        each.append(
            (
                gini(picks),
                picks[highest].sum() / picks.sum(),
                together / apart if apart > 0 else 0.0,
                (picks == 0).mean(),
            )
        )
    return Shares(float(served.regret.mean()), *map(float, np.mean(each, axis=0)))
