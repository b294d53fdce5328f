"""What the log of a campaign means: the rules of a tell, and the state that the log adds up to."""

import math
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from smc_jax.campaign.schema import read_ids, read_position, read_suggestions
from smc_jax.campaign.types import COLUMN, ROW, Calibration, Suggestion

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
    next_expiry: float  # when the first of the pending entries stops being pending, inf: never


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

    def __init__(self, find: Callable[[Pair], Entry], *, repeats: bool, corrections: bool):
        self._find, self._entries = find, dict[Pair, Entry]()
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
                f"has the value {entry.values[-1]!r} already, and {value!r} is another; mark it as"
                " a correction (--correct), or let the campaign take repeats (smc-jax set"
                " --repeats)."
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
                f"is told as failed and has the value {entry.values[-1]!r} already; mark it as a"
                " correction (--correct) to drop the value, or write withdrawn to keep it."
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
                " mark, or let the campaign take repeats (smc-jax set --repeats)."
            )
        else:
            self.announced[pair] = None
            entry.pending, entry.expires = True, None
        return None


class _Arrays(NamedTuple):
    """Answers and suggestions as they are in the file, and which of them are of one entry."""

    answers: np.ndarray  # [a], in the order told
    suggestions: np.ndarray  # [s], in the order asked
    entries: int
    entry_of_answer: np.ndarray  # [a] number of the entry, of all that have been answered or asked
    entry_of_suggestion: np.ndarray  # [s]
    holds: np.ndarray  # [a] bool: a value that no later answer corrected


_ANSWER = np.dtype("i8, i4, i4, ?, ?, f8, ?")
_ANSWER.names = ("event", "row", "column", "failed", "withdrawn", "value", "correction")
_SUGGESTION = np.dtype("i8, i4, i4, i4, f8, ?, f8, f8, f8, f8")
_SUGGESTION.names = (
    *("event", "place", "row", "column", "expires", "asked"),
    *("mean", "sd", "low", "high"),
)


def _last(entry: np.ndarray, of: np.ndarray, entries: int) -> np.ndarray:
    """The largest of each entry, -1 where there is none."""
    last = np.full(entries, -1, np.int64)
    np.maximum.at(last, entry, of)
    return last


def _read(database: sqlite3.Connection) -> _Arrays:
    answers = np.fromiter(
        database.execute(
            "SELECT event, row, column, kind = 'failed', kind = 'withdrawn', value, correction"
            " FROM answers ORDER BY answer"
        ),
        _ANSWER,
    )
    suggestions = np.fromiter(
        database.execute(
            "SELECT event, place, row, column, expires, token IS NOT NULL, mean, sd, low, high"
            " FROM suggestions JOIN asks USING (event) ORDER BY event, place"
        ),
        _SUGGESTION,
    )
    row = np.concatenate([answers["row"], suggestions["row"]]).astype(np.int64)
    pairs = row << 32 | np.concatenate([answers["column"], suggestions["column"]])
    distinct, entry = np.unique(pairs, return_inverse=True)
    entry_of_answer, entry_of_suggestion = np.split(entry, [len(answers)])
    order = np.arange(len(answers))
    corrections = answers["correction"]
    corrected = _last(entry_of_answer[corrections], order[corrections], len(distinct))
    is_value = ~answers["failed"] & ~answers["withdrawn"]
    holds = is_value & (order >= corrected[entry_of_answer])
    return _Arrays(answers, suggestions, len(distinct), entry_of_answer, entry_of_suggestion, holds)


