"""Charts of a report, as SVG text that stands inside a page of HTML.

Every colour but the colour maps is a custom property of the page (`var(--ink)`), so that a chart
follows the page from light to dark. Text of the user never passes through matplotlib, which would
read `$` as mathematics and warn of letters that its font lacks: matplotlib draws a token, and the
text takes the place of the token at the end.
"""

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smc_jax.campaign.marks import Cells
from smc_jax.campaign.types import Calibration, Progress, ReportData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS, MAX_COLUMNS = 60, 80  # cells of a map: as many as leave a dot of a cell visible
MAX_POINTS = 800  # of a chart with a marker a value
WIDTH = 440.0  # of a chart, in units of its view box; a phone shows about 330 pixels
SMALL, NORMAL = 8.5, 10.0  # letters, in the same units

# matplotlib draws with the colours on the left, the page shows those on the right.
INK, MUTED, LINE, ACCENT, WARM, SURFACE, PAPER = (f"#01020{digit}" for digit in range(7))
_PAGE = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    WARM: "var(--warm)",
    SURFACE: "var(--surface)",
    PAPER: "var(--paper)",
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "smc_jax",
    "font.size": NORMAL,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.formatter.useoffset": False,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor"), "none"),
    **dict.fromkeys(("xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 3),
    **dict.fromkeys(("legend.borderpad", "legend.borderaxespad"), 0.0),
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 3.6,
}


class View(NamedTuple):
    """The rows and columns that the maps show, the best first."""

    rows: np.ndarray  # indices into the row ids
    columns: np.ndarray
    marks: list[tuple[int, int]]  # pending suggestions, by their places in `rows` and `columns`


class _Sheet(NamedTuple):
    figure: "Figure"
    texts: list[str]  # what the tokens stand for

    def text(self, text: str) -> str:
        """The token that stands for a text of the user."""
        self.texts.append(text)
        return f"[[{len(self.texts) - 1}]]"


def shorten(text: str, length: int) -> str:
    """A text of at most `length` characters that a page may hold; an ellipsis replaces a middle."""
    if len(text) > length:
        head = length // 2
        text = f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
    # Joiners belong to words and emoji; other invisible letters could mislead.
    shown = (" " if one.isspace() else one for one in text)
    return "".join(one if one.isprintable() or one in "\u200c\u200d" else "\ufffd" for one in shown)


def choose_view(data: ReportData) -> View | None:
    """The rows and columns with suggestions, then those with the best means.

    The means of the columns are over the rows shown. None where there is nothing to draw.
    """
    values = data.mean if np.isfinite(data.mean).any() else data.known
    if not np.isfinite(values).any():
        return None
    row_of = {name: i for i, name in enumerate(data.row_ids)}
    column_of = {name: j for j, name in enumerate(data.column_ids)}
    pairs = [(row_of.get(one.row), column_of.get(one.column)) for one in data.suggestions]
    asked = [(i, j) for i, j in pairs if i is not None and j is not None]
    rows = _promising(values, 1, [i for i, _ in asked], MAX_ROWS, data.maximise)
    columns = _promising(values[rows], 0, [j for _, j in asked], MAX_COLUMNS, data.maximise)
    row_at = {int(row): i for i, row in enumerate(rows)}
    column_at = {int(column): i for i, column in enumerate(columns)}
    marks = [(row_at[i], column_at[j]) for i, j in asked if i in row_at and j in column_at]
    shown = np.isfinite(values[np.ix_(rows, columns)]).any()
    return View(rows, columns, marks) if shown else None


def _promising(
    values: np.ndarray, axis: int, wanted: list[int], limit: int, maximise: bool
) -> np.ndarray:
    """Indices of the wanted rows (axis 1) or columns (axis 0) and of the best, the best first."""
    finite = np.isfinite(values)
    total = np.sum(values, axis=axis, where=finite, dtype=np.float64)
    count = finite.sum(axis)
    score = np.where(count > 0, total / np.maximum(count, 1), -np.inf if maximise else np.inf)
    order = np.argsort(-score if maximise else score, kind="stable")
    shown = set(list(dict.fromkeys([*wanted, *order.tolist()]))[:limit])
    return np.array([place for place in order.tolist() if place in shown], int)


def heat_map(
    values: np.ndarray,
    data: ReportData,
    view: View,
    *,
    name: str,
    label: str,
    title: str,
    description: str,
    colours: str,
) -> str:
    """A map of the entries in view, with marks on what is known, failed, unanswered or suggested.

    Args:
        values: one value an entry of the whole table [D, N].
        data: what the report shows.
        view: rows and columns to show.
        name: prefix of every id inside the SVG.
        label: what the colours mean.
        title: a name for those who do not see the map.
        description: a sentence for those who do not see the map.
        colours: a colour map of matplotlib.
    """
    with _style():
        shown = values[np.ix_(view.rows, view.columns)]
        row_names = [shorten(data.row_ids[i], 14) for i in view.rows]
        column_names = [shorten(data.column_ids[j], 14) for j in view.columns]
        # Margins from the number of letters: matplotlib does not know the font of the reader.
        height = float(np.clip(len(row_names) * 20.0, 60.0, 340.0))
        left = 24.0 + 0.74 * SMALL * max(map(len, row_names))
        width = WIDTH - left - 8.0
        gap = 1.3 * SMALL
        row_ticks = _spaced(len(row_names), {i for i, _ in view.marks}, gap, height)
        column_ticks = _spaced(len(column_names), {j for _, j in view.marks}, gap, width)
        below = 24.0 + 0.74 * SMALL * max(len(column_names[j]) for j in column_ticks)
        sheet = _sheet(below + height + 52.0)
        axes = _axes(sheet, left, below, width, height)
        painted, limits = _paint(shown, colours)
        axes.imshow(painted, aspect="auto", interpolation="none")
        size = width / len(column_names), height / len(row_names)
        cells, here = Cells(axes, painted, size, INK), np.ix_(view.rows, view.columns)
        cells.dots(np.isfinite(data.known[here]))
        cells.crosses(data.failed[here])
        cells.dashes(data.silent[here])
        at = np.array(view.marks, float).reshape(-1, 2)
        axes.plot(at[:, 1], at[:, 0], "D", ms=5.0, mfc="white", mec="black", mew=1.1, clip_on=False)
        axes.set_yticks(row_ticks, [sheet.text(row_names[i]) for i in row_ticks])
        axes.set_xticks(column_ticks, [sheet.text(column_names[j]) for j in column_ticks])
        for tick in axes.get_xticklabels():
            tick.set(rotation=90, rotation_mode="anchor", ha="right", va="center")
        axes.set_facecolor(SURFACE)
        axes.tick_params(length=2, pad=3)
        axes.spines[:].set_visible(False)
        _write(sheet, 8.0, below + height / 2, data.row_name, rotation=90)
        _write(sheet, left + width / 2, 8.0, data.column_name)
        bar = _axes(sheet, left, below + height + 12.0, width, 7.0)
        ramp = np.linspace(*limits, 256)[None, :]
        bar.imshow(ramp, cmap=colours, aspect="auto", extent=(*limits, 0, 1), interpolation="none")
        bar.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, left=False)
        bar.set_yticks([])
        bar.spines[:].set_visible(False)
        _write(sheet, left, below + height + 45.0, label, ha="left")
        return _svg(sheet, name=name, title=title, description=description)


