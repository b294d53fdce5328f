"""Intervals that hold what they promise: the model's errors on values that it had not seen.

The model is fitted again without a part of what is known, and asked for that part; earlier
suggestions are beside what was told of them. An interval for a new entry takes its ends from those
predictions that were nearest to its own (conformal prediction, local in the predicted value): where
the model promises most, it errs otherwise than on average. Whether an entry left may beat the best
is found from draws that are moved as the intervals are.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from smc_jax.campaign.engine import Engine
from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.types import Calibration

FOLDS = 5
MANY = 3000  # known entries from which one fold says enough
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
        """The ends of 90 % intervals; the model's own, low and high, where too little is known."""
        ends = self._ends(mean)
        return (low, high) if ends is None else (mean + ends[0] * sd, mean + ends[1] * sd)

    def line(self, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How draws of entries are moved, so that they say what the intervals say.

        The draw x of an entry becomes offset + factor * x: the line that takes a normal 90 %
        interval, mean - 1.645 sd to mean + 1.645 sd, to the interval of `interval`. Errors twice
        as large as expected double all deviations, and errors on one side move the entry there.

        Returns:
          offset and factor of each entry, 0 and 1 where too little is known.
        """
        ends = self._ends(mean)
        if ends is None:
            return np.zeros_like(mean), np.ones_like(mean)
        factor = (ends[1] - ends[0]) / (-2.0 * ndtri(OUTSIDE))
        return mean + 0.5 * (ends[0] + ends[1]) * sd - factor * mean, factor

    def _ends(self, mean: np.ndarray) -> np.ndarray | None:
        """The ends of intervals as errors (value - mean) / sd, [2, ...]; None of too few errors.

        Of the errors that belong to the nearest predictions, an exchangeable new one lies below
        the floor(0.05 (n + 1))-th with probability 5 % at most, and above the ceil(0.95 (n + 1))-th
        with 5 % at most.
        """
        number = self.errors.mean.size
        if number < FEWEST:
            return None
        order = np.argsort(self.errors.mean, kind="stable")
        at, ratio = self.errors.mean[order], self.errors.ratio[order]
        near = min(NEIGHBOURS, number)
        below = max(int(np.floor(OUTSIDE * (near + 1))) - 1, 0)
        # In their order, the nearest predictions stand side by side. A new prediction moves on to
        # the next of these windows where it is nearer to the first one behind the window than to
        # the first one inside.
        windows = np.sort(np.lib.stride_tricks.sliding_window_view(ratio, near), axis=1)
        window = np.searchsorted(0.5 * (at[:-near] + at[near:]), mean)
        return windows[:, [below, near - 1 - below]].T[:, window]


def folds_of(matrix: Matrix) -> int:
    """How many times the model is fitted without a part of what is known."""
    known = int(matrix.known.sum())
    if known < FEWEST:
        return 0
    return FOLDS if known < MANY else 1


def errors_of(
    key: jax.Array, engine: Engine, matrix: Matrix, on_fold: Callable[[int], None]
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
        fit = engine.fit(fit_key, shown)
        room = CHECKED if row.size > CHECKED // 8 else CHECKED // 8
        where = (jnp.asarray(np.resize(x, room)) for x in (row, column))
        predicted = engine.predict(predict_key, fit, shown, *where)
        mean, sd = (np.asarray(x, float)[: row.size] for x in (predicted.mean, predicted.sd))
        ratio = matrix.units.sign * (measured[row, column] - mean) / sd
        found.append((matrix.units.back(mean), ratio))
        on_fold(fold + 1)
    return Errors(*map(np.concatenate, zip(*found, strict=True)))
