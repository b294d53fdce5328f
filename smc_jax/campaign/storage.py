"""A campaign in one SQLite file: what was asked, told and closed, only ever added to.

The log of events is the only truth. Every command that changes something is one transaction, which
is on the disk when the command returns; several processes may work on one campaign.
"""

import contextlib
import json
import os
import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from smc_jax.campaign import described, log, predicted, reading, schema
from smc_jax.campaign.log import Added, Entry, Pair, State, Tell
from smc_jax.campaign.past import KIND, Past, write_past
from smc_jax.campaign.predicted import KeptPrediction
from smc_jax.campaign.troubles import in_one_line
from smc_jax.campaign.types import (
    COLUMN,
    ROW,
    CampaignError,
    Conflict,
    OpenAsk,
    Records,
    Suggestion,
    TokenTaken,
    Told,
)
from smc_jax.data.features import FeatureCells


class Storage:
    """One connection to the file of a campaign; a context manager that ends the connection."""

    def __init__(
        self, path: pathlib.Path, database: sqlite3.Connection, clock: Callable[[], float]
    ):
        self.path, self._database, self._clock = path, database, clock
        self._described: described.Kept | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: dict[str, object],
        source: str,
        records: Records | None = None,
        features: Mapping[str, FeatureCells] | None = None,
        past: Past | None = None,
        prediction: KeptPrediction | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Makes a campaign, whole or not at all, and opens it.

        Args:
          path: of a file that does not exist yet.
          settings: the first settings, values that JSON can hold.
          source: who or what creates it, for the history.
          records: what is known from the start; one bad record, and there is no campaign.
          features: features of rows and of columns, by axis.
          past: answers of other columns, which are taken over as history.
          prediction: of the values, from elsewhere.
          clock: seconds since 1970.
        """
        path = pathlib.Path(path)

        def fill(database: sqlite3.Connection) -> None:
            schema.write_settings(database, (clock(), "created", source), settings)
            if records is not None:
                cls(path, database, clock)._add(records, source, corrections=False, is_new=True)
            if features or prediction is not None:
                stamp = (clock(), "described", source)
                described.write_described(database, stamp, features or {}, prediction)
            if past is not None:
                write_past(database, (clock(), KIND, source), past)

        schema.create_file(path, fill)
        return cls.open(path, clock=clock)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> Self:
        """Opens a campaign; one of an older format is brought to this version's first."""
        path = pathlib.Path(path)
        return cls(path, schema.open_file(path), clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Ends the connection; everything acknowledged is on the disk already."""
        self._database.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with in_one_line(self.path), schema.transaction(self._database, "IMMEDIATE"):
            yield

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with in_one_line(self.path), schema.transaction(self._database, "DEFERRED"):
            yield self._database

    def _event(self, kind: str, source: str, detail: dict[str, Any]) -> int:
        return schema.write_event(self._database, (self._clock(), kind, source), detail)

    def settings(self) -> dict[str, Any]:
        """The settings that hold now."""
        with self._reading() as database:
            return schema.read_settings(database)

    def set(self, settings: dict[str, object], source: str) -> None:
        """Changes settings from here on, all of them or none."""
        with self._writing():
            schema.write_settings(self._database, (self._clock(), "set", source), settings)

    def identity(self) -> str:
        """What tells this campaign from all others: how and when it was created."""
        with self._reading() as database:
            line = database.execute(
                "SELECT time, source, detail FROM events ORDER BY event LIMIT 1"
            )
            return repr(line.fetchone())

    def position(self) -> int:
        """The number of the last event; what was computed at an earlier position may be stale."""
        with self._reading() as database:
            return schema.read_position(database)

    def ids(self, axis: str) -> list[str]:
        """The ids of the rows or of the columns, in the order of their numbers."""
        with self._reading() as database:
            return schema.read_ids(database, axis)

    def number_of(self, axis: str, id: str) -> int:
        """The number of a row or of a column; the error for an unknown id names similar ones."""
        with self._reading() as database:
            return schema.read_number_of(database, axis, id)

    def add(self, records: Records, *, source: str, corrections: bool = False) -> Added:
        """Adds a whole table: new ids, values, failures, withdrawals, and what is pending.

        One bad record refuses the table. A table that says nothing new writes nothing.

        Args:
          records: what the table says; each record meets the state that those before it left.
          source: who or what tells, for the history.
          corrections: another value of an entry replaces all its values.
        """
        with self._writing():
            return self._add(records, source, corrections=corrections)

    def knows(self, records: Records) -> bool:
        """Whether adding a table would add nothing."""
        with self._reading():
            tell, new = self._apply(records, corrections=False)
            return not (tell.answers or tell.announced or any(new.values()))

    def _add(
        self, records: Records, source: str, *, corrections: bool, is_new: bool = False
    ) -> Added:
        """Applies the rules to every record, and writes, inside the caller's transaction."""
        tell, new = self._apply(records, corrections=corrections, is_new=is_new)
        log.write_tell(self._database, tell, new, lambda kind: (self._clock(), kind, source))
        if any(new.values()):
            predicted.check_predicted_size(self._database)
        return Added(
            **{name: tell.tally[name] for name in log.TELL_COUNTS},
            pending=len(tell.announced),
            new_rows=len(new[ROW]),
            new_columns=len(new[COLUMN]),
            position=schema.read_position(self._database),
        )

    def _apply(
        self, records: Records, *, corrections: bool, is_new: bool = False
    ) -> tuple[Tell, dict[str, dict[str, int]]]:
        """What the records add, and the numbers of ids that are new."""
        rows, new_rows = schema.read_numbers(self._database, ROW, records.row_ids + records.rows)
        columns, new_columns = schema.read_numbers(
            self._database, COLUMN, records.column_ids + records.columns
        )
        schema.check_size(self._database, len(rows), len(columns))
        repeats = bool(schema.read_settings(self._database).get("repeats", False))
        name = None if is_new else str(self.path)
        tell = Tell(self._finder(), repeats=repeats, corrections=corrections, campaign=name)
        lines = zip(
            records.rows, records.columns, records.kinds, records.values.tolist(), strict=True
        )
        for line, (row, column, kind, value) in enumerate(lines):
            trouble = tell.take((rows[row], columns[column]), kind, value)
            if trouble is not None:
                raise CampaignError(
                    f"{records.place(line)}: the entry ({row!r}, {column!r}) {trouble}"
                )
        return tell, {ROW: new_rows, COLUMN: new_columns}

    def described(self) -> described.Described:
        """The features, and the prediction, that hold now."""
        with self._reading() as database:
            self._described = described.read_anew(database, self._described)
        return self._described.found

    def beforehand(self) -> str | None:
        """What is known beforehand, in one line; None where nothing is."""
        prediction = self.described().entries
        with self._reading() as database:
            return described.told(database, prediction)

    def describe(
        self,
        tables: Mapping[str, FeatureCells],
        source: str,
        prediction: KeptPrediction | None = None,
    ) -> dict[str, int]:
        """Adds features of ids, by axis, and a prediction; how many ids of each axis are new."""
        stamp = (self._clock(), "described", source)
        with self._writing():
            return described.write_described(self._database, stamp, tables, prediction)

    def _finder(self) -> Callable[[Pair], Entry]:
        """Reads entries inside a transaction; quick where there is nothing to read."""
        anything = self._database.execute(
            "SELECT EXISTS (SELECT 1 FROM answers) OR EXISTS (SELECT 1 FROM suggestions)"
        ).fetchone()[0]
        now = self._clock()
        return lambda pair: log.read_entry(self._database, pair, now) if anything else Entry()

    def record_ask(
        self,
        token: str,
        suggestions: list[tuple[int, int, Suggestion]],
        *,
        position: int,
        fitted_at: int | None,
        expires: float | None,
        source: str,
        arguments: dict[str, Any] | None = None,
    ) -> tuple[int, OpenAsk]:
        """Makes the suggested entries pending, all of them or none.

        Args:
          token: a name of this ask, by which `ask_of` finds it again.
          suggestions: numbers of the row and of the column, and the suggestion.
          position: of the log that the suggestions were computed from.
          fitted_at: position of the log that the model was fitted to; None without a model.
          expires: when the entries stop being pending, seconds since 1970; None: never.
          source: who or what asks, for the history.
          arguments: what was asked for, as JSON can hold it.

        Returns:
          The position of the log afterwards, and the ask.

        Raises:
          TokenTaken: there is an ask with this token.
          Conflict: another process asked, answered or closed a suggested entry first.
        """
        with self._writing():
            database, find = self._database, self._finder()
            if database.execute("SELECT 1 FROM asks WHERE token = ?", (token,)).fetchone():
                raise TokenTaken(f"There is an ask with the token {token!r}.")
            repeats = bool(schema.read_settings(database).get("repeats", False))
            taken, lines = [], []
            for row, column, suggestion in suggestions:
                pair = (int(row), int(column))  # SQLite would keep numbers of NumPy as bytes
                numbers = [float(getattr(suggestion, name)) for name in schema.OF_SUGGESTION]
                lines.append((*pair, *numbers, suggestion.reason))
                entry = find(pair)
                known = entry.values and not repeats
                answered = entry.answered > position
                if entry.pending or known or answered or schema.is_closed(database, *pair):
                    taken.append((suggestion.row, suggestion.column))
            if taken:
                raise Conflict(taken)
            number, now = len(suggestions), self._clock()
            detail = {"token": token, "suggestions": number, "arguments": arguments}
            event = schema.write_event(database, (now, "asked", source), detail)
            schema.write_ask(database, (event, token, expires, position, fitted_at), lines)
        return event, OpenAsk(token, now, source, expires, number, number)

    def sources(self) -> list[str]:
        """Who or what told and asked something, each once."""
        with self._reading() as database:
            return [one for (one,) in database.execute("SELECT DISTINCT source FROM events")]

    def arguments_of(self, token: str) -> Any:
        """What an earlier ask was asked for."""
        with self._reading() as database:
            found = database.execute(
                "SELECT detail FROM events JOIN asks USING (event) WHERE token = ?", (token,)
            ).fetchone()
            return None if found is None else json.loads(found[0]).get("arguments")

    def ask_of(self, token: str) -> list[Suggestion] | None:
        """The suggestions of an earlier ask, answered or not, in their order; None: no such ask."""
        with self._reading() as database:
            found = database.execute("SELECT event FROM asks WHERE token = ?", (token,)).fetchone()
            return None if found is None else schema.read_suggestions(database, found[0])

    def close(
        self, pairs: list[tuple[str | None, str | None]], *, source: str, closed: bool = True
    ) -> int:
        """Closes entries, rows (column None) and columns (row None), or reopens them.

        How many of them were not closed (or open) already.
        """
        with self._writing():
            database = self._database
            changes: dict[tuple[int | None, int | None], None] = {}
            for row, column in pairs:
                if row is None and column is None:
                    raise CampaignError("Neither a row nor a column is named; name one of them.")
                target = (
                    None if row is None else schema.read_number_of(database, ROW, row),
                    None if column is None else schema.read_number_of(database, COLUMN, column),
                )
                if schema.read_closed(database, target) != closed:
                    changes[target] = None
            if changes:
                kind = "closed" if closed else "reopened"
                event = self._event(kind, source, {"number": len(changes)})
                database.executemany(
                    "INSERT INTO closures (event, row, column, closed) VALUES (?, ?, ?, ?)",
                    ((event, *target, closed) for target in changes),
                )
            return len(changes)

    def state(self, now: float) -> State:
        """The log, the settings and what suggestions came to; `now` decides what has expired."""
        with self._reading() as database:
            return reading.read_state(database, now)

    def history(self) -> Iterator[Told]:
        """Every answer in the order told, also those that were corrected later."""
        last = 0
        while True:  # in parts, so that a slow reader holds no transaction open
            with self._reading() as database:
                lines = reading.read_history(database, last, 10_000)
            if not lines:
                return
            yield from (told for _, told in lines)
            last = lines[-1][0]
