"""Pictures: labels that do not cover one another, lines that stay apart, paired differences."""

import itertools

import matplotlib.colors
import numpy as np
import pytest
from scipy import optimize, stats

from configs import figure1
from launch import labels, plot, settings, styles, tables
from smc_jax.policies.registry import POLICIES
from smc_jax.simulation.regret import Curves

NAMES = settings.policy_names(figure1.get_config())
PICKS = 60


def curves_of(ends, *, seeds=4, picks=PICKS):
    """Curves that end at these means, with noise that differs from seed to seed."""
    rng = np.random.default_rng(0)
    found = {}
    for name, end in ends.items():
        noise = rng.normal(size=(seeds, 1)) * np.linspace(0.0, 1.0, picks)
        own = {"regret": np.linspace(0.0, end, picks) + noise}
        own["rows"] = np.zeros((seeds, picks), np.int32)
        found[name] = Curves(**dict.fromkeys(Curves._fields, np.zeros((seeds, 0))) | own)
    return found


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would have been written."""
    found = []
    monkeypatch.setattr(plot, "_save", lambda path, figure: found.append(figure))
    yield found
    for figure in found:
        plot.plt.close(figure)


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_moved_as_little_as_can_be(seed):
    rng = np.random.default_rng(seed)
    wanted = rng.uniform(size=7)
    found = np.array(labels.spread(wanted, gap=0.1, low=0.0, high=0.9))
    order = np.argsort(wanted)
    assert (np.diff(found[order]) >= 0.1 - 1e-9).all()
    assert found.min() >= -1e-9
    assert found.max() <= 0.9 + 1e-9
    apart = [{"type": "ineq", "fun": lambda x, k=k: x[k + 1] - x[k] - 0.1} for k in range(6)]
    best = optimize.minimize(
        lambda x: ((x - wanted[order]) ** 2).sum(),
        np.linspace(0.0, 0.9, 7),
        bounds=7 * [(0.0, 0.9)],
        constraints=apart,
        tol=1e-12,
    )
    np.testing.assert_allclose(found[order], best.x, atol=1e-4)


def test_labels_that_need_no_room_stay_and_those_that_have_none_are_even():
    assert labels.spread([], gap=0.1, low=0.0, high=1.0) == []
    assert labels.spread([0.7, 0.2], gap=0.1, low=0.0, high=1.0) == [0.7, 0.2]
    found = labels.spread([0.5] * 5, gap=0.5, low=0.0, high=1.0)
    np.testing.assert_allclose(found, [0.0, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("ends", ["alike", "apart"])
def test_no_label_covers_another(drawn, tmp_path, ends):
    """All policies of the figure, in all panels; `random` leaves at the top."""
    values = {
        name: 300.0 + (number if ends == "alike" else 90 * number)
        for number, name in enumerate(NAMES)
    }
    curves = curves_of(values | {"random": 9000.0})
    plot.panels_plot(tmp_path / "x.png", dict.fromkeys(("one", "two", "three"), curves), stamp="x")
    (figure,) = drawn
    renderer = figure.canvas.get_renderer()
    whole = figure.bbox
    texts = [text for axes in figure.axes for text in axes.texts if text.get_text() and axes.axison]
    assert len(texts) == 3 * (len(NAMES) + 2)
    boxes = [text.get_window_extent(renderer) for text in texts]
    for one, other in itertools.combinations(range(len(texts)), 2):
        covered = boxes[one].overlaps(boxes[other])
        assert not covered, (texts[one].get_text(), texts[other].get_text())
    shown = [axes for axes in figure.axes if axes.axison]
    boxes += [axes.yaxis.label.get_window_extent(renderer) for axes in shown]
    titles = [text for axes in shown for text in (axes.title, axes._left_title) if text.get_text()]
    assert len(titles) == 3 * 3  # the panel's own, and what each kind of band is
    boxes += [text.get_window_extent(renderer) for text in titles]
    for one, other in itertools.combinations(boxes[-len(titles) :], 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
    assert any(text.get_text() == "random ↑" for text in texts)
    for axes in figure.axes:  # the labels cover no panel beside them either
        inside = axes.get_window_extent(renderer)
        if axes.axison:
            assert not any(box.overlaps(inside) for box in boxes)


def test_letters_can_be_read_at_the_width_of_a_page(drawn, tmp_path):
    """A page on GitHub is 846 pixels wide; letters are then at least nine pixels high."""
    curves = curves_of({"ids": 3.0, "greedy": 4.0})
    plot.panels_plot(tmp_path / "x.png", {"one": curves, "two": curves})
    (figure,) = drawn
    points_a_pixel = 72 * figure.get_figwidth() / 846
    sizes = [text.get_fontsize() for axes in figure.axes for text in axes.texts]
    sizes += [label.get_fontsize() for axes in figure.axes for label in axes.get_xticklabels()]
    assert min(sizes) / points_a_pixel >= 9.0


def test_differences_are_paired_and_from_the_best_oracle(drawn, tmp_path):
    ends = {
        "ids": 30.0,
        "oracle": 40.0,
        "mean_oracle_ids": 25.0,
        "oracle_ids": 28.0,
        "greedy": 35.0,
    }
    curves = curves_of(ends)
    assert tables.best_oracle(curves) == "mean_oracle_ids"
    assert tables.best_oracle({"ids": curves["ids"]}) is None
    found = {one.reference: one for one in plot.differences(curves)}
    assert list(found) == ["greedy", "mean_oracle_ids"]
    for reference, one in found.items():
        gap = curves["ids"].regret - curves[reference].regret
        assert one.picks.tolist() == list(range(1, PICKS + 1))
        np.testing.assert_allclose(one.mean, gap.mean(0))
        width = stats.t.ppf(0.975, 3) * gap.std(0, ddof=1) / 2.0
        np.testing.assert_allclose(one.high - one.mean, width, atol=1e-12)
        np.testing.assert_allclose(one.mean - one.low, width, atol=1e-12)
    plot.panels_plot(tmp_path / "x.png", {"one": curves})
    _, below = drawn[0].axes
    lines = {len(line.get_xdata()): line for line in below.lines if len(line.get_xdata()) == PICKS}
    assert lines
    said = {text.get_text() for text in below.texts}
    assert said == {"ids minus\ngreedy", "ids minus\nmean_oracle_ids"}


def test_a_panel_without_references_has_no_differences(drawn, tmp_path):
    plot.regret_plot(tmp_path / "x.png", curves_of({"ids": 3.0, "random": 9.0}), title="t")
    assert len(drawn[0].axes) == 1
    assert plot.differences(curves_of({"oracle": 3.0, "random": 9.0})) == []
    mine = plot.differences(curves_of({"mine:rule": 3.0, "greedy": 9.0}))
    assert [(one.policy, one.reference) for one in mine] == [("mine:rule", "greedy")]


def test_runs_that_ended_early_have_no_differences():
    curves = curves_of({"ids": 3.0, "greedy": 9.0})
    rows = curves["ids"].rows.copy()
    rows[:, 10:] = -1
    assert plot.differences(curves | {"ids": curves["ids"]._replace(rows=rows)}) == []


# What somebody sees who lacks one kind of cones (Machado, Oliveira & Fernandes 2009).
SEEN = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}


def lab(colour, matrix):
    """Lightness and two opponent colours (CIE 1976) of a colour as it is seen."""
    srgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = matrix @ np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = np.maximum(to_xyz @ linear, 0.0) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("cones", SEEN)
def test_colours_stay_apart_for_colour_blind_readers(cones):
    seen = {name: lab(colour, SEEN[cones]) for name, colour in styles.COLOURS.items()}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 11.0, (one, other)


def test_lines_are_told_apart_in_grey():
    """By the marker and its filling alone, whatever the dashes."""
    found = styles.styles_of(POLICIES)
    looks = {(style.marker, style.filling) for style in found.values()}
    assert len(looks) == len(POLICIES)
    outside = styles.styles_of([f"mine:{n}" for n in range(20)])
    assert len({(style.marker, str(style.dashes)) for style in outside.values()}) == 20
    assert not {style.marker for style in outside.values()} & {marker for marker, _ in looks}


def test_members_of_a_family_share_a_colour_and_neither_dashes_nor_markers():
    for family in (["ids", "ids_paper"], ["thompson", "thompson_paper"]):
        found = styles.styles_of(family).values()
        assert len({style.colour for style in found}) == 1
        assert len({style.marker for style in found}) == 2
        assert len({str(style.dashes) for style in found}) == 2
    for told in ("oracle", "mean_oracle"):
        family = styles.styles_of([told, f"{told}_ids", f"{told}_greedy"]).values()
        assert {style.colour for style in family} == {styles.COLOURS[told]}
        assert len({style.filling for style in family}) == 1
        assert len({str(style.dashes) for style in family}) == 3
        rules = ("thompson", "ids", "greedy")
        assert [style.marker for style in family] == [styles.MARKERS[rule] for rule in rules]


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_a_picture_says_what_its_bands_are(drawn, tmp_path, seeds):
    """Intervals of few seeds are as wide as the panel, and are left out."""
    curves = curves_of({"ids": 3.0, "greedy": 9.0}, seeds=seeds)
    plot.regret_plot(tmp_path / "x.png", curves, title="t", stamp="Made at commit abc.")
    (figure,) = drawn
    above, below = figure.axes
    assert above.get_title() == "t"
    told = "one seed, no band" if seeds == 1 else "mean over the seeds, band ± 1 standard error"
    assert above.get_title(loc="left") == told
    assert len(above.collections) == (0 if seeds == 1 else 2)
    told = "mean of the pairs, band 95 % t interval"
    if seeds < 4:
        told = "mean of the pairs; no interval below 4 seeds"
    assert below.get_title(loc="left") == told
    assert len(below.collections) == (0 if seeds < 4 else 1)
    assert [text.get_text() for text in figure.texts] == ["Made at commit abc."]
