"""A campaign: ask which entries to measure next, tell what came of them, ask again, for weeks."""

import pathlib
import secrets
import time
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Self

from smc_jax.campaign import described, predicted
from smc_jax.campaign.answers import check_sides, joined, no_records, notes_of
from smc_jax.campaign.arguments import at_least_one
from smc_jax.campaign.batch import Batch, Path, check_ask, check_same
from smc_jax.campaign.cells import source_of
from smc_jax.campaign.log import Added
from smc_jax.campaign.making import make_campaign
from smc_jax.campaign.plates import Plates
from smc_jax.campaign.reader import CampaignReader
from smc_jax.campaign.settings import checked_settings
from smc_jax.campaign.snapshot import Pair
from smc_jax.campaign.storage import Conflict, TokenTaken
from smc_jax.campaign.types import COLUMN, ROW, CampaignError, Suggestion
from smc_jax.campaign.worth import Costs

TRIES = 100  # how often an ask begins again because another process took an entry


class Campaign(CampaignReader):
    """One campaign in one file; several processes may ask and tell at once.

    Nothing that was told is ever overwritten, and the file alone reproduces what will be suggested
    next. `Campaign.new` makes a campaign, `Campaign(path)` opens it.
    """

    @classmethod
    def new(
        cls,
        path: Path,
        table: Path | None = None,
        *,
        row_features: Path | None = None,
        column_features: Path | None = None,
        prediction: Path | None = None,
        source: str | None = None,
        **settings: Any,
    ) -> Self:
        """Makes a campaign, from a table of what is known or from nothing.

        Args:
          path: of its file, which must not exist.
          table: values by row and column, long or wide, CSV or Parquet; see `tables.read_records`.
          row_features: a table whose first column has ids; its others have numbers or categories.
          column_features: the same of the columns.
          prediction: what something else predicts of the values, such as a docking score: a matrix
            with ids on both sides, or a table row, column, prediction.
          source: who makes it, for the history.
          **settings: see `settings.SETTINGS`; and `prior` or `history`, with `prior_temper`: what
            an earlier campaign, or a table of other columns, tells of the rows; see `past`.
        """
        features = described.read_tables(row_features, column_features)
        notes, new = make_campaign(path, table, features, prediction, source, settings)
        made = cls(path, source=source)
        made.notes = notes + described.notes_of(features, new, made._storage.ids, made.names)
        return made

    def set(self, **settings: Any) -> None:
        """Changes settings from here on; the names of rows, columns and values stay."""
        wanted = checked_settings(self._settings | settings)
        for name in ("rows", "columns", "value", "maximise", "seed"):
            if name in settings and settings[name] != self._settings[name]:
                raise CampaignError(f"{name}: a campaign keeps it; make another campaign")
        self._storage.set({name: wanted[name] for name in settings}, self._source)
        self._settings, self._kept = wanted, None

    def withdraw(self, token: str) -> Added:
        """Takes an ask back: what is still pending of it may be asked again."""
        found = self.asked(token)
        if found is None:
            raise CampaignError(f"token: no ask has {token!r}; smc-jax status lists the tokens")
        return self.tell([(one.row, one.column, "withdrawn") for one in found])

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
        costs: Path | None = None,
        overhead: float | None = None,
        worthless: float | None = None,
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
          costs: a table of what asks cost, by row, by column or by entry. Suggestions then go by
            the worth of an ask, (value - worthless) / (cost + overhead).
          overhead: what every ask costs on top.
          worthless: a value that is worth nothing, also where answers are uncertain and nothing has
            a cost; by default a low one of those that are known or, where that is worse, expected.
        """
        check_ask(number, token, expires)
        asked_before = token is not None and self.asked(token) is not None
        priced = self._costs(costs, overhead, worthless, may_be_gone=asked_before)
        closed = list(closed)
        wanted: dict[str, Any] = {
            "number": int(number),
            "rows": None if rows is None else [str(one) for one in rows],
            "columns": None if columns is None else [str(one) for one in columns],
            "closed": closed,
            "plate": None if plate is None else plate.described(),
            "costs": None if priced is None else priced.described(),
        }
        for _ in range(TRIES):
            name = secrets.token_hex(8) if token is None else token
            if (earlier := self.asked(name)) is not None:
                check_same(name, self._storage.arguments_of(name), wanted)
                return Batch(earlier, name, self.names)
            now = self._snapshot()
            offered = now.offered(rows, columns, closed)
            worth = now.worth(offered, priced)
            fitted = self._fitted(now, refit=refit)
            found, zero = now.suggest(fitted, offered, number, plate, worth)
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
            return Batch((one for *_, one in found), name, self.names, zero)
        raise CampaignError(f"ask: others took the entries {TRIES} times; ask for fewer, or later")

    def best(
        self,
        number: int = 10,
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        closed: Iterable[Pair] = (),
        refit: bool = False,
        costs: Path | None = None,
        overhead: float | None = None,
        worthless: float | None = None,
    ) -> list[Suggestion]:
        """What `ask` with the same arguments would suggest, without making anything pending.

        It is for visitors: by default an earlier fit will do, so that it depends on when the model
        was last fitted.
        """
        at_least_one("number", number)
        now = self._snapshot()
        offered = now.offered(rows, columns, closed)
        worth = now.worth(offered, self._costs(costs, overhead, worthless))
        fitted = self._fitted(now, refit=refit)
        found, _ = now.suggest(fitted, offered, number, worth=worth)
        return [one for *_, one in found]

    def _costs(
        self,
        file: Path | None,
        overhead: float | None,
        worthless: float | None,
        *,
        may_be_gone: bool = False,
    ) -> Costs | None:
        policy = self._settings["policy"]
        return Costs.checked(file, overhead, worthless, policy, may_be_gone=may_be_gone)

    def tell(self, *answers: Path | Iterable[tuple[str, str, Any]], correct: bool = False) -> Added:
        """Adds answers, all of them or none; late ones and ones that nobody asked for are welcome.

        `notes` then has what was understood, new ids, and whether nothing was filled in.

        Args:
          *answers: tables, as for `new`; or (row, column, value), where the value is a number, or
            one of the words failed, no answer, pending and withdrawn.
          correct: whether another value of an entry replaces the earlier ones.

        Raises:
          CampaignError: a table cannot be taken, e.g. as its rows are the columns of the campaign.
        """
        files = [one for one in answers if isinstance(one, str | PathLike)]
        source = ": ".join([self._source, *(pathlib.Path(one).name for one in files)])
        tables, ids = [self._read(one) for one in answers], self.ids()
        for table, one in zip(tables, answers, strict=True):
            given = source_of(one) if isinstance(one, str | PathLike) else "answers"
            check_sides(table, given, ids, self.names)
        records = joined(tables)
        added = self._storage.add(records, source=source, corrections=correct)
        self.notes = records.notes + notes_of(records, added, self._storage.ids, self.names)
        return added

    def add(self, *, rows: Iterable[str] = (), columns: Iterable[str] = ()) -> Added:
        """Adds rows and columns of which nothing is known yet."""
        return self._storage.add(no_records(rows, columns), source=self._source)

    def describe(
        self,
        *,
        rows: Path | None = None,
        columns: Path | None = None,
        prediction: Path | None = None,
    ) -> dict[str, int]:
        """Adds what is known beforehand; how many ids of each axis are new.

        `notes` then has what was understood.

        Args:
          rows: features by id; of one id and one feature the last value holds.
          columns: the same of columns.
          prediction: what something else predicts of the values, as `new` takes it; of one entry
            the last one holds.
        """
        tables = described.read_tables(rows, columns)
        ids = [
            [*own, *(tables[axis].cells if axis in tables else ())]
            for axis, own in zip((ROW, COLUMN), self.ids(), strict=True)
        ]
        guess = predicted.read_prediction(prediction, *ids, names=self.names[:2])
        source = described.source_of(self._source, tables, guess)
        new = self._storage.describe(tables, source, guess)
        self.notes = described.notes_of(tables, new, self._storage.ids, self.names)
        if guess is not None:
            self.notes.append(predicted.note_of(guess, *self.ids()))
        return new

    def close(self, pairs: Iterable[Pair]) -> int:
        """Closes entries, rows (column None) or columns (row None) for good; how many were open."""
        return self._storage.close(list(pairs), source=self._source)

    def reopen(self, pairs: Iterable[Pair]) -> int:
        """Opens again what was closed; how many were closed."""
        return self._storage.close(list(pairs), source=self._source, closed=False)
