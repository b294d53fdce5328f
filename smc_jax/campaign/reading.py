"""What the log of a campaign adds up to, read from its file inside the caller's transaction."""

import math
import sqlite3
from typing import NamedTuple

import numpy as np

from smc_jax.campaign.log import Log, Responses, State
from smc_jax.campaign.past import stored_past
from smc_jax.campaign.schema import read_ids, read_position, read_settings, read_suggestions
from smc_jax.campaign.types import COLUMN, ROW, Calibration, OpenAsk, Suggestion, Told


class _Arrays(NamedTuple):
    """Answers and suggestions as they are in the file, and which of them are of one entry."""

    answers: np.ndarray  # [a], in the order told
    suggestions: np.ndarray  # [s], in the order asked
    entries: int
    entry_of_answer: np.ndarray  # [a] number of the entry, of all that have been answered or asked
    entry_of_suggestion: np.ndarray  # [s]
    holds: np.ndarray  # [a] bool: a value that no later answer corrected


_ANSWER = np.dtype("i8, i4, i4, ?, ?, ?, f8, ?")
_ANSWER.names = ("event", "row", "column", "failed", "withdrawn", "silent", "value", "correction")
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
            "SELECT event, row, column, kind = 'failed', kind = 'withdrawn', kind = 'no answer',"
            " value, correction FROM answers ORDER BY answer"
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
    is_value = ~answers["failed"] & ~answers["withdrawn"] & ~answers["silent"]
    holds = is_value & (order >= corrected[entry_of_answer])
    return _Arrays(answers, suggestions, len(distinct), entry_of_answer, entry_of_suggestion, holds)


def read_state(database: sqlite3.Connection, now: float) -> State:
    """Everything that a campaign goes by, inside the caller's transaction."""
    arrays = _read(database)
    log, answered = _log_of(database, arrays, now), _calibration_of(arrays)
    return State(log, read_settings(database), answered)


def _log_of(database: sqlite3.Connection, arrays: _Arrays, now: float) -> Log:
    position = read_position(database)
    answers, suggestions, entries = arrays.answers, arrays.suggestions, arrays.entries
    told, entry_of_told = answers[arrays.holds], arrays.entry_of_answer[arrays.holds]

    events = np.fromiter(database.execute("SELECT event, time FROM events"), "i8,f8")
    time = events["f1"][np.searchsorted(events["f0"], told["event"])]
    asks = suggestions["asked"]
    first_ask = np.full(entries, position + 1)
    np.minimum.at(first_ask, arrays.entry_of_suggestion[asks], suggestions["event"][asks])

    outcomes = np.flatnonzero(~answers["withdrawn"])
    last_outcome = np.sort(_last(arrays.entry_of_answer[outcomes], outcomes, entries))
    last_outcome = last_outcome[last_outcome >= 0]
    last_answers = answers[last_outcome]
    failed = last_answers[last_answers["failed"]]
    has_value = np.isin(arrays.entry_of_answer[last_outcome], entry_of_told)
    silent = last_answers[last_answers["silent"] & ~has_value]

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
        open_asks=_open_asks(database, pending),
        past=stored_past(database),
        silent_row=silent["row"].copy(),
        silent_column=silent["column"].copy(),
        responses=_responses_of(arrays),
        **_read_closures(database, len(row_ids), len(column_ids)),
    )


def _responses_of(arrays: _Arrays) -> Responses | None:
    """What came of each ask: the last outcome before the entry was asked again, if it was.

    A value that comes after "no answer" was told is a late answer. A failure says nothing of
    whether answers come, and an ask that was withdrawn is none.
    """
    answers = arrays.answers
    if not answers["silent"].any():
        return None
    outcomes = ~answers["withdrawn"]
    told, of_told = answers[outcomes], arrays.entry_of_answer[outcomes]
    asks, of_asks = arrays.suggestions, arrays.entry_of_suggestion
    # One number in the order of entry and event, as in `_calibration_of`.
    events = 1 + max(told["event"].max(initial=0), asks["event"].max(initial=0))
    by_entry = np.argsort(of_told * events + told["event"], kind="stable")
    outcome = (of_told * events + told["event"])[by_entry]
    asked = np.sort(of_asks * events + asks["event"])
    entry = asked // events
    end = (entry + 1) * events
    end[:-1] = np.minimum(end[:-1], asked[1:])
    last = np.searchsorted(outcome, end) - 1
    has_one = last >= np.searchsorted(outcome, asked, side="right")
    found = told[by_entry[last[has_one]]]
    found = found[~found["failed"]]
    if not found["silent"].any():  # those that were told are of a table that came before all asks
        return None
    return Responses(found["row"].copy(), found["column"].copy(), ~found["silent"])


def _pending_suggestions(database: sqlite3.Connection, pending: np.ndarray) -> list[Suggestion]:
    pending = pending[pending["asked"]]
    found = []
    for event in np.unique(pending["event"])[::-1]:
        suggestions = read_suggestions(database, int(event))
        found += [suggestions[place] for place in pending["place"][pending["event"] == event]]
    return found


def _open_asks(database: sqlite3.Connection, pending: np.ndarray) -> list[OpenAsk]:
    """The asks of the pending entries, the oldest first."""
    found = []
    for event, waiting in zip(*np.unique(pending["event"], return_counts=True), strict=True):
        asked = database.execute(
            "SELECT token, time, source, expires,"
            " (SELECT count(*) FROM suggestions s WHERE s.event = asks.event)"
            " FROM asks JOIN events USING (event) WHERE event = ?",
            (int(event),),
        )
        found.append(OpenAsk._make((*asked.fetchone(), int(waiting))))
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


def _calibration_of(arrays: _Arrays) -> Calibration:
    """Suggestions with an expectation, beside the first value that was told after each."""
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


def read_history(database: sqlite3.Connection, last: int, most: int) -> list[tuple[int, Told]]:
    """The answers after the one of number `last`, with their numbers, `most` of them at most."""
    lines = database.execute(
        "SELECT answer, time, source, r.id, c.id, a.kind, value, correction"
        " FROM (SELECT * FROM answers WHERE answer > ? ORDER BY answer LIMIT ?) a"
        " JOIN events USING (event)"
        " JOIN ids r ON r.axis = 'row' AND r.number = a.row"
        " JOIN ids c ON c.axis = 'column' AND c.number = a.column ORDER BY answer",
        (last, most),
    )
    return [
        (answer, Told._make((*told, math.nan if value is None else value, bool(correction))))
        for answer, *told, value, correction in lines
    ]
