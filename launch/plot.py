"""Pictures of regret curves."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from launch.files import write
from smc_jax.simulation.regret import Curves

# One colour a rule in every figure (Okabe & Ito, safe for colour-blind readers).
COLOURS = {
    "ids": "#0072B2",
    "thompson": "#E69F00",
    "oracle": "#000000",
    "mean_oracle": "#000000",
    "empirical": "#CC79A7",
    "optspace": "#D55E00",
    "particle": "#56B4E9",
    "icf": "#8C510A",
    "greedy": "#009E73",
    "ucb": "#882255",
    "random": "#999999",
}
# Pairs of a rule and another belief than the fitted model have the rule's colour.
BELIEFS = {"gibbs": "-.", "particles": (0, (5, 1)), "pairwise": (0, (1, 1))}
# Policies from outside, in the order in which they are drawn.
OUTSIDE = ("#6A3D9A", "#E31A1C", "#66C200", "#00CED1", "#FFB3A7", "#B4A7FF", "#4B5320", "#1F1FA8")
STYLES = {"oracle": "--", "mean_oracle": ":"}
LABEL = "cumulative regret, ± standard error"


def styles_of(names: Iterable[str]) -> dict[str, tuple[str, Any]]:
    """Colour and line style of each policy."""
    found: dict[str, tuple[str, Any]] = {}
    outside = 0
    for name in names:
        rule, _, belief = name.rpartition("_")
        if name in COLOURS:
            found[name] = COLOURS[name], STYLES.get(name, "-")
        elif rule in COLOURS and belief in BELIEFS:
            found[name] = COLOURS[rule], BELIEFS[belief]
        else:
            # Where the colours are used up, lines differ.
            again, place = divmod(outside, len(OUTSIDE))
            found[name] = OUTSIDE[place], ("-", "--", ":", "-.")[again % 4]
            outside += 1
    return found


def regret_plot(path: Path, curves: dict[str, Curves], *, title: str) -> None:
    """Mean regret of each policy with a band of one standard error; oracles are not solid."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    _draw(axes, curves, title=title)
    axes.set_ylabel(LABEL)
    axes.legend(frameon=False)
    _save(path, figure)


def panels_plot(path: Path, panels: dict[str, dict[str, Curves]]) -> None:
    """One panel an experiment, in rows of three, with one legend for all."""
    across = min(len(panels), 3)
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(
        down, across, figsize=(4.4 * across, 3.4 * down), layout="constrained", squeeze=False
    )
    for axes, (title, curves) in zip(grid.flat, panels.items(), strict=False):
        _draw(axes, curves, title=title)
    for axes in grid[:, 0]:
        axes.set_ylabel(LABEL)
    spare = list(grid.flat)[len(panels) :]
    for axes in spare:
        axes.axis("off")
    lines = grid.flat[0].get_legend_handles_labels()
    if spare:
        spare[0].legend(*lines, frameon=False, loc="center", fontsize="large")
    else:
        abreast = 5 if across > 1 else 2
        figure.legend(*lines, frameon=False, loc="outside lower center", ncols=abreast)
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


def _draw(axes: Axes, curves: dict[str, Curves], *, title: str) -> None:
    top, drawn_as = 0.0, styles_of(curves)
    for name, one in curves.items():
        steps = np.arange(1, one.regret.shape[1] + 1)
        mean, error = one.regret.mean(0), np.zeros(steps.size)
        if len(one.regret) > 1:
            error = one.regret.std(0, ddof=1) / np.sqrt(len(one.regret))
        colour, style = drawn_as[name]
        axes.plot(steps, mean, linestyle=style, label=name, color=colour)
        axes.fill_between(steps, mean - error, mean + error, alpha=0.2, lw=0, color=colour)
        if name != "random":
            top = max(top, float((mean + error).max()))
    if top > 0.0:
        axes.set_ylim(0.0, 1.1 * top)
    axes.set(xlabel="picks", title=title)
    axes.set_xlim(0, None)
    axes.grid(alpha=0.25)


def _save(path: Path, figure: Figure) -> None:
    write(path, lambda file: figure.savefig(file, format="png", dpi=150))
    plt.close(figure)
