"""What a report shows, gathered from a campaign."""

import time

import numpy as np

import smc_jax
from smc_jax.campaign.engine import Survey
from smc_jax.campaign.outlook import progress_of
from smc_jax.campaign.report import MAX_SUGGESTIONS
from smc_jax.campaign.snapshot import Snapshot
from smc_jax.campaign.types import ReportData, Status, Suggestion

BEST = 20  # entries in the table of the best


def report_data(name: str, now: Snapshot, survey: Survey | None, status: Status) -> ReportData:
    """Everything that a report shows, in the units and the orientation of the campaign."""
    settings, log, matrix = now.settings, now.log, now.matrix
    maximise = settings["maximise"]
    average = matrix.units.back(matrix.data.average())
    known = matrix.turned(np.where(matrix.known, average, np.nan))
    nothing = np.full(known.shape, np.nan)
    mean = nothing if survey is None else matrix.turned(matrix.units.back(survey.mean))
    sd = nothing if survey is None else matrix.turned(matrix.units.scale * np.asarray(survey.sd))
    rows, columns = np.nonzero(~np.isnan(known))
    order = np.argsort(known[rows, columns] * (-1 if maximise else 1), kind="stable")[:BEST]
    best = [
        (log.row_ids[rows[i]], log.column_ids[columns[i]], float(known[rows[i], columns[i]]))
        for i in order
    ]
    failed = np.zeros(known.shape, bool)
    failed[log.failed_row, log.failed_column] = True
    silent = np.zeros(known.shape, bool)
    silent[log.silent_row, log.silent_column] = True
    return ReportData(
        name=name,
        settings=settings,
        row_name=settings["rows"],
        column_name=settings["columns"],
        value_name=settings["value"],
        maximise=maximise,
        row_ids=log.row_ids,
        column_ids=log.column_ids,
        known=known,
        mean=mean,
        sd=sd,
        suggestions=_forecast_now(now),
        best=best,
        status=status,
        progress=progress_of(log, maximise=maximise),
        calibration=now.answered,
        made_at=time.time(),
        version=smc_jax.__version__,
        failed=failed,
        silent=silent,
    )


def _forecast_now(now: Snapshot) -> list[Suggestion]:
    """The pending suggestions; those that are listed have the forecasts of now."""
    asked = now.log.last_suggestions
    listed = asked[:MAX_SUGGESTIONS]
    if now.fitted is None or not listed:
        return asked
    entries = now.entries_of((one.row, one.column) for one in listed)
    current = [
        one._replace(mean=new.mean, sd=new.sd, low=new.low, high=new.high)
        for one, new in zip(listed, now.predict(now.fitted, entries), strict=True)
    ]
    return current + asked[MAX_SUGGESTIONS:]
