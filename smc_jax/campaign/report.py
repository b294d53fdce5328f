"""The report of a campaign: one page of HTML that needs nothing beside itself."""

import datetime
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

import numpy as np

from smc_jax.campaign import charts
from smc_jax.campaign.batch import further
from smc_jax.campaign.maps import maps_html
from smc_jax.campaign.settings import in_words
from smc_jax.campaign.types import Calibration, ReportData, Suggestion

MAX_SUGGESTIONS, MAX_BEST, MAX_ANSWERS = 200, 20, 400  # that are listed or drawn
MAX_LETTERS = 200  # of an id or a setting
NONE = "&ndash;"  # in the place of a number that there is not


def report_html(data: ReportData) -> str:
    """The report as one page of HTML, to be written as UTF-8.

    The page has no script and fetches nothing. The same data give the same text.

    Args:
        data: everything that the report shows.

    Raises:
        CampaignError: if matplotlib, which draws the charts, is not installed.
    """
    here = resources.files("smc_jax.campaign")
    digits = _digits_of(data)
    return Template(here.joinpath("page.html").read_text("utf-8")).substitute(
        style=here.joinpath("page.css").read_text("utf-8"),
        title=_safe(f"{data.name}: campaign report"),
        name=_safe(data.name),
        summary=_summary(data, digits),
        figures=_figures(data, digits),
        advice=_safe(data.status.advice, 1000),
        outlook=_outlook(data, digits),
        next=_next(data, digits),
        maps=maps_html(data),
        best=_best(data, digits),
        progress=_progress(data),
        calibration=_calibration(data),
        settings=_settings(data),
        row_name=_bdi(data.row_name),
        column_name=_bdi(data.column_name),
        value_name=_bdi(data.value_name),
        direction="Higher" if data.maximise else "Lower",
        made=_time(data.made_at),
        version=_safe(data.version),
    )


def decimals(values: Iterable[float]) -> int | None:
    """Digits behind the point that suit all values; None where powers of ten suit them better.

    A typical value keeps three significant digits, and the range of the values two.
    """
    finite = np.asarray([value for value in values if np.isfinite(value)], float)
    sizes = np.abs(finite[finite != 0.0])
    if not sizes.size:
        return 0
    typical = float(np.median(sizes))
    if not 1e-4 <= typical < 1e7:
        return None
    needed = 2 - int(np.floor(np.log10(typical)))
    spread = float(finite.max() - finite.min())
    if spread > 0.0:
        needed = max(needed, 1 - int(np.floor(np.log10(spread))))
    return int(np.clip(needed, 0, 6))


def number(value: float, digits: int | None) -> str:
    """A number as HTML, with `digits` behind the point, or a power of ten where they are None."""
    if not np.isfinite(value):
        return NONE
    text = f"{value:.2e}" if digits is None else f"{round(value, digits) + 0.0:,.{digits}f}"
    return text.replace("-", "&minus;")


def percent(share: float) -> str:
    """A probability in per cent; never 0 or 100 unless it is."""
    if not np.isfinite(share):
        return NONE
    if 0.0 < share < 0.01:
        return "&lt;1&nbsp;%"
    if 0.99 < share < 1.0:
        return "&gt;99&nbsp;%"
    return f"{100.0 * share:.0f}&nbsp;%"


