"""Where a campaign stands, and whether more measurements still pay."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from smc_jax.campaign.engine import Survey
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.log import Log
from smc_jax.campaign.matrix import Matrix
from smc_jax.campaign.snapshot import Fitted, Snapshot
from smc_jax.campaign.types import Progress, Status, Suggestion
from smc_jax.completion.stopping import completable_at, held_out_errors

UNLIKELY = 0.05  # a chance below which an entry left that beats the best is not to be expected
MOST_COMPLETED = 200_000  # entries of a matrix for which the convex completion is tried


def progress_of(log: Log, *, maximise: bool) -> Progress:
    """The values in the order in which they were told."""
    best = np.maximum.accumulate if maximise else np.minimum.accumulate
    return Progress(
        log.time, log.value, best(log.value) if log.value.size else log.value, log.asked
    )


def survey_of(fitted: Fitted) -> Survey:
    """What is left to find, in the model's units.

    Chance and improvement heed the errors that the intervals come from: a first survey has the
    means and deviations that say how the draws of each entry are moved in a second one.
    """
    forecast, calibrator = fitted
    matrix, units = forecast.matrix, forecast.matrix.units
    left = matrix.open | matrix.pending
    found = forecast.survey(left)
    deviation = units.scale * np.hypot(found.sd, found.noise)  # of the next measurement
    offset, factor = calibrator.line(units.back(found.mean), deviation)
    # v = sign (y - centre) / scale, of y' = offset + factor y.
    offset = units.of(offset + factor * units.centre)
    return forecast.survey(left, offset, factor)


def completable(key: jax.Array, forecast: Forecast, noise: float) -> bool | None:
    """Whether what is known completes the matrix, by the convex rule; None where not tried."""
    data = forecast.matrix.data
    if data.rows * data.columns > MOST_COMPLETED:
        return None
    errors = _held_out()(key, data.relative_to(0.0, noise))
    if not np.isfinite(errors.completion):
        return None
    seeds = type(errors)(*(np.asarray(error).reshape(1, 1) for error in errors))
    return bool(completable_at(seeds, noise_deviation=1.0, factor=1.5)[0] >= 0)


@functools.cache
def _held_out() -> Callable[..., Any]:
    """The errors in units of the noise, so that one program serves every noise."""
    return jax.jit(held_out_errors(fraction=0.2, noise_deviation=1.0))


def status_of(now: Snapshot, fitted: Fitted | None, survey: Survey | None) -> Status:
    """Where the campaign stands."""
    log, matrix = now.log, now.matrix
    maximise = now.settings["maximise"]
    mean, entry = _means(log)
    top = None
    if mean.size:
        top = int(np.argmax(mean) if maximise else np.argmin(mean))
    counts: dict[str, Any] = {
        "rows": len(log.row_ids),
        "columns": len(log.column_ids),
        "known": int(matrix.known.sum()),
        "values": int(log.value.size),
        "pending": int(matrix.pending.sum()),
        "failed": int(log.failed_row.size),
        "silent": int(log.silent_row.size),
        "closed": _closed(log, matrix),
        "open": int(matrix.open.sum()),
        "best_row": None if top is None else log.row_ids[entry[top, 0]],
        "best_column": None if top is None else log.column_ids[entry[top, 1]],
        "best_value": float("nan") if top is None else float(mean[top]),
        "past": None if log.past is None else log.past.told(log.row_ids, log.column_ids),
    }
    nan = float("nan")
    if fitted is None or survey is None:
        advice = "Too little is known for a forecast: measure what is asked first."
        return Status(**counts, best=None, expected_gain=nan, chance=nan, advice=advice)
    left = matrix.open | matrix.pending
    if not left.any():
        advice = "Nothing is left to be measured."
        if log.silent_row.size and not now.settings["retry_silent"]:
            advice = (
                "Nothing is left but entries without an answer; they may be asked again once the"
                " campaign is set so (smc-jax set CAMPAIGN --retry-silent)."
            )
        return Status(**counts, best=None, expected_gain=0.0, chance=0.0, advice=advice)
    forecast, best = fitted.forecast, _best_left(now, fitted, survey, left)
    gain = forecast.matrix.units.scale * float(np.where(left, survey.improvement, 0.0).max())
    chance = float(survey.chance)
    done = completable(now.keys.check, forecast, float(survey.noise))
    return Status(
        **counts,
        best=best,
        expected_gain=gain,
        chance=chance,
        advice=_advice(chance, gain, done),
        completable=done,
    )


def _closed(log: Log, matrix: Matrix) -> int:
    """How many unknown entries are closed for good, failed and unanswered ones not counted."""
    closed = matrix.turned(matrix.blocked & ~matrix.known).copy()
    closed[log.failed_row, log.failed_column] = False
    closed[log.silent_row, log.silent_column] = False
    return int(closed.sum())


def _means(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """The mean value of each known entry, and the entry [n, 2]."""
    entry, index = np.unique(np.stack([log.row, log.column], 1), axis=0, return_inverse=True)
    index = index.reshape(-1)
    return np.bincount(index, log.value) / np.maximum(np.bincount(index), 1), entry


def _best_left(now: Snapshot, fitted: Fitted, survey: Survey, left: np.ndarray) -> Suggestion:
    """The entry left whose expected value is best."""
    place = int(np.argmax(np.where(left, survey.mean, -np.inf)))
    row, column = now.matrix.place(*map(int, np.unravel_index(place, left.shape)))
    found = now.predict(fitted, [(row, column)])[0]
    nan = float("nan")
    return Suggestion(*found[:-1], nan, nan, "Its expected value is the best left.")


def _advice(chance: float, gain: float, done: bool | None) -> str:
    """Whether more measurements still pay."""
    if chance < UNLIKELY:
        sentence = (
            "Stop, if the best entry is what you want: the chance that an entry left beats it is"
            " small, less than 5 in 100."
        )
    else:
        sentence = (
            f"Go on: an entry left beats the best so far with probability {chance:.0%}; the most"
            f" promising one is expected to add {gain:.3g}."
        )
    if done:
        sentence += " What is known completes the table to within the noise."
    return sentence
