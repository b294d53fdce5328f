"""What the log of a campaign means: the state that it adds up to, and the rules of a tell."""

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from smc_jax.campaign import schema
from smc_jax.campaign.past import Past
from smc_jax.campaign.types import NO_ANSWER, Calibration, OpenAsk, Suggestion

Pair = tuple[int, int]  # numbers of a row and of a column
TELL_COUNTS = (
    *("values", "repeats", "corrected", "failed", "withdrawn", "unchanged"),
    *("silent", "silent_again"),
)


class Added(NamedTuple):
    """What a tell added: how many of its records did what, each record counted once."""

    values: int  # first values of their entries
    repeats: int  # further values of their entries
    corrected: int  # records that replaced the values of their entries, failures included
    failed: int
    withdrawn: int
    pending: int
    unchanged: int  # records that said nothing new
    new_rows: int
    new_columns: int
    position: int  # of the log, afterwards
    silent: int = 0  # asks that had no answer
    silent_again: int = 0  # of them, those of entries that had none before


class Responses(NamedTuple):
    """Which asks were answered, of those that were answered with a value or not at all."""

    row: np.ndarray  # [a] int32
    column: np.ndarray  # [a] int32
    answered: np.ndarray  # [a] bool


_NOBODY = np.zeros(0, np.int32)


class Log(NamedTuple):
    """What a campaign knows at one moment; entries by the numbers of their rows and columns."""

    position: int  # the last event that is in here
    row_ids: list[str]  # [D]
    column_ids: list[str]  # [N]
    row: np.ndarray  # [n] int32, of each value that counts, in the order told
    column: np.ndarray  # [n] int32
    value: np.ndarray  # [n] float64
    time: np.ndarray  # [n] float64, seconds since 1970
    asked: np.ndarray  # [n] bool: an ask had suggested the entry before
    pending_row: np.ndarray  # [p] int32, in the order asked
    pending_column: np.ndarray  # [p] int32
    failed_row: np.ndarray  # [f] int32, entries whose last outcome is a failure
    failed_column: np.ndarray  # [f] int32
    closed_rows: np.ndarray  # [D] bool, whole rows
    closed_columns: np.ndarray  # [N] bool, whole columns
    closed_row: np.ndarray  # [c] int32, single entries
    closed_column: np.ndarray  # [c] int32
    last_suggestions: list[Suggestion]  # the pending ones, the latest ask first
    open_asks: list[OpenAsk]  # the oldest first
    next_expiry: float  # when the first of the pending entries stops being pending, inf: never
    past: Past | None = None  # answers of other columns
    silent_row: np.ndarray = _NOBODY  # [s] int32, entries whose last ask had no answer
    silent_column: np.ndarray = _NOBODY  # [s] int32
    responses: Responses | None = None  # None where every ask was answered

    def pending(self) -> list[tuple[str, str]]:
        """The ids of the pending entries, in the order asked."""
        entries = zip(self.pending_row, self.pending_column, strict=True)
        return [(self.row_ids[row], self.column_ids[column]) for row, column in entries]


class State(NamedTuple):
    """Everything that a campaign goes by, at one position of its log."""

    log: Log
    settings: dict[str, Any]
    answered: Calibration  # suggestions with an expectation, and what came


class Entry:
    """What is known of one entry at one moment."""

    def __init__(self) -> None:
        self.values: list[float] = []  # those that count
        self.failed = False  # its last outcome is a failure
        self.silent = False  # its last outcome is that no answer came
        self.answered = 0  # event of its last answer
        self.asked = False  # it was asked, or marked as pending, since its last answer
        self.pending = False  # that has not expired
        self.expires: float | None = None  # when it stops being pending

    def answer(self, kind: str, value: float | None, correction: bool) -> None:
        """Takes one answer more."""
        self.pending = self.asked = False
        if kind == "withdrawn":
            return
        if correction:
            self.values = []
        self.failed, self.silent = kind == "failed", kind == NO_ANSWER
        if value is not None:
            self.values.append(value)


