"""Pictures of regret curves: a panel an experiment, with labels at the ends of the lines."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from launch.files import write
from launch.labels import spread
from launch.styles import COLOURS, Style, styles_of
from launch.tables import best_oracle, comparable
from smc_jax.policies.registry import ORACLES
from smc_jax.simulation.regret import Curves, paired_interval

# Lengths of a panel in inches, and sizes of letters in points: two panels side by side are as wide
# as a page on GitHub, where the letters are then nine pixels high.
LEFT, ACROSS, GUTTER = 0.85, 2.8, 2.1
TITLE, REGRET, BETWEEN, DIFFERENCE, BELOW = 0.5, 3.4, 0.32, 1.3, 0.6
LETTERS, SMALL = 9.5, 9.0
POINTS = 200  # of a curve of differences
SEEDS_OF_AN_INTERVAL = 4  # with fewer, a t interval is too wide to be drawn
READ = """How to read it

Top: the sum of the best entries on offer minus the
sum of the entries picked. Mean over the seeds, band
of ± 1 standard error. A line that leaves at the top
has an arrow. Each panel has a scale of its own.

Bottom: the regret of one policy minus the regret of
another at the same seed, with a band of the 95 % t
interval. Below 0 the first policy is the better one.
The oracle is the one of the least mean regret at the
end.

Names: policy, or oracle_RULE for an oracle that
picks by that rule; oracle alone picks by Thompson
draws, NAME_paper has the paper's settings. Markers
have the shape of the rule: full for policies that
learn, hollow or half full for oracles."""


def regret_plot(path: Path, curves: dict[str, Curves], *, title: str, stamp: str = "") -> None:
    """The regret of each policy in one experiment, and paired differences below it."""
    panels_plot(path, {title: curves}, stamp=stamp)


def panels_plot(path: Path, panels: dict[str, dict[str, Curves]], *, stamp: str = "") -> None:
    """One panel an experiment, two side by side: regret above, paired differences below.

    Args:
      path: the picture.
      panels: the curves of each experiment by its title.
      stamp: what is written small in the corner.
    """
    across = min(len(panels), 2)
    compared = {title: differences(curves) for title, curves in panels.items()}
    below = BETWEEN + DIFFERENCE if any(compared.values()) else 0.0
    width, height = LEFT + ACROSS + GUTTER, TITLE + REGRET + below + BELOW
    whole = np.array([width * across, height * -(-len(panels) // across)])
    figure = plt.figure(figsize=tuple(whole))

    def axes_at(number: int, down: float, tall: float) -> Axes:
        """Axes in the cell of that number, so many inches below its upper edge."""
        row, column = divmod(number, across)
        low = [column * width + LEFT, whole[1] - row * height - down - tall]
        return figure.add_axes((*(low / whole), ACROSS / whole[0], tall / whole[1]))

    for number, (title, curves) in enumerate(panels.items()):
        axes = axes_at(number, TITLE, REGRET)
        _draw_regret(axes, curves)
        axes.set_title(title, fontsize=LETTERS + 1, y=1.0 + 1.5 * SMALL / 72 / REGRET, pad=3)
        axes.set_title(_band(curves), fontsize=SMALL, loc="left", pad=3)
        axes.set_ylabel("cumulative regret\n(units of an entry)", fontsize=LETTERS)
        lowest = axes
        if compared[title]:
            lowest = axes_at(number, TITLE + REGRET + BETWEEN, DIFFERENCE)
            _draw_differences(lowest, compared[title])
            lowest.set_title(_interval(compared[title]), fontsize=SMALL, loc="left", pad=3)
            lowest.set_ylabel("paired difference\n(units of an entry)", fontsize=LETTERS)
            lowest.set_xlim(axes.get_xlim())
            axes.tick_params(labelbottom=False)
        lowest.set_xlabel("picks (entries chosen so far)", fontsize=LETTERS)
        for each in (axes, lowest):
            each.yaxis.set_label_coords(-0.18, 0.5)
    if len(panels) % across:
        spare = axes_at(len(panels), TITLE, REGRET)
        spare.axis("off")
        spare.text(0.0, 1.0, READ, fontsize=LETTERS, va="top", linespacing=1.35)
    if stamp:
        figure.text(0.995, 0.06 / whole[1], stamp, fontsize=7, color="#555555", ha="right")
    _save(path, figure)


def served_plot(path: Path, panels: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Picks of each column against its average [seeds, N], a panel a run, and their trend."""
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(4.4 * len(panels), 3.4),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axes, (title, (average, picks)) in zip(grid.flat, panels.items(), strict=True):
        rated = np.isfinite(average)  # a column without ratings cannot be served
        average, picks = average[rated], picks[rated]
        axes.scatter(average, picks, s=3, alpha=0.25, lw=0, color=COLOURS["ids"])
        order = np.argsort(average)
        tenths = [np.array_split(x[order], 10) for x in (average, picks)]
        middle, served = ([part.mean() for part in parts] for parts in tenths)
        axes.plot(middle, served, "o-", color="black", label="mean of each tenth")
        axes.set(xlabel="the user's average rating", title=title)
        axes.grid(alpha=0.25)
    grid.flat[0].set_ylabel("picks for the user")
    grid.flat[0].legend(frameon=False)
    _save(path, figure)