def _digits_of(data: ReportData) -> int | None:
    stated = [one for item in data.suggestions for one in (item.mean, item.low, item.high)]
    told = data.progress.value[:: 1 + data.progress.value.size // 10_000]
    return decimals([*told.tolist(), *stated, *(value for _, _, value in data.best)])


def _safe(text: object, letters: int = MAX_LETTERS) -> str:
    """Text of the user, escaped."""
    return escape(charts.shorten(str(text), letters))


def _bdi(text: object) -> str:
    """Text of the user whose direction, left or right, leaves the text around it alone."""
    return f"<bdi>{_safe(text)}</bdi>"


def _id(text: str) -> str:
    """An id in a table: one line where it is short."""
    kind = ' class="short"' if len(text) <= 24 else ""
    return f"<bdi{kind}>{_safe(text)}</bdi>"


def _time(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d, %H:%M} UTC</time>'


def _place(data: ReportData, row: str, column: str) -> str:
    return f"{_bdi(data.row_name)} {_bdi(row)}, {_bdi(data.column_name)} {_bdi(column)}"


def _summary(data: ReportData, digits: int | None) -> str:
    status = data.status
    size = f"{status.rows:,}&nbsp;&times;&nbsp;{status.columns:,} table"
    if status.best_row is None or status.best_column is None:
        return f"No entry of the {size} has a value yet."
    share = percent(status.known / (status.rows * status.columns))
    return (
        f"{status.known:,} entries of the {size} are known ({share}), and the {data.extreme} "
        f"{_bdi(data.value_name)} so far is {number(status.best_value, digits)} "
        f"({_place(data, status.best_row, status.best_column)})."
    )


def _figures(data: ReportData, digits: int | None) -> str:
    status = data.status
    values = f"{status.values:,} value{'' if status.values == 1 else 's'}"
    where = NONE
    if status.best_row is not None and status.best_column is not None:
        where = f"{_bdi(status.best_row)} &times; {_bdi(status.best_column)}"
    figures = [
        ("Known", f"{status.known:,}", f"entries, {values}", ""),
        ("Pending", f"{status.pending:,}", "suggested, no answer yet", ""),
        ("Failed", f"{status.failed:,}", "measured without a value", ""),
        *(
            [("No answer", f"{status.silent:,}", "asked, and nothing came", "")]
            if status.silent
            else []
        ),
        ("Open", f"{status.open:,}", f"may be asked; {status.closed:,} closed", ""),
        (f"Best so far ({data.extreme})", number(status.best_value, digits), where, "wide"),
    ]
    return "\n".join(
        f'<div class="{kind}"><dt>{label}</dt><dd><span class="big">{figure}</span>'
        f'<span class="small">{small}</span></dd></div>'
        for label, figure, small, kind in figures
    )


def _outlook(data: ReportData, digits: int | None) -> str:
    status, parts = data.status, []
    if status.best is not None and np.isfinite(status.best.mean):
        parts.append(
            f"Best expected entry left: {_place(data, status.best.row, status.best.column)}, "
            f"{number(status.best.mean, digits)}."
        )
    if np.isfinite(status.chance):
        parts.append(f"Chance that an entry left beats the best so far: {percent(status.chance)}.")
    if np.isfinite(status.expected_gain):
        gain = number(status.expected_gain, decimals([status.expected_gain]))
        parts.append(f"Expected improvement by the best entry left: {gain}.")
    if status.completable is not None:
        enough = "enough" if status.completable else "not enough yet"
        parts.append(f"What is known is {enough} to complete the table.")
    notes = [" ".join(parts)] if parts else []
    if status.beforehand is not None:
        notes.append(f"{status.beforehand[:1].upper()}{status.beforehand[1:]}.")
    return "\n".join(f'<p class="note">{one}</p>' for one in notes)


def _table(head: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], *, label: str) -> str:
    """A table inside a region that scrolls by itself and that the keyboard reaches.

    Args:
        head: title and class of each column; the first column with the class `id` names the row.
        rows: cells, as HTML.
        label: what the table lists.
    """
    kinds = [kind for _, kind in head]
    naming = kinds.index("id") if "id" in kinds else 0
    top = "".join(f'<th scope="col" class="{kind}">{title}</th>' for title, kind in head)
    lines = []
    for cells in rows:
        line = ""
        for place, (kind, cell) in enumerate(zip(kinds, cells, strict=True)):
            tag, scope = ("th", ' scope="row"') if place == naming else ("td", "")
            line += f'<{tag}{scope} class="{kind}">{cell}</{tag}>'
        lines.append(f"<tr>{line}</tr>\n")
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {label}">\n<table>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>\n</table>\n</div>"
    )


