"""The report: what it states, that it needs nothing beside itself, and how a browser shows it."""

import itertools
import json
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from smc_jax.campaign import charts
from smc_jax.campaign.report import decimals, number, percent, report_html
from smc_jax.campaign.settings import SETTINGS, checked_settings, in_words
from smc_jax.campaign.types import Calibration, Progress, ReportData, Status, Suggestion


def fake(rows=60, columns=200, *, suggestions=20, told=100, maximise=True, seed=0):
    """A campaign on a table of rank four, a fifth of it known."""
    random = np.random.default_rng(seed)
    truth = 6.0 + random.normal(0.4, 0.6, (rows, 4)) @ random.normal(0.4, 0.6, (4, columns))
    known = np.where(random.random(truth.shape) < 0.2, truth, np.nan)
    row_ids = [f"CHEMBL{1000 + 37 * i}" for i in range(rows)]
    column_ids = [f"CL-{j:03d}" for j in range(columns)]
    spread = random.gamma(6.0, 0.1, (rows, 1)) * random.gamma(6.0, 0.15, (1, columns))
    sd = np.where(np.isfinite(known), 0.12, 0.2 + spread)
    mean = truth + 0.3 * sd * random.standard_normal(truth.shape)
    sign = 1.0 if maximise else -1.0
    open_score = np.where(np.isfinite(known), -np.inf, sign * mean + sd)
    asked = []
    for place in np.argsort(-open_score, axis=None)[: 3 * suggestions : 3].tolist():
        i, j = divmod(place, columns)
        reason = "Its expected value is high, and its row has few values."
        low, high = mean[i, j] - 1.645 * sd[i, j], mean[i, j] + 1.645 * sd[i, j]
        rest = (mean[i, j], sd[i, j], low, high, random.beta(2, 4), random.gamma(2, 0.1))
        asked.append(Suggestion(row_ids[i], column_ids[j], *map(float, rest), reason))
    count = int(np.isfinite(known).sum())
    order = np.argsort(np.nan_to_num(-sign * known, nan=np.inf), axis=None)[: min(20, count)]
    cells = [divmod(place, columns) for place in order.tolist()]
    best = [(row_ids[i], column_ids[j], float(known[i, j])) for i, j in cells]
    values = random.choice(truth.ravel(), told)
    values[told // 3 :] += sign * np.sort(random.uniform(0, 2.0, told - told // 3))
    running = np.maximum.accumulate(values) if maximise else np.minimum.accumulate(values)
    times = 1.76e9 + 9e4 * np.arange(told)
    progress = Progress(times, values, running, np.arange(told) >= told // 3)
    came = values[-40:]
    hoped = came + 0.5 * random.standard_normal(came.size)
    calibration = Calibration(
        mean=hoped, sd=np.full_like(came, 0.49), low=hoped - 0.8, high=hoped + 0.8, value=came
    )
    status = Status(
        *(rows, columns, count, count + 7, len(asked), 3, 11, truth.size - count - 31),
        asked[0] if asked else None,
        *(*(best[0] if best else (None, None, np.nan)), 0.214, 0.62),
        "Yes: an entry better than the best so far is likely among those left.",
    )
    settings = checked_settings({"rank": 8, "maximise": maximise, "seed": seed})
    return ReportData(
        *("Kinase panel, spring 2026", settings, "compound", "cell line", "pIC50", maximise),
        *(row_ids, column_ids, known, mean, sd, asked, best, status, progress, calibration),
        *(1.79e9, "0.2.0", ~np.isfinite(known) & (random.random(known.shape) < 0.02)),
        np.zeros(known.shape, bool),
    )


class Page(HTMLParser):
    """What a page says: its elements, its ids, what it refers to, and its text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.ids, self.attributes, self.text = [], [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "link"):  # which have no end
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += " ".join(data.split()) + " "


@pytest.fixture(scope="module")
def campaign():
    return fake()


@pytest.fixture(scope="module")
def html(campaign):
    return report_html(campaign)


def no_network(html):
    page = Page(html)
    assert "script" not in page.tags
    loading = {"src", "srcset", "href", "xlink:href", "data", "action", "poster", "background"}
    for tag, name, value in page.attributes:
        if name in loading:
            assert value.startswith(("#", "data:")), (tag, name, value)
        assert not name.startswith("on")
        assert not re.search(r"url\((?!#)", value)
    assert "@import" not in html
    assert not re.search(r"https?:", re.sub(r"<(bdi|text)\b.*?</\1>", "", html, flags=re.DOTALL))
    return page


def test_the_page_is_whole_and_needs_nothing_beside_itself(html):
    page = no_network(html)
    assert len(page.ids) == len(set(page.ids))
    referred = re.findall(r'(?:url\(|href=")#([^)"]*)', html)
    for labels in re.findall(r'aria-labelledby="([^"]*)"', html):
        referred += labels.split()
    assert set(referred) <= set(page.ids)
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("title") == 1 + 4  # the page and its four charts
    assert [tag for tag in page.tags if tag in ("h1", "h2", "h3")] == ["h1"] + 7 * ["h2"]
    assert len(html.encode()) < 500_000


def test_all_figures_are_stated(campaign, html):
    text, status = Page(html).text, campaign.status
    for count in (status.known, status.values, status.pending, status.failed, status.open):
        assert f"{count:,}" in text
    best, repeat = f"{status.best_value:.2f}", "smc-jax report lab.db"
    for part in (campaign.name, campaign.version, status.advice, best, repeat, "2026-09-21, 14:13"):
        assert part in text
    for one in campaign.suggestions:
        for part in (one.row, one.column, f"{one.mean:.2f}", f"{one.low:.2f} to {one.high:.2f}"):
            assert part in text
    lines = [f"{row} {column} {value:.2f}" for row, column, value in campaign.best]
    for line in lines + [f"{name} {value}" for name, value in in_words(campaign.settings)]:
        assert line in " ".join(text.split())
    assert "60 of 60 rows and 80 of 200 columns" in text
    answers = campaign.calibration
    inside = int(((answers.low <= answers.value) & (answers.value <= answers.high)).sum())
    assert f"Of 40 answers {inside} lay in their 90 % interval" in text.replace("\xa0", " ")


def test_the_same_data_give_the_same_text_and_leave_matplotlib_alone(campaign, html):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30.0, "svg.fonttype": "path", "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        assert report_html(campaign) == html
        assert dict(matplotlib.rcParams) == before


def test_settings_are_said_in_words(html):
    """None, True and False are words of Python, and the names of settings are those of flags."""
    text = " ".join(Page(html).text.split())
    own = text[text.index("Settings Setting Value") : text.index("Glossary Entry")]
    for word in ("None", "True", "False", "retry_failed", "maximise"):
        assert word not in own
    said = dict(in_words(checked_settings({})))
    assert len(said) == len(SETTINGS)
    assert said["Standard deviation of a measurement"] == "learned from the values"
    assert said["Wanted values"] == "high ones"
    other = {"noise": 0.25, "maximise": False, "budget": 1200, "repeats": True, "policy": "greedy"}
    changed = dict(in_words(checked_settings(other)))
    differ = {changed[name] for name in said if changed[name] != said[name]}
    assert differ == {
        *("low ones", "0.25, as it was given", "yes, averaged", "1,200"),
        "the best expected values (greedy)",
    }


def test_the_caption_of_a_map_says_how_it_is_ordered_and_what_its_marks_mean(html):
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    assert len(captions) == 2
    for caption in captions:
        said = Page(caption).text
        assert (
            "Rows are ordered by the mean of their expected values, the highest at the top" in said
        )
        assert "columns by theirs, the highest on the left" in said
        for mark in ("known entry", "pending suggestion", "failed measurement"):
            assert mark in said
        assert caption.count("<svg") == 3


def crosses(html, name):
    """How many lines the crosses of a map have: strokes without round ends."""
    chart = html[html.index(f'id="{name}-title"') :]
    chart = chart[: chart.index("</svg>")]
    found = re.findall(r'<path d="([^"]*)"[^>]*style="fill: none; stroke: ([^;"]*)([^"]*)"', chart)
    lines = [
        (line.count("L"), colour)
        for line, colour, look in found
        if line.count("M") == line.count("L") > 1 and "round" not in look
    ]
    return sum(number for number, _ in lines), {colour for _, colour in lines}


def test_failed_entries_have_a_mark_and_its_key():
    data = fake(12, 15, suggestions=4, told=30)
    some = np.zeros_like(data.failed)
    some[np.unravel_index(np.flatnonzero(np.isnan(data.known))[:7], some.shape)] = True
    marked, plain = (report_html(data._replace(failed=one)) for one in (some, some & False))
    for name in ("mean-map", "sd-map"):
        assert crosses(marked, name)[0] == 2 * 7
        assert crosses(plain, name)[0] == 0
    text = Page(marked).text
    assert "failed measurement" in text
    assert "and 7 failed measurements are marked" in text


def test_a_failed_entry_without_a_colour_is_marked_in_the_colour_of_the_text():
    data = nothing(fake(8, 9, suggestions=3, told=10), known=True)
    failed = np.zeros_like(data.failed)
    failed[np.unravel_index(np.flatnonzero(np.isnan(data.known))[:3], failed.shape)] = True
    assert crosses(report_html(data._replace(failed=failed)), "known-map") == (6, {"currentColor"})


def test_low_values_are_the_best_of_a_campaign_that_minimises():
    data = fake(12, 15, suggestions=4, told=30, maximise=False)
    text = Page(report_html(data)).text
    for part in ("lowest", "Lower is better", "Darker expected values are better"):
        assert part in text
    assert "highest" not in text
    assert (np.diff(data.mean.mean(1)[charts.choose_view(data).rows]) >= 0).all()


NASTY = [
    *("<script>alert(1)</script>", "a & b \"quoted\" 'id'", "$x_1$ and $", '[[0]] url(#x) id="y"'),
    *("مركب", "👩\u200d🔬🧪", "https://example.org/x", "]]>--><!--", "long" * 500),
    "nul \x00 override \u202e surrogate \ud800",
]


def test_text_of_the_user_is_shown_and_never_obeyed():
    data = fake(10, 10, suggestions=8, told=30)
    names = dict(zip(data.row_ids + data.column_ids, NASTY + NASTY, strict=True))
    asked = [one._replace(row=names[one.row], column=names[one.column]) for one in data.suggestions]
    odd = data._replace(
        **dict(zip(("name", "row_name", "column_name", "value_name"), NASTY, strict=False)),
        **dict.fromkeys(("row_ids", "column_ids"), NASTY),
        settings={one: one for one in NASTY},
        best=[(names[row], names[column], value) for row, column, value in data.best],
        suggestions=[one._replace(reason=NASTY[0]) for one in asked],
        status=data.status._replace(best_row=NASTY[0], best_column=NASTY[5], advice=NASTY[1]),
    )
    html = report_html(odd)
    page = no_network(html)
    assert len(page.ids) == len(set(page.ids))
    html.encode()
    assert not set("\x00\u202e") & set(html)
    for one in NASTY[:8]:
        assert one in page.text


def test_the_report_of_a_large_campaign_stays_small():
    data = fake(1000, 2000, suggestions=300, told=200_000)
    # A dot, or a cross, on every cell.
    known = np.where(data.failed, np.nan, data.mean)
    html = report_html(data._replace(known=known, failed=np.isnan(known)))
    assert len(html.encode()) < 2_000_000
    text = no_network(html).text
    shown, listed = "60 of 1,000 rows and 80 of 2,000 columns", "the latest 200 are listed"
    for part in (shown, listed, "300 entries wait", "of them are drawn"):
        assert part in text


def nothing(data, *, known):
    """The campaign before there is a model, and perhaps before there is a value."""
    empty, none = np.full_like(data.known, np.nan), np.zeros(0)
    blank = dict.fromkeys(("mean", "sd", "low", "high", "gain", "probability"), np.nan)
    asked = [one._replace(**blank) for one in data.suggestions]
    status = data.status._replace(best=None, expected_gain=np.nan, chance=np.nan)
    answers = Calibration._make(none for _ in Calibration._fields)
    data = data._replace(mean=empty, sd=empty, suggestions=asked, calibration=answers)
    if known:
        return data._replace(status=status)
    status = status._replace(known=0, best_row=None, best_column=None, best_value=np.nan)
    progress = Progress(none, none, none, none.astype(bool))
    return data._replace(known=empty, best=[], suggestions=[], progress=progress, status=status)


@pytest.mark.parametrize("known", [True, False], ids=["values", "nothing"])
def test_before_there_is_a_model_sentences_stand_where_charts_would(known):
    data = nothing(fake(8, 9, suggestions=3, told=10), known=known)
    text = no_network(report_html(data)).text
    assert "nan" not in text.lower().split()
    assert "No suggestion of a model has been answered yet" in text
    assert (known, not known) == ("There is no model yet" in text, "No entry of the" in text)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (3, 2)])
def test_tables_of_any_shape_are_drawn(shape):
    data = fake(*shape, suggestions=1, told=1)
    no_network(report_html(data._replace(known=data.mean)))


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e9])
def test_values_of_any_size_are_drawn(scale):
    data = fake(6, 7, suggestions=2, told=9)
    changed = {name: getattr(data, name) * scale for name in ("known", "mean", "sd")}
    changed["calibration"] = Calibration._make(one * scale for one in data.calibration)
    value, best = data.progress.value * scale, data.progress.best * scale
    changed["progress"] = data.progress._replace(value=value, best=best)
    no_network(report_html(data._replace(**changed)))


def test_numbers_of_a_column_share_their_digits_and_no_chance_becomes_certainty():
    for values, shown in (
        ([8.2314, 7.1], ["8.23", "7.10"]),
        ([1000.12, 1000.17], ["1,000.120", "1,000.170"]),
        ([-0.0001, 812.0, 790.0], ["0", "812", "790"]),
        ([-3.0e9, np.nan], ["&minus;3.00e+09", "&ndash;"]),
    ):
        digits = decimals(values)
        assert [number(value, digits) for value in values] == shown
    shown = [percent(share).replace("&nbsp;", " ") for share in (0.0, 0.001, 0.374, 0.999, 1.0)]
    assert shown == ["0 %", "&lt;1 %", "37 %", "&gt;99 %", "100 %"]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_text_has_contrast_in_light_in_dark_and_on_paper():
    css = resources.files("smc_jax.campaign").joinpath("page.css").read_text("utf-8")
    schemes = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in css.split(":root {")]
    assert sum(map(bool, schemes)) == 3
    pairs = itertools.product(("ink", "muted", "accent", "warm"), ("paper", "surface"))
    for scheme, pair in itertools.product(filter(None, schemes), pairs):
        dark, light = sorted(luminance(scheme[name]) for name in pair)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, pair


HARNESS = """<!DOCTYPE html><meta charset="utf-8">
<style>:root, iframe { color-scheme: light dark; }</style>
<iframe width="360" height="800" srcdoc="PAGE"></iframe>
<iframe width="1200" height="800" srcdoc="PAGE"></iframe>
<pre id="found"></pre>
<script>
console.log("canary");
addEventListener("load", () => {
  found.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, style = (one) => frame.contentWindow.getComputedStyle(one);
    const wide = [...page.querySelectorAll("body *")].filter((one) =>
      one.scrollWidth > one.clientWidth + 1 && style(one).overflowX === "auto");
    return {
      width: page.documentElement.scrollWidth, window: page.documentElement.clientWidth,
      scrolling: wide.length,
      unreachable: wide.filter((one) => one.tabIndex !== 0 || !one.ariaLabel).length,
      paper: style(page.body).backgroundColor,
      ink: style(page.body).color, drawn: style(page.querySelector("figure > svg text")).fill,
      charts: [...page.querySelectorAll("figure > svg")].map((one) => one.clientWidth),
    };
  }));
});
</script>"""


def browse(html, folder, scheme):
    """What Chromium finds at 360 and 1200 pixels, and what its console says."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: how a browser shows the report is not checked")
    source = folder / "harness.html"
    source.write_text(HARNESS.replace("PAGE", escape(html)), "utf-8")
    options = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--disable-dev-shm-usage --enable-logging=stderr --window-size=1300,900 --dump-dom "
        f"--blink-settings=preferredColorScheme={['dark', 'light'].index(scheme)}"
    )
    command = [chromium, *options.split(), f"--user-data-dir={folder / 'profile'}", source.as_uri()]
    done = subprocess.run(
        command, capture_output=True, timeout=300, check=True, encoding="utf-8", errors="replace"
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(unescape(found[1])), said


@pytest.mark.parametrize(("scheme", "paper"), [("light", "255, 255, 255"), ("dark", "17, 21, 27")])
def test_a_browser_shows_the_report_on_a_phone_and_on_a_desk(html, tmp_path, scheme, paper):
    found, said = browse(html, tmp_path, scheme)
    assert ["canary" in line for line in said] == [True], said
    for one in found:
        assert (one["width"], one["unreachable"]) == (one["window"], 0)
        assert one["paper"] == f"rgb({paper})"
        assert one["drawn"] == one["ink"] != one["paper"]
        assert len(one["charts"]) == 4
    phone, desk = found
    assert phone["scrolling"] > 0
    assert 280 < min(phone["charts"]) <= max(phone["charts"]) <= 360
    assert min(desk["charts"]) > 450


def test_long_ids_do_not_widen_the_page(tmp_path):
    data = fake(6, 7, suggestions=4, told=20)
    long = {name: name * 40 for name in data.row_ids}
    odd = data._replace(
        row_ids=list(long.values()),
        suggestions=[one._replace(row=long[one.row]) for one in data.suggestions],
        best=[(long[row], column, value) for row, column, value in data.best],
        status=data.status._replace(best_row=data.row_ids[0] * 40),
        name="x" * 300,
        settings={"y" * 200: "z" * 500},
    )
    found, _ = browse(report_html(odd), tmp_path, "light")
    for one in found:
        assert (one["width"], one["unreachable"]) == (one["window"], 0)