class Difference(NamedTuple):
    """Regret of a policy minus that of another over paired seeds, at some picks."""

    policy: str
    reference: str
    picks: np.ndarray  # [M]
    seeds: int
    mean: np.ndarray  # [M]
    low: np.ndarray  # [M]  end of the 95 % interval; NaN for one seed
    high: np.ndarray  # [M]


def differences(curves: dict[str, Curves]) -> list[Difference]:
    """The first policy that is neither a reference nor random, minus greedy and the best oracle.

    `ids` comes first where it is there.
    """
    both = ("greedy", best_oracle(curves))
    references = [name for name in both if name is not None and name in curves]
    first = [name for name in ("ids", *curves) if name in curves]
    policy = next((name for name in first if name not in (*ORACLES, "greedy", "random")), None)
    found = []
    for reference in references:
        if policy is None or not comparable(curves[policy], curves[reference]):
            continue
        regret, other = curves[policy].regret, curves[reference].regret
        at = np.unique(np.linspace(0, regret.shape[1] - 1, POINTS).astype(int))
        ends = np.array([paired_interval(regret[:, pick], other[:, pick]) for pick in at])
        found.append(Difference(policy, reference, at + 1, len(regret), *ends.T))
    return found


def _band(curves: dict[str, Curves]) -> str:
    """What the bands of the regret are."""
    seeds = max(len(one.regret) for one in curves.values())
    return "one seed, no band" if seeds == 1 else "mean over the seeds, band ± 1 standard error"


def _interval(compared: list[Difference]) -> str:
    """What the bands of the differences are."""
    if any(one.seeds >= SEEDS_OF_AN_INTERVAL for one in compared):
        return "mean of the pairs, band 95 % t interval"
    return f"mean of the pairs; no interval below {SEEDS_OF_AN_INTERVAL} seeds"


def _draw_differences(axes: Axes, compared: list[Difference]) -> None:
    drawn_as = styles_of(one.reference for one in compared)
    axes.axhline(0.0, color="black", lw=0.8)
    ends = []
    for number, one in enumerate(compared):
        style = drawn_as[one.reference]
        _draw_line(axes, one.picks, one.mean, style, offset=0.05 + 0.1 * number)
        if one.seeds >= SEEDS_OF_AN_INTERVAL:
            axes.fill_between(one.picks, one.low, one.high, alpha=0.18, lw=0, color=style.colour)
        ends.append((f"{one.policy} minus\n{one.reference}", float(one.mean[-1]), style))
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=SMALL)
    _label_ends(axes, ends, DIFFERENCE)


def _draw_regret(axes: Axes, curves: dict[str, Curves]) -> None:
    top, drawn_as, ends = 0.0, styles_of(curves), []
    for number, (name, one) in enumerate(curves.items()):
        steps = np.arange(1, one.regret.shape[1] + 1)
        mean, style = one.regret.mean(0), drawn_as[name]
        high = mean
        _draw_line(axes, steps, mean, style, offset=(0.03 + 0.07 * number) % 0.2)
        if len(one.regret) > 1:
            error = one.regret.std(0, ddof=1) / np.sqrt(len(one.regret))
            high = mean + error
            axes.fill_between(steps, mean - error, high, alpha=0.1, lw=0, color=style.colour)
        ends.append((name, float(mean[-1]), style))
        if name != "random":
            top = max(top, float(high.max()))
    if top > 0.0:
        axes.set_ylim(0.0, 1.05 * top)
    axes.set_xlim(0, max(one.regret.shape[1] for one in curves.values()))
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=SMALL)
    _label_ends(axes, ends, REGRET)


def _draw_line(
    axes: Axes, picks: np.ndarray, values: np.ndarray, style: Style, *, offset: float
) -> None:
    """A line with a marker at every fifth of it, the first after a part of the line."""
    every = max(len(picks) // 5, 1)
    axes.plot(picks, values, markevery=(int(offset * len(picks)), every), **style.line())


def _label_ends(axes: Axes, ends: list[tuple[str, float, Style]], tall: float) -> None:
    """Names beside the ends of the lines, each after a sample of its line, none on another.

    Args:
      axes: what the lines are in, with its limits set.
      ends: the text, the last value and the style of each line.
      tall: the height of the axes in inches.
    """
    low, high = axes.get_ylim()
    above = [value > high for _, value, _ in ends]
    at = [float(np.clip((value - low) / (high - low), 0.0, 1.0)) for _, value, _ in ends]
    lines = max(text.count("\n") + 1 for text, _, _ in ends)
    beside = spread(at, gap=1.4 * lines * SMALL / 72 / tall, low=0.0, high=1.0)
    for (text, _, style), gone, end, place in zip(ends, above, at, beside, strict=True):
        beyond: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        axes.plot([1.0, 1.04], [end, place], lw=0.7, color=style.colour, **beyond)
        axes.plot([1.04, 1.13, 1.22], 3 * [place], markevery=[1], **style.line(), **beyond)
        label = f"{text} ↑" if gone else text
        axes.text(
            1.24,
            place,
            label,
            fontsize=SMALL,
            va="center",
            transform=axes.transAxes,
            linespacing=1.0,
        )


def _save(path: Path, figure: Figure) -> None:
    write(path, lambda file: figure.savefig(file, format="png", dpi=150))
    plt.close(figure)
