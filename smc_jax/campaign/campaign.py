"""A campaign: ask which entries to measure next, tell what came of them, ask again, for weeks."""

import pathlib
import secrets
import time
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Self

from smc_jax.campaign import described, outlook
from smc_jax.campaign.answers import joined, no_records, notes_of, records_of
from smc_jax.campaign.batch import Batch, Path, at_least_one, check_ask, check_same, user
from smc_jax.campaign.calibration import Calibrator
from smc_jax.campaign.engine import Survey
from smc_jax.campaign.exporting import export_lines
from smc_jax.campaign.forecast import OnFit, cache_beside, forecast, is_enough
from smc_jax.campaign.log import Added
from smc_jax.campaign.making import make_campaign
from smc_jax.campaign.plates import Plates
from smc_jax.campaign.report import report_html
from smc_jax.campaign.reporting import report_data
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.snapshot import Fitted, Pair, Snapshot
from smc_jax.campaign.storage import Conflict, Storage, TokenTaken
from smc_jax.campaign.tables import read_records
from smc_jax.campaign.types import (
    COLUMN,
    ROW,
    Calibration,
    CampaignError,
    OpenAsk,
    Prediction,
    Progress,
    Records,
    Status,
    Suggestion,
)
from smc_jax.campaign.writing import write_table, write_whole

TRIES = 100  # how often an ask begins again because another process took an entry


