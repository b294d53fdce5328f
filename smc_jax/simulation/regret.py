"""From the record of a sweep to regret curves, and what is told of them with its uncertainty."""

from typing import NamedTuple

import jax
import numpy as np
from scipy import stats

from smc_jax.simulation.sweep import Progress

FRACTIONS = (10, 25, 50, 100)  # percent of the horizon


class Curves(NamedTuple):
    """What a finished sweep leaves, as NumPy arrays with the seeds on the first axis."""

    regret: np.ndarray  # [seeds, horizon] cumulative, noise never counted
    reward: np.ndarray  # [seeds, horizon] as received
    rows: np.ndarray  # [seeds, horizon]
    cols: np.ndarray  # [seeds, horizon]
    elbo: np.ndarray  # [seeds, batches]
    effective_rank: np.ndarray  # [seeds, batches]
    signal_rank: np.ndarray  # [seeds, batches]
    completion_error: np.ndarray  # [seeds, batches]  held out; NaN where it was not asked for
    zero_error: np.ndarray  # [seeds, batches]  of predicting 0 in its place
    answered: np.ndarray  # [seeds, horizon] bool: an entry was asked, and an answer came


def curves(progress: Progress, stop: np.ndarray | None = None) -> Curves:
    """The sweep's results; picks that the last batch made beyond the horizon are cut.

    `stop` [seeds] is the refit at which each seed's run ended, -1 for never. Its later picks are
    recorded as row and column -1 and reward 0, its regret and its refits' records stay as at the
    stop. A sweep may end early if all of its seeds have.
    """
    best = np.asarray(progress.best, np.float64)
    seeds, horizon = best.shape
    batches, made = progress.batches, progress.steps.row.shape[1]
    batch = made // batches
    last = np.full(seeds, batches) if stop is None else np.where(stop < 0, batches, stop)
    picked = np.arange(horizon) < batch * last[:, None]

    def picks(values: np.ndarray, otherwise: float) -> np.ndarray:
        padded = np.pad(values[:, :horizon], ((0, 0), (0, max(horizon - made, 0))))
        return np.where(picked, padded, np.asarray(otherwise, values.dtype))

    def refits(values: np.ndarray) -> np.ndarray:
        index = np.arange(-(-horizon // batch))
        return np.take_along_axis(values, np.minimum(index, last[:, None]), axis=1)

    steps, records = jax.tree.map(np.asarray, (progress.steps, progress.refits))
    expected = picks(steps.expected, 0.0).astype(np.float64)
    regret = np.cumsum(np.where(picked, best - expected, 0.0), axis=1)
    if not np.isfinite(regret).all():
        seed, pick = np.argwhere(~np.isfinite(regret))[0]
        raise FloatingPointError(
            f"the regret of seed {progress.seeds[seed]} is not finite at pick {pick}"
        )
    diagnostics, held_out = records
    return Curves(
        regret=regret,
        reward=picks(steps.reward, 0.0),
        rows=picks(steps.row, -1).astype(np.int32),
        cols=picks(steps.column, -1).astype(np.int32),
        elbo=refits(diagnostics.elbo),
        effective_rank=refits(diagnostics.effective_rank),
        signal_rank=refits(diagnostics.signal_rank),
        completion_error=refits(held_out.completion),
        zero_error=refits(held_out.zero),
        answered=picks(steps.answered, 0).astype(bool),
    )


def at_fractions(curve: np.ndarray) -> dict[int, np.ndarray]:
    """Values [seeds] at 10, 25, 50 and 100 % of the horizon."""
    horizon = curve.shape[1]
    return {percent: curve[:, max(horizon * percent // 100, 1) - 1] for percent in FRACTIONS}


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean; NaN for one seed."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


class Interval(NamedTuple):
    """A mean and the ends of its 95 % t interval; NaN for one seed."""

    mean: float
    low: float
    high: float


def paired_interval(first: np.ndarray, second: np.ndarray) -> Interval:
    """The mean of first - second over paired seeds, and its 95 % t interval."""
    difference = first - second
    mean, error = float(difference.mean()), standard_error(difference)
    width = error * float(stats.t.ppf(0.975, max(len(difference) - 1, 1)))
    return Interval(mean, mean - width, mean + width)