def read_log(database: sqlite3.Connection, now: float) -> Log:
    """Everything that the model needs, inside the caller's transaction."""
    position = read_position(database)
    arrays = _read(database)
    answers, suggestions, entries = arrays.answers, arrays.suggestions, arrays.entries
    told, entry_of_told = answers[arrays.holds], arrays.entry_of_answer[arrays.holds]

    events = np.fromiter(database.execute("SELECT event, time FROM events"), "i8,f8")
    time = events["f1"][np.searchsorted(events["f0"], told["event"])]
    asks = suggestions["asked"]
    first_ask = np.full(entries, position + 1)
    np.minimum.at(first_ask, arrays.entry_of_suggestion[asks], suggestions["event"][asks])

    outcomes = np.flatnonzero(~answers["withdrawn"])
    last_outcome = np.sort(_last(arrays.entry_of_answer[outcomes], outcomes, entries))
    last_answers = answers[last_outcome[last_outcome >= 0]]
    failed = last_answers[last_answers["failed"]]

    answered = _last(arrays.entry_of_answer, answers["event"], entries)
    order = np.arange(len(suggestions))
    latest = np.sort(_last(arrays.entry_of_suggestion, order, entries))
    latest = latest[latest >= 0]
    waiting = suggestions["event"][latest] > answered[arrays.entry_of_suggestion[latest]]
    expired = suggestions["expires"][latest] < now  # NaN, which never expires, is not less
    pending = suggestions[latest[waiting & ~expired]]

    row_ids, column_ids = read_ids(database, ROW), read_ids(database, COLUMN)
    return Log(
        position=position,
        row_ids=row_ids,
        column_ids=column_ids,
        row=told["row"].copy(),
        column=told["column"].copy(),
        value=told["value"].copy(),
        time=time,
        asked=first_ask[entry_of_told] < told["event"],
        pending_row=pending["row"].copy(),
        pending_column=pending["column"].copy(),
        failed_row=failed["row"].copy(),
        failed_column=failed["column"].copy(),
        next_expiry=float(np.fmin.reduce(pending["expires"], initial=np.inf)),
        last_suggestions=_pending_suggestions(database, pending),
        **_read_closures(database, len(row_ids), len(column_ids)),
    )


def _pending_suggestions(database: sqlite3.Connection, pending: np.ndarray) -> list[Suggestion]:
    pending = pending[pending["asked"]]
    found = []
    for event in np.unique(pending["event"])[::-1]:
        suggestions = read_suggestions(database, int(event))
        found += [suggestions[place] for place in pending["place"][pending["event"] == event]]
    return found


def _read_closures(database: sqlite3.Connection, rows: int, columns: int) -> dict[str, np.ndarray]:
    found = database.execute("SELECT row, column, closed FROM closures ORDER BY closure")
    state = {(row, column): closed for row, column, closed in found}  # the last one counts
    closed_rows, closed_columns = np.zeros(rows, bool), np.zeros(columns, bool)
    pairs = []
    for (row, column), closed in state.items():
        if column is None:
            closed_rows[row] = closed
        elif row is None:
            closed_columns[column] = closed
        elif closed:
            pairs.append((row, column))
    closed_pairs = np.array(pairs, np.int32).reshape(-1, 2)
    return {
        "closed_rows": closed_rows,
        "closed_columns": closed_columns,
        "closed_row": closed_pairs[:, 0],
        "closed_column": closed_pairs[:, 1],
    }


def read_calibration(database: sqlite3.Connection) -> Calibration:
    """Suggestions with an expectation, beside the first value that was told after each."""
    arrays = _read(database)
    told, entry = arrays.answers[arrays.holds], arrays.entry_of_answer[arrays.holds]
    expecting = arrays.suggestions["asked"] & ~np.isnan(arrays.suggestions["mean"])
    suggestions = arrays.suggestions[expecting]
    entry_of_suggestion = arrays.entry_of_suggestion[expecting]
    # One number in the order of entry and event, to find the next value of an entry by bisection.
    events = 1 + max(told["event"].max(initial=0), suggestions["event"].max(initial=0))
    by_entry = np.argsort(entry * events + told["event"], kind="stable")
    ordered = (entry * events + told["event"])[by_entry]
    wanted = entry_of_suggestion * events + suggestions["event"]
    after = np.searchsorted(ordered, wanted, side="right")
    has_next = after < len(told)
    has_next[has_next] = entry[by_entry[after[has_next]]] == entry_of_suggestion[has_next]
    suggestions, value = suggestions[has_next], told["value"][by_entry[after[has_next]]]
    expected = {name: suggestions[name].copy() for name in ("mean", "sd", "low", "high")}
    return Calibration(value=value, **expected)
