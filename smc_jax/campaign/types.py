"""What passes between the storage, the model, and the person who asks and tells."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

ROW, COLUMN = "row", "column"
NO_ANSWER = "no answer"
NAN = float("nan")  # one object, so that tuples that have it are equal to themselves
# What a line of a table can say of an entry.
KINDS = ("value", "failed", "pending", "withdrawn", NO_ANSWER)


class CampaignError(ValueError):
    """Something that the user can mend; one line that names the field and the fix."""


class Conflict(Exception):
    """Another process took a suggested entry first; compute the suggestions again.

    Attributes:
      pairs: ids of the row and the column of every suggested entry that is no longer free.
    """

    def __init__(self, pairs: list[tuple[str, str]]):
        self.pairs = pairs
        names = ", ".join(f"({row!r}, {column!r})" for row, column in pairs)
        super().__init__(f"These entries were asked, told or closed meanwhile: {names}.")


class TokenTaken(Exception):
    """An ask with this token is in the campaign; `Storage.ask_of` has its suggestions."""


class Told(NamedTuple):
    """One answer, as it was told."""

    time: float  # seconds since 1970
    source: str
    row: str
    column: str
    kind: str  # value, failed, withdrawn, or no answer
    value: float  # NaN where the kind is not `value`
    correction: bool  # it replaces all earlier values of its entry


class Records(NamedTuple):
    """What a table says, line by line (long) or cell by cell (wide)."""

    rows: list[str]  # [n]  row id of each record
    columns: list[str]  # [n]  column id of each record
    kinds: list[str]  # [n]  one of KINDS
    values: np.ndarray  # [n] float64, NaN where the kind is not `value`
    place: Callable[[int], str]  # where the i-th record stands, for an error: "assay.csv, line 7"
    row_ids: list[str]  # every row id that the table names, with or without a record, in its order
    column_ids: list[str]  # every column id that the table names
    notes: list[str]  # what was understood, one sentence each, for the user to read
    names: Mapping[str, str] = MappingProxyType({})  # what a long table calls its rows and so on


class Suggestion(NamedTuple):
    """One entry to measure, and what is known of it when it is asked."""

    row: str
    column: str
    mean: float  # expected value, NaN before there is a model
    sd: float  # standard deviation of the next measurement, noise included
    low: float  # 90 % interval of the next measurement
    high: float
    probability: float  # that it is among the best of what was on offer
    gain: float  # bits that the answer is expected to tell
    reason: str  # why it was chosen, one sentence
    p_answer: float = NAN  # probability of an answer; NaN where it is taken for certain
    cost: float = NAN  # what the ask costs; NaN where that was not said


class OpenAsk(NamedTuple):
    """An ask of which entries are still pending."""

    token: str | None  # None where a table said that the entries are pending
    time: float  # seconds since 1970
    source: str  # who asked
    expires: float | None  # seconds since 1970; None: never
    number: int  # entries that were asked for
    pending: int  # of them, entries without an answer


class Status(NamedTuple):
    """Where a campaign stands."""

    rows: int
    columns: int
    known: int  # entries with a value
    values: int  # values, repeats included
    pending: int
    failed: int
    closed: int  # entries that may not be asked, for good
    open: int  # entries that may be asked now
    best: Suggestion | None  # the best expected value of what is left; None without a model
    best_row: str | None  # of the best value so far
    best_column: str | None
    best_value: float  # NaN where nothing is known
    expected_gain: float  # expected improvement on the best value by the best entry left
    chance: float  # probability that some entry left beats the best value
    advice: str  # whether more measurements still pay, one sentence
    completable: bool | None = None  # what is known completes the matrix; None where not tried
    past: str | None = None  # what was taken over from an earlier campaign or a table
    silent: int = 0  # entries that were asked without an answer
    beforehand: str | None = None  # features, and a prediction of the values


class Progress(NamedTuple):
    """The values in the order in which they were told."""

    time: np.ndarray  # [n] seconds since 1970
    value: np.ndarray  # [n]
    best: np.ndarray  # [n]  the best so far
    asked: np.ndarray  # [n] bool: an ask had proposed it


class Calibration(NamedTuple):
    """Suggestions that were answered: what was expected, and what came."""

    mean: np.ndarray  # [m]
    sd: np.ndarray  # [m]
    low: np.ndarray  # [m]  90 % interval
    high: np.ndarray  # [m]
    value: np.ndarray  # [m]

    def usable(self) -> "Calibration":
        """The answers to suggestions that had a forecast."""
        there = np.isfinite(self.mean + self.low + self.high + self.value)
        return Calibration._make(field[there] for field in self)

    def held(self) -> tuple[int, int]:
        """How many answers had an interval, and how many of them lay in it."""
        own = self.usable()
        return own.value.size, int(((own.low <= own.value) & (own.value <= own.high)).sum())


class ReportData(NamedTuple):
    """Everything that a report shows."""

    name: str  # of the campaign
    settings: dict[str, object]
    row_name: str  # what a row is, e.g. "drug"
    column_name: str
    value_name: str
    maximise: bool
    row_ids: list[str]
    column_ids: list[str]
    known: np.ndarray  # [D, N]  mean of the values told, NaN elsewhere
    mean: np.ndarray  # [D, N]  posterior mean, NaN without a model
    sd: np.ndarray  # [D, N]  posterior standard deviation, NaN without a model
    suggestions: list[Suggestion]  # pending ones, the latest ask first
    best: list[tuple[str, str, float]]  # best values so far, best first
    status: Status
    progress: Progress
    calibration: Calibration
    made_at: float  # seconds since 1970
    version: str
    failed: np.ndarray  # [D, N] bool: the last measurement failed
    silent: np.ndarray  # [D, N] bool: the last ask had no answer

    @property
    def extreme(self) -> str:
        """What the best value is."""
        return "highest" if self.maximise else "lowest"


class Prediction(NamedTuple):
    """What the model says of one entry."""

    row: str
    column: str
    mean: float  # expected value
    sd: float  # standard deviation of the next measurement, noise included
    low: float  # 90 % interval of the next measurement
    high: float
    known: float  # mean of the values told, NaN where there are none