def progress_chart(progress: Progress, *, value_name: str, maximise: bool) -> str:
    """The values in the order told, and the best so far as a step line."""
    with _style():
        sheet = _sheet(260.0)
        axes = _axes(sheet, 46.0, 34.0, WIDTH - 54.0, 184.0)
        shown = thinned(progress)
        order, value, best = shown + 1, progress.value[shown], progress.best[shown]
        asked = np.asarray(progress.asked, bool)[shown]
        size = 3.6 if shown.size <= 200 else 2.4
        axes.step(order, best, where="post", color=ACCENT, lw=1.8)
        beyond = (0.0, 4.0 if maximise else -12.0)  # where no value is, in points from the line
        ends, at = (order[-1], best[-1]), "offset points"
        axes.annotate("best so far", ends, beyond, textcoords=at, ha="right", color=ACCENT)
        axes.plot(order[asked], value[asked], "o", ms=size, mec="none", mfc=INK, label="asked for")
        hollow = "not asked for"
        axes.plot(order[~asked], value[~asked], "o", ms=size, mec=MUTED, mfc="none", label=hollow)
        axes.set_xlabel("values, in the order in which they were told")
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.margins(x=0.02, y=0.1)
        _legend(sheet)
        _write(sheet, 4.0, 228.0, value_name, ha="left")
        extreme = "highest" if maximise else "lowest"
        text = f"{progress.value.size:,} values; the {extreme} so far as a step line."
        return _svg(sheet, name="progress-chart", title="Progress", description=text)


