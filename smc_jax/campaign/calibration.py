"""Intervals that hold what they promise: the model's errors on values that it had not seen.

The model is fitted again without a part of what is known, and asked for that part; earlier
suggestions are beside what was told of them. An interval for a new entry takes its ends from those
predictions that were nearest to its own (conformal prediction, local in the predicted value): where
the model promises most, it errs otherwise than on average. Whether an entry left may beat the best
is found from draws that are stretched as the intervals are, and moved by the errors' mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from smc_jax.campaign.engine import NONE, Engine
from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.types import Calibration
from smc_jax.model.features import Features

FOLDS = 5
MANY = 30_000  # known entries from which one fold says enough
CHECKED = 1024  # predictions of a fold, at most
RECENT = 200  # suggestions that count
NEIGHBOURS = 40
FEWEST = 20  # errors that say something
OUTSIDE = 0.05  # on each side of an interval


class Errors(NamedTuple):
    """Predictions of values that were not seen, in the units of the campaign."""

    mean: np.ndarray  # [m]  what was predicted
    ratio: np.ndarray  # [m]  (value - mean) / sd


class Calibrator(NamedTuple):
    """What earlier errors say of intervals."""

    errors: Errors

    @classmethod
    def of(cls, checked: Errors, told: Calibration) -> "Calibrator":
        """From the errors on known entries, and from suggestions that were answered."""
        recent = slice(-RECENT, None)
        mean, sd, value = (x[recent] for x in (told.mean, told.sd, told.value))
        own = Errors(mean, (value - mean) / sd)
        return cls(Errors(*map(np.concatenate, zip(checked, own, strict=True))))

    def interval(
        self, mean: np.ndarray, sd: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ends of 90 % intervals; the model's own, low and high, where too little is known.

        Of the errors that belong to the nearest predictions, an exchangeable new one lies below
        the floor(0.05 (n + 1))-th with probability 5 % at most, and above the ceil(0.95 (n + 1))-th
        with 5 % at most.
        """
        if self.errors.mean.size < FEWEST:
            return low, high
        windows, window = self._nearest(mean)
        below = _outside(windows.shape[1])
        return mean + windows[window, below] * sd, mean + windows[window, -1 - below] * sd

    def line(self, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How draws of entries are moved, so that they heed the errors that intervals come from.

        The draw x of an entry becomes offset + factor * x, which takes mean to mean + bias * sd.
        The factor is the width of the interval in parts of what a normal sample of as many errors
        has (Blom 1958): errors twice as large as expected double all deviations.

        The draws are without noise, and the errors are those of measurements. Noise has mean zero,
        so that the mean of the errors tells the bias of the entry, also where noise is skewed. It
        is shrunk by its standard error (James and Stein 1961), which is large where noise is, and
        which the entries that share their neighbours share.

        Returns:
          offset and factor of each entry, 0 and 1 where too little is known.
        """
        if self.errors.mean.size < FEWEST:
            return np.zeros_like(mean), np.ones_like(mean)
        windows, window = self._nearest(mean)
        near = windows.shape[1]
        below = _outside(near)
        normal = -2.0 * ndtri((below + 1 - 0.375) / (near + 0.25))
        factor = ((windows[:, -1 - below] - windows[:, below]) / normal)[window]
        error = windows.mean(1)
        certain = np.maximum(error**2 - windows.var(1, ddof=1) / near, 0.0)
        bias = np.divide(certain, error, out=np.zeros_like(error), where=error != 0.0)[window]
        return mean + bias * sd - factor * mean, factor

    def _nearest(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The errors of neighbouring predictions, sorted, [w, n]; and each entry's place in w."""
        order = np.argsort(self.errors.mean, kind="stable")
        at, ratio = self.errors.mean[order], self.errors.ratio[order]
        near = min(NEIGHBOURS, ratio.size)
        # In their order, the nearest predictions stand side by side. A new prediction moves on to
        # the next of these windows where it is nearer to the first one behind the window than to
        # the first one inside.
        windows = np.sort(np.lib.stride_tricks.sliding_window_view(ratio, near), axis=1)
        return windows, np.searchsorted(0.5 * (at[:-near] + at[near:]), mean)


def _outside(near: int) -> int:
    """How many of so many errors lie below an interval, and as many above."""
    return max(int(np.floor(OUTSIDE * (near + 1))) - 1, 0)


def folds_of(matrix: Matrix) -> int:
    """How many times the model is fitted without a part of what is known."""
    known = int(matrix.known.sum())
    if known < FEWEST:
        return 0
    return FOLDS if known < MANY else 1


def errors_of(
    key: jax.Array,
    engine: Engine,
    matrix: Matrix,
    on_fold: Callable[[int], None],
    features: Features = NONE,
) -> Errors:
    """The errors of the model on known entries that it is fitted without, fold by fold.

    Intervals are for one measurement: where an entry was measured again and again, its error is
    that of a measurement drawn around the mean with the spread of its measurements.
    """
    fold_key, fit_key, predict_key, repeat_key = jax.random.split(key, 4)
    average, times = matrix.data.average(), jnp.maximum(matrix.data.times_seen(), 1.0)
    spread = jnp.sqrt(matrix.data.squared_error(average) / times)
    drawn = average + spread * jax.random.normal(repeat_key, average.shape)
    measured = np.asarray(drawn, float)
    entries = np.argwhere(matrix.known)
    entries = entries[np.asarray(jax.random.permutation(fold_key, len(entries)))]
    found = [(np.zeros(0), np.zeros(0))]
    for fold in range(folds_of(matrix)):
        row, column = entries[fold::FOLDS][:CHECKED].T
        hidden = jnp.zeros(matrix.known.shape, bool).at[row, column].set(True)
        shown = matrix.data.without(hidden)
        fit = engine.fit(fit_key, shown, features, matrix.history)
        room = CHECKED if row.size > CHECKED // 8 else CHECKED // 8
        where = (jnp.asarray(np.resize(x, room)) for x in (row, column))
        predicted = engine.predict(predict_key, fit, shown, *where)
        mean, sd = (np.asarray(x, float)[: row.size] for x in (predicted.mean, predicted.sd))
        ratio = matrix.units.sign * (measured[row, column] - mean) / sd
        found.append((matrix.units.back(mean), ratio))
        on_fold(fold + 1)
    return Errors(*map(np.concatenate, zip(*found, strict=True)))