class Campaign:
    """One campaign in one file; several processes may ask and tell at once.

    Nothing that was told is ever overwritten, and the file alone reproduces what will be suggested
    next. `Campaign.new` makes a campaign, `Campaign(path)` opens it.
    """

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

    @classmethod
    def new(
        cls,
        path: Path,
        table: Path | None = None,
        *,
        row_features: Path | None = None,
        column_features: Path | None = None,
        source: str | None = None,
        **settings: Any,
    ) -> Self:
        """Makes a campaign, from a table of what is known or from nothing.

        Args:
          path: of its file, which must not exist.
          table: values by row and column, long or wide, CSV or Parquet; see `tables.read_records`.
          row_features: a table whose first column has ids; its others have numbers or categories.
          column_features: the same of the columns.
          source: who makes it, for the history.
          **settings: see `settings.SETTINGS`; and `prior` or `history`, with `prior_temper`: what
            an earlier campaign, or a table of other columns, tells of the rows; see `past`.
        """
        features = described.read_tables(row_features, column_features)
        notes, new = make_campaign(path, table, features, source, settings)
        made = cls(path, source=source)
        made.notes = notes + described.notes_of(features, new, made._storage.ids, made.names)
        return made

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

    def set(self, **settings: Any) -> None:
        """Changes settings from here on; the names of rows, columns and values stay."""
        wanted = checked_settings(self._settings | settings)
        for name in ("rows", "columns", "value", "maximise", "seed"):
            if name in settings and settings[name] != self._settings[name]:
                raise CampaignError(f"{name}: a campaign keeps it; make another campaign")
        self._storage.set({name: wanted[name] for name in settings}, self._source)
        self._settings, self._kept = wanted, None

    def sizes(self) -> dict[str, int]:
        """How many rows, columns and known, pending, failed and open entries there are."""
        return self._snapshot().sizes()

    def ids(self) -> tuple[list[str], list[str]]:
        """The ids of the rows and of the columns, in the order in which they came."""
        return self._storage.ids(ROW), self._storage.ids(COLUMN)

    def asked(self, token: str) -> list[Suggestion] | None:
        """What the ask with this token suggested, answered or not; None: there is no such ask."""
        return self._storage.ask_of(token)

    def withdraw(self, token: str) -> Added:
        """Takes an ask back: what is still pending of it may be asked again."""
        found = self.asked(token)
        if found is None:
            raise CampaignError(f"token: no ask has {token!r}; smc-jax status lists the tokens")
        return self.tell([(one.row, one.column, "withdrawn") for one in found])

    @property
    def names(self) -> tuple[str, str, str]:
        """What a row, a column and a value are called."""
        return self._settings["rows"], self._settings["columns"], self._settings["value"]

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

    def ask(
        self,
        number: int = 10,
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        closed: Iterable[Pair] = (),
        plate: Plates | None = None,
        token: str | None = None,
        expires: float | None = None,
        refit: bool = True,
    ) -> Batch:
        """Which entries to measure next; they are pending until they are answered or withdrawn.

        Args:
          number: how many.
          rows: only these rows; None is all.
          columns: only these columns, e.g. who is here today.
          closed: entries, rows (column None) or columns (row None) that are closed for now.
          plate: entries that must share a row, a column or a group; see `plates.Plates`.
          token: a name for this ask; asked again with it, the same suggestions come back, also
            those that were answered or have expired meanwhile.
          expires: hours after which the entries are no longer pending; None is never.
          refit: whether the model is fitted to everything told; without, an earlier fit will do,
            given what was told of each column meanwhile.
        """
        check_ask(number, token, expires)
        closed = list(closed)
        wanted: dict[str, Any] = {
            "number": int(number),
            "rows": None if rows is None else [str(one) for one in rows],
            "columns": None if columns is None else [str(one) for one in columns],
            "closed": closed,
            "plate": None if plate is None else plate.described(),
        }
        for _ in range(TRIES):
            name = secrets.token_hex(8) if token is None else token
            if (earlier := self.asked(name)) is not None:
                check_same(name, self._storage.arguments_of(name), wanted)
                return Batch(earlier, name, self.names)
            now = self._snapshot()
            offered = now.offered(rows, columns, closed)
            fitted = self._fitted(now, refit=refit)
            found = now.suggest(fitted, offered, number, plate)
            try:
                recorded = self._storage.record_ask(
                    name,
                    found,
                    position=now.log.position,
                    fitted_at=None if fitted is None else fitted.forecast.fitted_at,
                    expires=None if expires is None else time.time() + 3600.0 * expires,
                    source=self._source,
                    arguments=wanted,
                )
            except (Conflict, TokenTaken):
                continue  # another process was faster
            if not now.ask_recorded(*recorded, found):
                self._kept = None
            return Batch((one for *_, one in found), name, self.names)
        raise CampaignError(f"ask: others took the entries {TRIES} times; ask for fewer, or later")

    def best(
        self,
        number: int = 10,
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        closed: Iterable[Pair] = (),
        refit: bool = False,
    ) -> list[Suggestion]:
        """What `ask` with the same arguments would suggest, without making anything pending.

        It is for visitors: by default an earlier fit will do, so that it depends on when the model
        was last fitted.
        """
        at_least_one("number", number)
        now = self._snapshot()
        offered = now.offered(rows, columns, closed)
        return [one for *_, one in now.suggest(self._fitted(now, refit=refit), offered, number)]

    def tell(self, *answers: Path | Iterable[tuple[str, str, Any]], correct: bool = False) -> Added:
        """Adds answers, all of them or none; late ones and ones that nobody asked for are welcome.

        `notes` then has what was understood, new ids, and whether nothing was filled in.

        Args:
          *answers: tables, as for `new`; or (row, column, value), where the value is a number, or
            one of the words failed, pending and withdrawn.
          correct: whether another value of an entry replaces the earlier ones.
        """
        files = [one for one in answers if isinstance(one, str | PathLike)]
        source = ": ".join([self._source, *(pathlib.Path(one).name for one in files)])
        records = joined([self._read(one) for one in answers])
        added = self._storage.add(records, source=source, corrections=correct)
        self.notes = records.notes + notes_of(records, added, self._storage.ids, self.names)
        return added

    def _read(self, answers: Path | Iterable[tuple[str, str, Any]]) -> Records:
        if isinstance(answers, str | PathLike):
            return read_records(answers, names=self.names)
        return records_of(answers)

    def knows(self, answers: Path | Iterable[tuple[str, str, Any]]) -> bool:
        """Whether telling these answers would add nothing."""
        return self._storage.knows(self._read(answers))

    def add(self, *, rows: Iterable[str] = (), columns: Iterable[str] = ()) -> Added:
        """Adds rows and columns of which nothing is known yet."""
        return self._storage.add(no_records(rows, columns), source=self._source)

    def describe(self, *, rows: Path | None = None, columns: Path | None = None) -> dict[str, int]:
        """Adds features of ids, from tables by id; how many ids of each axis are new.

        Of one id and one feature the last value holds. `notes` then has what was understood.
        """
        tables = described.read_tables(rows, columns)
        new = self._storage.describe(tables, described.source_of(self._source, tables))
        self.notes = described.notes_of(tables, new, self._storage.ids, self.names)
        return new

    def close(self, pairs: Iterable[Pair]) -> int:
        """Closes entries, rows (column None) or columns (row None) for good; how many were open."""
        return self._storage.close(list(pairs), source=self._source)

    def reopen(self, pairs: Iterable[Pair]) -> int:
        """Opens again what was closed; how many were closed."""
        return self._storage.close(list(pairs), source=self._source, closed=False)

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
        return now, found, outlook.status_of(now, fitted, found)

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
        """Writes one self-contained HTML page for people without Python."""
        now, found, status = self._survey()
        data = report_data(self._storage.path.stem, now, found, status)
        write_whole(path, report_html(data).encode())

    def export(self, path: Path, *, history: bool = False) -> None:
        """Writes what is known as CSV or Parquet, from which `new` makes a campaign; no features.

        Args:
          path: ends in .csv, .csv.gz or .parquet.
          history: every answer ever told, with its time and source, in place of what holds now.
        """
        told = self._storage.history() if history else None
        write_table(path, *export_lines(self._snapshot().log, self.names, told))
