"""What the command line prints: tables and a plot of plain text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smc_jax.campaign.batch import Batch, further
from smc_jax.campaign.charts import shorten
from smc_jax.campaign.log import Added
from smc_jax.campaign.types import Calibration, OpenAsk, Prediction, Status, Suggestion

LISTED, LETTERS = 10, 32  # open asks that are listed, letters of a token that are shown
ENOUGH = 10  # answers to suggestions that say how well intervals hold
WIDTH = 60  # of a plot, in characters
BARS = " ▁▂▃▄▅▆▇█"


def figure(value: float) -> str:
    """A number in four digits, a dash where there is none."""
    return "-" if np.isnan(value) else f"{value:.4g}"


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first two to the left, numbers to the right."""
    cells = [list(header), *(list(line) for line in lines)]
    widths = [max(len(line[j]) for line in cells) for j in range(len(header))]
    made = []
    for line in cells:
        parts = [
            one.ljust(width) if j < 2 or header[j] == "why" else one.rjust(width)
            for j, (one, width) in enumerate(zip(line, widths, strict=True))
        ]
        made.append("  ".join(parts).rstrip())
    return "\n".join(made)


def suggestions(found: Sequence[Suggestion], names: Sequence[str]) -> str:
    """The table of an ask."""
    row, column, _ = names
    has_p_answer, has_cost = further(found)
    header = [row, column, "expected", "sd", "90 % interval", "P(best)", "bits"]
    header += ["P(answer)"] * has_p_answer + ["cost"] * has_cost + ["why"]
    lines = [
        [
            one.row,
            one.column,
            figure(one.mean),
            figure(one.sd),
            _interval(one.low, one.high),
            _percent(one.probability),
            "-" if np.isnan(one.gain) else f"{one.gain:.2f}",
            *([_percent(one.p_answer)] if has_p_answer else []),
            *([figure(one.cost)] if has_cost else []),
            one.reason,
        ]
        for one in found
    ]
    return table(header, lines)


def worth(
    found: Batch, settings: Mapping[str, Any], overhead: float | None, worthless: float | None
) -> str:
    """What the suggestions were chosen by, where it is not the value alone; else nothing."""
    has_p_answer, has_cost = further(found)
    if not has_p_answer and not has_cost:
        return ""
    if np.isnan(found[0].mean):
        return "There is no model yet: they were chosen whatever they cost, and whoever answers."
    zero = found.worthless if worthless is None else worthless
    above = "above" if settings["maximise"] else "better than"
    what = f"expected value {above} {'what is worth nothing' if np.isnan(zero) else figure(zero)}"
    what += ", times P(answer)" if has_p_answer else ""
    if has_cost:
        what += ", per cost" + (f" with {figure(overhead)} on top" if overhead else "")
    is_random = settings["policy"] == "random"
    chosen = "drawn at random" if is_random else f"chosen by {what}"
    names_another = worthless is None and not is_random
    other = " --worthless names another value that is worth nothing." * names_another
    return f"They were {chosen}; P(best) is that of the highest {what}.{other}"


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{share:.0%}"