def read_entry(database: sqlite3.Connection, pair: Pair, now: float) -> Entry:
    """One entry, as the log has it."""
    entry = Entry()
    answers = database.execute(
        "SELECT kind, value, correction, event FROM answers WHERE row = ? AND column = ?"
        " ORDER BY answer",
        pair,
    )
    for kind, value, correction, event in answers:
        entry.answer(kind, value, bool(correction))
        entry.answered = event
    asked = database.execute(
        "SELECT event, expires FROM suggestions JOIN asks USING (event)"
        " WHERE row = ? AND column = ? ORDER BY event DESC LIMIT 1",
        pair,
    ).fetchone()
    if asked is not None and asked[0] > entry.answered:
        entry.asked, entry.expires = True, asked[1]
        entry.pending = entry.expires is None or entry.expires >= now
    return entry


class Tell:
    """The rules of one tell: what each record adds to the campaign, or why it is refused."""

    def __init__(
        self,
        find: Callable[[Pair], Entry],
        *,
        repeats: bool,
        corrections: bool,
        campaign: str | None,
    ):
        """The rules.

        Args:
          find: what was told of an entry before.
          repeats: whether an entry may have several values.
          corrections: whether another value replaces the earlier ones.
          campaign: the file, as a refusal names it; None while the campaign is made.
        """
        self._find, self._entries = find, dict[Pair, Entry]()
        self._is_new = is_new = campaign is None
        self._correct = "mark it as a correction (--correct)"
        self._drop = f"{self._correct} to drop the value, or write withdrawn to keep it"
        if is_new:
            self._correct = self._drop = "keep one of the two lines"
        self._allow = f"smc-jax {'new' if is_new else f'set {campaign}'} --repeats"
        self._repeats, self._corrections = repeats, corrections
        self._told: set[Pair] = set()  # entries that this table has told a value of
        self.answers: list[tuple[int, int, str, float | None, bool]] = []
        self.announced: dict[Pair, None] = {}  # that are pending, in the order of the table
        self.asked_first: dict[Pair, None] = {}  # announced in this table, and then answered or not
        self._answered: set[Pair] = set()  # the entries of `answers`
        self.tally: Counter[str] = Counter()

    def take(self, pair: Pair, kind: str, value: float) -> str | None:
        """Applies one record; returns what is wrong with it, None if nothing is."""
        entry = self._entries.get(pair)
        if entry is None:
            entry = self._entries[pair] = self._find(pair)
        match kind:
            case "value":
                return self._value(pair, entry, value)
            case "failed":
                return self._failed(pair, entry)
            case "no answer":
                return self._silent(pair, entry)
            case "withdrawn" if entry.pending:
                self._answer(pair, entry, "withdrawn", "withdrawn")
            case "withdrawn":
                self.tally["unchanged"] += 1
            case "pending":
                return self._pending(pair, entry)
            case _:
                return f"is {kind!r}; write a value, failed, no answer, pending or withdrawn."
        return None

    def _answer(
        self, pair: Pair, entry: Entry, count: str, kind: str, value: float | None = None
    ) -> None:
        correction = count == "corrected"
        # An entry that is announced and answered in one table is answered. That it was asked is
        # kept: who answers is learned from asks with an answer and from asks without one.
        if pair in self.announced:
            del self.announced[pair]
            if kind in ("value", NO_ANSWER) and not self._is_new:
                self.asked_first[pair] = None
        self._answered.add(pair)
        self.answers.append((*pair, kind, value, correction))
        entry.answer(kind, value, correction)
        self.tally[count] += 1

    def _value(self, pair: Pair, entry: Entry, value: float) -> str | None:
        if not math.isfinite(value):
            return f"has the value {value!r}; write a finite number, or failed."
        told_before = any(math.isclose(value, known, rel_tol=1e-9) for known in entry.values)
        # Two lines of one table are two measurements; the same table told again is not.
        measured_again = self._repeats and (entry.pending or pair in self._told)
        if not entry.values:
            count = "values"
        elif self._corrections:
            nothing_new = told_before and len(entry.values) == 1 and not entry.pending
            count = "unchanged" if nothing_new else "corrected"
        elif told_before and not measured_again:
            count = "unchanged"
        elif self._repeats:
            count = "repeats"
        else:
            return (
                f"has the value {entry.values[-1]!r} already, and {value!r} is another;"
                f" {self._correct}, or let the campaign take repeats ({self._allow})."
            )
        if count == "unchanged":
            self.tally[count] += 1
        else:
            self._answer(pair, entry, count, "value", value)
            self._told.add(pair)
        return None

    def _failed(self, pair: Pair, entry: Entry) -> str | None:
        if entry.values and not self._corrections:
            return (
                f"is told as failed and has the value {entry.values[-1]!r} already; {self._drop}."
            )
        if entry.failed and not entry.pending:
            self.tally["unchanged"] += 1
        else:
            self._answer(pair, entry, "corrected" if entry.values else "failed", "failed")
        return None

    def _silent(self, pair: Pair, entry: Entry) -> str | None:
        """Whoever was asked did not answer; who answers is learned from it.

        A table that a campaign begins with tells of asks that the campaign did not make: they are
        kept, and nothing is learned from them.
        """
        known = bool(entry.values) or entry.failed
        if pair in self.announced and pair in self._answered:
            return "is answered, pending and no answer in one table; tell its last line by itself."
        if entry.asked or (self._is_new and not known):
            self.tally["silent_again"] += entry.silent
            self._answer(pair, entry, "silent", NO_ANSWER)
        elif entry.silent:
            self.tally["unchanged"] += 1
        elif known and self._corrections and pair not in self._told:
            self._answer(pair, entry, "corrected", NO_ANSWER)
        elif known:
            what = f"the value {entry.values[-1]!r}" if entry.values else "a failure"
            return f"is told as no answer and has {what} already; {self._drop}."
        else:
            return (
                "is told as no answer, and nobody was asked for it; leave the cell empty, or tell"
                " it as pending first."
            )
        return None

    def _pending(self, pair: Pair, entry: Entry) -> str | None:
        if entry.pending and entry.expires is None:
            self.tally["unchanged"] += 1
        elif entry.values and not self._repeats:
            return (
                f"is told as pending and has the value {entry.values[-1]!r} already; remove the"
                f" mark, or let the campaign take repeats ({self._allow})."
            )
        else:
            self.announced[pair] = None
            entry.asked, entry.pending, entry.expires = True, True, None
        return None