def thinned(progress: Progress) -> np.ndarray:
    """Indices of the values to draw: all of a few, of many an even choice and the records."""
    count = progress.value.size
    if count <= MAX_POINTS:
        return np.arange(count)
    records = 1 + np.flatnonzero(np.diff(progress.best) != 0)
    some = np.linspace(0, max(records.size - 1, 0), min(records.size, MAX_POINTS // 4)).astype(int)
    even = np.linspace(0, count - 1, MAX_POINTS - some.size).astype(int)
    return np.union1d(even, records[some])


def calibration_chart(answers: Calibration, *, value_name: str, description: str) -> str:
    """What came against what was expected, with the 90 % intervals as vertical lines."""
    with _style():
        sheet = _sheet(330.0)
        axes = _axes(sheet, 46.0, 34.0, WIDTH - 54.0, 254.0)
        inside = (answers.low <= answers.value) & (answers.value <= answers.high)
        size = 4.0 if inside.size <= 100 else 3.0
        ends = _limits(np.concatenate([answers.mean, answers.value]))
        axes.plot(ends, ends, color=MUTED, lw=0.9, ls=(0, (4, 3)), label="as expected")
        axes.vlines(answers.mean, answers.low, answers.high, color=ACCENT, lw=1.1, alpha=0.4)
        mean, value = answers.mean, answers.value
        held = "inside its interval"
        axes.plot(mean[inside], value[inside], "o", ms=size, mfc=ACCENT, mec="none", label=held)
        axes.plot(mean[~inside], value[~inside], "X", ms=7, mfc=WARM, mec=PAPER, label="outside")
        axes.set_xlabel("expected")
        _legend(sheet)
        _write(sheet, 4.0, 298.0, f"{shorten(value_name, 40)} that came", ha="left")
        return _svg(sheet, name="calibration-chart", title="Calibration", description=description)


def _style() -> Any:
    """A context in which matplotlib draws as the page needs it, whatever the user has set."""
    from matplotlib import style

    return style.context(["default", _STYLE])


def _sheet(height: float) -> _Sheet:
    from matplotlib.figure import Figure

    return _Sheet(Figure(figsize=(WIDTH / 72.0, height / 72.0), dpi=72), [])


def _axes(sheet: _Sheet, left: float, below: float, width: float, height: float) -> "Axes":
    across, up = sheet.figure.get_size_inches() * 72.0
    return sheet.figure.add_axes((left / across, below / up, width / across, height / up))


def _write(
    sheet: _Sheet, x: float, y: float, text: str, *, ha: str = "center", **more: Any
) -> None:
    across, up = sheet.figure.get_size_inches() * 72.0
    token = sheet.text(shorten(text, 60))
    sheet.figure.text(x / across, y / up, token, ha=ha, va="center", rotation_mode="anchor", **more)


def _legend(sheet: _Sheet) -> None:
    up = sheet.figure.get_size_inches()[1] * 72.0
    corner = (4.0 / WIDTH, (up - 3.0) / up)
    sheet.figure.legend(loc="upper left", bbox_to_anchor=corner, ncols=3, handlelength=1.4)


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.5 * max(abs(low), 1e-6) if low == high else 0.0
    return low - margin, high + margin


def _paint(shown: np.ndarray, colours: str) -> tuple[np.ndarray, tuple[float, float]]:
    """Colours [rows, columns, RGBA] of a map, without any where there is no value, and its ends."""
    import matplotlib

    finite = np.isfinite(shown)
    # One outlier would leave a single colour to all the rest.
    low, high = _limits(np.percentile(shown[finite], (1.0, 99.0)))
    painted = matplotlib.colormaps[colours]((np.where(finite, shown, low) - low) / (high - low))
    painted[~finite] = 0.0
    return painted, (low, high)


def _spaced(count: int, marked: set[int], gap: float, length: float) -> list[int]:
    """Places of the labels: all where they fit, else the marked ones that do, else even ones."""
    apart = gap * count / length
    if apart <= 1.0:
        return list(range(count))
    chosen: list[int] = []
    for place in sorted(marked) or range(count):
        if not chosen or place - chosen[-1] >= apart:
            chosen.append(place)
    return chosen


def _svg(sheet: _Sheet, *, name: str, title: str, description: str) -> str:
    """The figure as an SVG element whose ids start with `name`."""
    file = io.StringIO()
    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    sheet.figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    box = text[text.index("viewBox") :].split('"')[1]
    opening = (
        f'<svg viewBox="{box}" role="img" aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-description">{escape(description)}</desc>'
    )
    body = text[text.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(#|href="#)', rf"\1{name}-", body)
    for drawn, meant in _PAGE.items():
        body = body.replace(drawn, meant)
    # The reader's font, in a size that the page can enlarge on a phone.
    body = re.sub(r"font-family: [^;\"]*; ", "", body)
    size = r"font-size: calc(\1px * var(--text))"
    body = re.sub(r"font(?:-size)?: ([\d.]+)px(?: [^;\"]*)?", size, body)
    body = re.sub(r"(\d\.\d{3})\d+", r"\1", body)
    body = re.sub(r"\[\[(\d+)\]\]", lambda found: escape(sheet.texts[int(found[1])]), body)
    return opening + body