def _next(data: ReportData, digits: int | None) -> str:
    if not data.suggestions:
        return "<p>Nothing is pending. Ask for entries to see suggestions here.</p>"
    listed = data.suggestions[:MAX_SUGGESTIONS]
    has_p_answer, has_cost = further(listed)
    bits = decimals(one.gain for one in listed)

    def cells(one: Suggestion) -> list[str]:
        interval = f"{number(one.low, digits)} to {number(one.high, digits)}"
        return [
            _id(one.row),
            _id(one.column),
            number(one.mean, digits),
            interval if np.isfinite(one.low + one.high) else NONE,
            percent(one.probability),
            number(one.gain, bits),
            *([percent(one.p_answer)] if has_p_answer else []),
            *([number(one.cost, decimals([one.cost]))] if has_cost else []),
            _bdi(one.reason),
        ]

    head = [
        (_bdi(data.row_name[:1].upper() + data.row_name[1:]), "id"),
        (_bdi(data.column_name[:1].upper() + data.column_name[1:]), "id"),
        ("Expected value", "number"),
        ("90&nbsp;% interval", "number"),
        ("Probability among the best, when asked", "number"),
        ("Bits, when asked", "number"),
        *([("Probability of an answer, when asked", "number")] if has_p_answer else []),
        *([("Cost, when asked", "number")] if has_cost else []),
        ("Why", "why"),
    ]
    count = len(data.suggestions)
    lead = f"{count:,} entries wait" if count > 1 else "One entry waits"
    if count > len(listed):
        lead = f"{count:,} entries wait, of which the latest {len(listed):,} are listed,"
    text = (
        f"<p>{lead} for a measurement of {_bdi(data.value_name)}, the latest ask first. The"
        " expected values and intervals are those of now; the rest is from when the entries were"
        " asked.</p>\n"
    )
    return text + _table(head, map(cells, listed), label="pending suggestions")


def _best(data: ReportData, digits: int | None) -> str:
    if not data.best:
        return "<p>No value has been told yet.</p>"
    head = [
        ("", "number rank"),
        (_bdi(data.row_name[:1].upper() + data.row_name[1:]), "id"),
        (_bdi(data.column_name[:1].upper() + data.column_name[1:]), "id"),
        (_bdi(data.value_name), "number"),
    ]
    rows = [
        [str(place), _id(row), _id(column), number(value, digits)]
        for place, (row, column, value) in enumerate(data.best[:MAX_BEST], 1)
    ]
    return _table(head, rows, label=f"best entries so far, the {data.extreme} first")


def _settings(data: ReportData) -> str:
    if not data.settings:
        return "<p>No setting is recorded.</p>"
    rows = [[_bdi(name), _bdi(value)] for name, value in in_words(data.settings)]
    return _table([("Setting", "free"), ("Value", "free")], rows, label="settings")


def _progress(data: ReportData) -> str:
    progress = data.progress
    count = progress.value.size
    if not count:
        return "<p>No value has been told yet.</p>"
    drawn = charts.thinned(progress).size
    chart = charts.progress_chart(progress, value_name=data.value_name, maximise=data.maximise)
    first, last = (
        f"{datetime.datetime.fromtimestamp(float(end), datetime.UTC):%Y-%m-%d}"
        for end in (progress.time.min(), progress.time.max())
    )
    when = f"on {first}" if first == last else f"from {first} to {last}"
    text = f"{count:,} value{' was' if count == 1 else 's were'} told {when}."
    if drawn < count:
        text += f" {drawn:,} of them are drawn, evenly chosen, and with them the records."
    return f"<p>{text}</p>\n<figure>\n{chart}\n</figure>"


def _calibration(data: ReportData) -> str:
    answers = data.calibration.usable()
    count, inside = answers.held()
    if not count:
        return "<p>No suggestion of a model has been answered yet: there is nothing to compare.</p>"
    text = (
        f"Of {count:,} answer{'' if count == 1 else 's'} {inside:,} lay in their 90&nbsp;% "
        f"interval, {100.0 * inside / count:.0f}&nbsp;%."
    )
    if count > MAX_ANSWERS:
        text += f" The latest {MAX_ANSWERS:,} are drawn."
    latest = Calibration._make(field[-MAX_ANSWERS:] for field in answers)
    plain = text.replace("&nbsp;", " ")
    chart = charts.calibration_chart(latest, value_name=data.value_name, description=plain)
    return f"<p>{text}</p>\n<figure>\n{chart}\n</figure>"