def write_tell(
    database: sqlite3.Connection,
    tell: Tell,
    new: Mapping[str, Mapping[str, int]],
    stamped: Callable[[str], tuple[float, str, str]],
) -> None:
    """Writes what a tell adds.

    There is one event for asks that had no answer, one for all other answers, and one after them
    for what the table says is pending. Entries that the same table says were asked before it
    answers them have an event before these: they are asked first.

    Args:
      database: in a transaction of the caller.
      tell: with its records.
      new: numbers of new ids, by axis.
      stamped: time, kind and source of an event of a kind.
    """
    silent = [one for one in tell.answers if one[2] == NO_ANSWER]
    others = [one for one in tell.answers if one[2] != NO_ANSWER]
    has_new = any(new.values())
    events = {}

    def add(name: str, kind: str, detail: dict[str, int]) -> None:
        events[name] = schema.write_event(database, stamped(kind), detail)

    if tell.asked_first:
        add("asked first", "announced", {"pending": len(tell.asked_first)})
    if silent:
        add(NO_ANSWER, NO_ANSWER, {"silent": len(silent)})
    if others or (has_new and not tell.announced and not silent):
        of_silence = ("silent", "silent_again")
        tally = {name: n for name, n in tell.tally.items() if name not in of_silence}
        add("told", "told", tally)
    if tell.announced:
        add("announced", "announced", {"pending": len(tell.announced)})
    if has_new:
        schema.write_ids(database, min(events.values()), new)
    database.executemany(
        "INSERT INTO answers (event, row, column, kind, value, correction)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            (events[NO_ANSWER if answer[2] == NO_ANSWER else "told"], *answer)
            for answer in tell.answers
        ),
    )
    for name, pairs in (("asked first", tell.asked_first), ("announced", tell.announced)):
        if pairs:
            nothing = [math.nan] * len(schema.OF_SUGGESTION)
            lines = [(*pair, *nothing, "announced") for pair in pairs]
            event = events[name]
            schema.write_ask(database, (event, None, None, event - 1, None), lines)