def _interval(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"{figure(low)} to {figure(high)}"


def predictions(found: Sequence[Prediction], names: Sequence[str]) -> str:
    """The table of predictions."""
    header = [names[0], names[1], "expected", "sd", "90 % interval", "known"]
    lines = [
        [one.row, one.column, figure(one.mean), figure(one.sd), _interval(one.low, one.high),
         figure(one.known)]
        for one in found
    ]  # fmt: skip
    return table(header, lines)


def rounded(one: Prediction) -> Prediction:
    """A prediction for a table: forecasts in six digits, the known value as it was told."""
    mean, sd, low, high = (float(f"{x:.6g}") for x in (one.mean, one.sd, one.low, one.high))
    return one._replace(mean=mean, sd=sd, low=low, high=high)


def coverage(answered: Calibration) -> str:
    """How well intervals hold: what they promise, or once there are answers, what they held."""
    answers, inside = answered.held()
    if answers < ENOUGH:
        return "Intervals should hold the next measurement in 90 of 100 cases."
    return f"Of {answers:,} answers so far {inside:,} lay in their 90 % interval."


def direction(maximise: bool) -> str:
    """Which values a new campaign wants, and how the other ones are wanted."""
    if maximise:
        return "High values are wanted; --minimise=NAME makes a campaign for low ones."
    return "Low values are wanted; --maximise=NAME makes a campaign for high ones."


def counted(counts: dict[str, int]) -> str:
    """`60 rows, 200 columns, 2,400 known`."""
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def added(told: Added) -> str:
    """What a tell added, in words."""
    words = {
        "values": "new value{s}",
        "repeats": "repeat measurement{s}",
        "corrected": "correction{s}",
        "failed": "failed",
        "withdrawn": "withdrawn",
        "silent": "without an answer",
        "pending": "pending",
        "unchanged": "known already",
        "new_rows": "new row{s}",
        "new_columns": "new column{s}",
    }
    parts = []
    for name, word in words.items():
        number = getattr(told, name)
        if number:
            parts.append(f"{number:,} {word.format(s='' if number == 1 else 's')}")
    return ", ".join(parts) or "nothing new"


def status(now: Status, names: Sequence[str], *, maximise: bool) -> str:
    """Where a campaign stands, a line each."""
    row, column, value = names
    silent = f" {now.silent:,} asked without an answer," if now.silent else ""
    lines = [
        f"{now.rows:,} x {now.columns:,} entries ({row} x {column}): {now.known:,} known,"
        f" {now.pending:,} pending, {now.failed:,} failed,{silent} {now.closed:,} that may not be"
        f" asked, {now.open:,} open",
    ]
    if now.past is not None:
        lines.append(now.past)
    if now.beforehand is not None:
        lines.append(now.beforehand)
    if now.best_row is not None:
        kind = "highest" if maximise else "lowest"
        lines.append(
            f"{kind} {value} so far: {figure(now.best_value)} ({now.best_row}, {now.best_column})"
        )
    if now.best is not None:
        lines.append(
            f"best expected {value} left: {figure(now.best.mean)}, 90 % interval"
            f" {_interval(now.best.low, now.best.high)} ({now.best.row}, {now.best.column})"
        )
    return "\n".join([*lines, now.advice])


def open_asks(asks: Sequence[OpenAsk], now: float) -> str:
    """The table of the asks with pending entries, the oldest of many."""
    lines = [
        [
            "(in a table)" if one.token is None else shorten(one.token, LETTERS),
            shorten(one.source, LETTERS),
            f"{span(now - one.time)} ago",
            f"{one.pending:,} of {one.number:,}",
            "never" if one.expires is None else f"in {span(one.expires - now)}",
        ]
        for one in asks[:LISTED]
    ]
    text = "open asks, the oldest first:\n"
    text += table(["token", "by", "asked", "pending", "expires"], lines)
    more = len(asks) - LISTED
    if more > 0:
        text += f"\nand {more:,} later; --open-asks=FILE.csv has all of them"
    return text


def span(seconds: float) -> str:
    """A time span, in the unit that suits it."""
    for unit, size in (("days", 86400.0), ("h", 3600.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0.0) / 60.0:.0f} min"


def plot(values: np.ndarray, title: str) -> str:
    """A line of bars: values in their order, the lowest at the bottom."""
    index = np.linspace(0, values.size - 1, min(values.size, WIDTH)).round().astype(int)
    shown = values[index]
    low, high = float(shown.min()), float(shown.max())
    level = (shown - low) / (high - low) if high > low else np.ones(shown.size)
    bars = "".join(BARS[1 + round(float(x) * (len(BARS) - 2))] for x in level)
    return f"{title}: {figure(float(values[0]))} {bars} {figure(float(values[-1]))}"
