"""A campaign that is looked at: what is known, what is asked, and what the model says of it."""

import time
from collections.abc import Iterable
from os import PathLike
from typing import Any, Self

from smc_jax.campaign import outlook
from smc_jax.campaign.answers import records_of
from smc_jax.campaign.batch import Path, user
from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.engine import Survey
from smc_jax.campaign.exporting import check_export, export_lines
from smc_jax.campaign.forecast import OnFit, cache_beside, forecast, is_enough
from smc_jax.campaign.report import report_html
from smc_jax.campaign.reporting import report_data
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.snapshot import Fitted, Snapshot
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.tables import read_records
from smc_jax.campaign.types import (
    COLUMN,
    ROW,
    Calibration,
    OpenAsk,
    Prediction,
    Progress,
    Records,
    Status,
    Suggestion,
)
from smc_jax.campaign.writing import REPORTS, check_ending, write_table, write_whole


class CampaignReader:
    """A campaign in its file; nothing here changes it."""

    def __init__(
        self, path: Path, *, source: str | None = None, on_fit: OnFit = lambda done, total: None
    ):
        """Opens a campaign.

        Args:
          path: of its file.
          source: who asks and tells, for the history; the user's name by default.
          on_fit: told how many fits are done, and how many in all, while the model is fitted.
        """
        self._storage = Storage.open(path)
        self._source = user() if source is None else source
        self._settings = checked_settings(self._storage.settings())
        self._on_fit = on_fit
        self._cache, self._identity = cache_beside(path), self._storage.identity()
        self._kept: Snapshot | None = None
        self.notes: list[str] = []  # of the last tell or describe: what was understood

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Ends the connection; everything acknowledged is on the disk already."""
        self._storage.disconnect()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the campaign."""
        return dict(self._settings)

    @property
    def names(self) -> tuple[str, str, str]:
        """What a row, a column and a value are called."""
        return self._settings["rows"], self._settings["columns"], self._settings["value"]

    def sizes(self) -> dict[str, int]:
        """How many rows, columns and known, pending, failed and open entries there are."""
        return self._snapshot().sizes()

    def ids(self) -> tuple[list[str], list[str]]:
        """The ids of the rows and of the columns, in the order in which they came."""
        return self._storage.ids(ROW), self._storage.ids(COLUMN)

    def asked(self, token: str) -> list[Suggestion] | None:
        """What the ask with this token suggested, answered or not; None: there is no such ask."""
        return self._storage.ask_of(token)

    def knows(self, answers: Path | Iterable[tuple[str, str, Any]]) -> bool:
        """Whether telling these answers would add nothing."""
        return self._storage.knows(self._read(answers))

    def _read(self, answers: Path | Iterable[tuple[str, str, Any]]) -> Records:
        if isinstance(answers, str | PathLike):
            return read_records(answers, names=self.names)
        return records_of(answers)

    def _snapshot(self) -> Snapshot:
        """The campaign as it is now; read again only where something was written or expired."""
        now = time.time()
        kept = self._kept
        current = kept is not None and kept.log.position == self._storage.position()
        if kept is None or not current or now >= kept.log.next_expiry:
            self._kept = kept = Snapshot(self._storage.state(now))
            self._settings = kept.settings
        return kept

    def _fitted(self, now: Snapshot, *, refit: bool = True) -> Fitted | None:
        """The fitted model; None where too little is known for one."""
        if now.fitted is not None and (now.is_refitted or not refit):
            return now.fitted
        if not is_enough(now.matrix):
            return None
        found = forecast(
            now.matrix,
            self._settings,
            position=now.log.position,
            cache=self._cache,
            identity=self._identity,
            refit=refit,
            on_fit=self._on_fit,
            described=self._storage.described,
        )
        now.fitted = Fitted(found, Calibrator.of(found.errors, now.answered))
        now.is_refitted = refit
        return now.fitted

    def predict(self, pairs: Iterable[tuple[str, str]]) -> list[Prediction]:
        """What the model says of any entries, known or not."""
        now = self._snapshot()
        # What is wrong with the pairs is said before anything is fitted.
        entries = now.entries_of(pairs) if is_enough(now.matrix) else []
        return now.predict(self._fitted(now), entries)

    def _survey(self) -> tuple[Snapshot, Survey | None, Status]:
        now = self._snapshot()
        fitted = self._fitted(now)
        found = None if fitted is None else outlook.survey_of(fitted)
        status = outlook.status_of(now, fitted, found)
        return now, found, status._replace(beforehand=self._storage.beforehand())

    def status(self) -> Status:
        """How many entries are known, pending and failed, and whether more still pay."""
        return self._survey()[-1]

    def pending(self) -> list[tuple[str, str]]:
        """The pending entries, row and column, in the order asked."""
        return self._snapshot().log.pending()

    def open_asks(self) -> list[OpenAsk]:
        """The asks of which entries are still pending, the oldest first."""
        return list(self._snapshot().log.open_asks)

    def progress(self) -> Progress:
        """The values in the order in which they were told."""
        return outlook.progress_of(self._snapshot().log, maximise=self._settings["maximise"])

    def answered(self) -> Calibration:
        """The suggestions that were answered: what was expected, and what came."""
        return self._snapshot().answered

    def report(self, path: Path) -> None:
        """Writes one self-contained HTML page for people without Python.

        Args:
          path: ends in .html or .htm.
        """
        check_ending(path, REPORTS, "a page of HTML")
        now, found, status = self._survey()
        data = report_data(self._storage.path.stem, now, found, status)
        write_whole(path, report_html(data).encode())

    def export(self, path: Path, *, history: bool = False) -> None:
        """Writes what is known as CSV or Parquet, from which `new` makes a campaign; no features.

        Args:
          path: ends in .csv, .csv.gz or .parquet; a file that is there must be an earlier export.
          history: every answer ever told, with its time and source, in place of what holds now.
        """
        check_export(path, self.names, self._storage.sources())
        told = self._storage.history() if history else None
        write_table(path, *export_lines(self._snapshot().log, self.names, told))
