"""What the log of a campaign means: the state that it adds up to, and the rules of a tell."""

import math
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smc_jax.campaign.past import Past
from smc_jax.campaign.types import Calibration, OpenAsk, Suggestion

Pair = tuple[int, int]  # numbers of a row and of a column
TELL_COUNTS = ("values", "repeats", "corrected", "failed", "withdrawn", "unchanged")


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
        self.answered = 0  # event of its last answer
        self.pending = False
        self.expires: float | None = None  # when it stops being pending

    def answer(self, kind: str, value: float | None, correction: bool) -> None:
        """Takes one answer more."""
        self.pending = False
        if kind == "withdrawn":
            return
        if correction:
            self.values = []
        self.failed = kind == "failed"
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
        entry.expires = asked[1]
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
        is_new = campaign is None
        self._correct = "mark it as a correction (--correct)"
        self._drop = f"{self._correct} to drop the value, or write withdrawn to keep it"
        if is_new:
            self._correct = self._drop = "keep one of the two lines"
        self._allow = f"smc-jax {'new' if is_new else f'set {campaign}'} --repeats"
        self._repeats, self._corrections = repeats, corrections
        self._told: set[Pair] = set()  # entries that this table has told a value of
        self.answers: list[tuple[int, int, str, float | None, bool]] = []
        self.announced: dict[Pair, None] = {}  # in the order of the table
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
            case "withdrawn" if entry.pending:
                self._answer(pair, entry, "withdrawn", "withdrawn")
            case "withdrawn":
                self.tally["unchanged"] += 1
            case "pending":
                return self._pending(pair, entry)
            case _:
                return f"is {kind!r}; write a value, failed, pending or withdrawn."
        return None

    def _answer(
        self, pair: Pair, entry: Entry, count: str, kind: str, value: float | None = None
    ) -> None:
        correction = count == "corrected"
        # An entry that is announced and answered in one table is answered.
        self.announced.pop(pair, None)
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
            entry.pending, entry.expires = True, None
        return None
