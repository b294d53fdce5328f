"""How regret grows with the rank, the sizes, the horizon and the noise: a study by simulation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator
from ml_collections import ConfigDict
from scipy import stats

from launch import files, plans, settings, tables, validation
from launch.styles import styles_of
from smc_jax.simulation.regret import standard_error

POLICIES = ("ids", "thompson", "oracle_ids")
# What is varied, one field at a time, around the experiment as its config has it.
VARIED: dict[str, tuple[Any, ...]] = {
    "true_rank": (1, 2, 5, 10, 20),
    "rows": (25, 50, 100),
    "columns": (50, 100, 200, 400),
    "horizon": (325, 650, 1300, 2600),
    "noise_variance": (0.025, 0.1, 0.4),
}
NAMES = {
    "true_rank": "true rank K*",
    "rows": "rows D",
    "columns": "columns N",
    "horizon": "picks H",
    "noise_variance": "noise variance",
}
ROOT = 0.5  # the rate that bounds for bandits have in the horizon


class Series(NamedTuple):
    """The regret at the end of the horizon of one policy along one field."""

    field: str
    policy: str
    values: np.ndarray  # [points]  of the field
    regret: np.ndarray  # [points, seeds]
    taken: np.ndarray  # [points]  the share of the entries that are picked in the end, H / (D N)


class Exponent(NamedTuple):
    """The slope of log mean regret in the logarithm of a field, with its 95 % interval."""

    slope: float
    low: float
    high: float


def exponent(series: Series) -> Exponent:
    """The least squares slope over all points, its interval by the jackknife over the seeds.

    Seeds are paired along a field, so that leaving one out leaves it out at every point.
    """
    seeds = series.regret.shape[1]

    def slope(regret: np.ndarray) -> float:
        with np.errstate(invalid="ignore", divide="ignore"):  # no logarithm: no slope
            return float(stats.linregress(np.log(series.values), np.log(regret.mean(1))).slope)

    whole = slope(series.regret)
    if seeds < 2:
        return Exponent(whole, float("nan"), float("nan"))
    without = np.array([slope(np.delete(series.regret, seed, axis=1)) for seed in range(seeds)])
    error = np.sqrt((seeds - 1) * ((without - without.mean()) ** 2).mean())
    width = float(error * stats.t.ppf(0.975, seeds - 1))
    return Exponent(whole, whole - width, whole + width)


def plan(
    config: ConfigDict, workdir: Path, varied: Mapping[str, tuple[Any, ...]] = VARIED
) -> plans.Plan:
    """One experiment for each value of each field; the point that all fields share is run once.

    Where the horizon is varied, the initial design keeps its size.
    """
    initial = settings.initial_size(validation.resolve(config))
    experiments, places = {}, {}
    for field, values in varied.items():
        for value in values:
            trial = config.copy_and_resolve_references()
            with trial.ignore_type():
                trial.policies, trial.reference = ",".join(POLICIES), None
                trial[field] = value
                trial.horizon = settings.horizon(trial)
                if field == "horizon":
                    trial.initial_fraction = initial / value
            resolved = validation.resolve(trial)
            sizes = [f"{name}-{resolved[name]}" for name in VARIED]
            title = "_".join(sizes)
            experiments[title] = resolved
            places[field, value] = title
    folders = {title: workdir / title for title in experiments}

    def report(summaries: plans.Summaries) -> None:
        found = [
            one
            for field, values in varied.items()
            for one in _series(field, values, places, folders, summaries)
        ]
        setting = next(iter(summaries.values()))["setting"]
        stamp = plans.stamp(summaries)
        files.write_text(workdir / "growth.md", markdown(found, setting, stamp))
        files.write_text(workdir / "growth.csv", as_csv(found, stamp))
        picture(workdir / "growth.png", found, stamp=stamp)

    return plans.Plan(experiments, folders, report)


def _series(
    field: str,
    values: tuple[Any, ...],
    places: Mapping[tuple[str, Any], str],
    folders: Mapping[str, Path],
    summaries: plans.Summaries,
) -> list[Series]:
    """The series of a field, of each policy; none before two of its points are finished."""
    ready = [value for value in values if places[field, value] in summaries]
    if len(ready) < 2:
        return []
    curves = [files.load_curves(folders[places[field, value]]) for value in ready]
    along = np.asarray(ready, float)
    told = [summaries[places[field, value]]["setting"] for value in ready]
    taken = np.array([one["horizon"] / (one["rows"] * one["columns"]) for one in told])
    return [
        Series(field, name, along, np.stack([one[name].regret[:, -1] for one in curves]), taken)
        for name in POLICIES
    ]


def markdown(found: list[Series], setting: Mapping[str, Any], stamp: str) -> str:
    """The tables for people: the exponents, and the figures that they are fitted to."""
    first, last = setting["seeds"]
    told = (
        "Exponents of the regret at the end of the horizon in each field: least squares in the"
        " logarithms of field and mean regret, with 95 % intervals by the jackknife over the seeds."
        " With rows and columns the horizon changes too, H = K (N + D - K) with the bound K on the"
        " rank, and with it the initial design, a twentieth of H, and the share of the entries that"
        " are taken in the end; no entry is taken twice, so that regret falls again as that share"
        " nears one. Where the horizon is varied, the initial design keeps its size; a batch is a"
        " fortieth of H throughout. Noise is a part of an entry, so that no oracle escapes it."
        f" Seeds {first} to {last}. {stamp}"
    )
    fields = list(dict.fromkeys(one.field for one in found))
    cells = []
    for field in fields:
        fits = [exponent(one) for one in found if one.field == field]
        cells.append([field, *(f"{e.slope:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in fits)])
    lines = [told, "", *tables.block(["field", *POLICIES], cells)]
    for field in fields:
        own = [one for one in found if one.field == field]
        rows = [
            [
                f"{value:g}",
                f"{own[0].taken[point]:.0%}",
                *(tables.cell(one.regret[point], 0).strip() for one in own),
            ]
            for point, value in enumerate(own[0].values)
        ]
        lines += ["", *tables.block([field, "entries taken", *POLICIES], rows)]
    return "\n".join(lines) + "\n"


def as_csv(found: list[Series], stamp: str) -> str:
    """The table for programs: one line a point, with the exponent of its series."""
    rows: list[list[Any]] = []
    for one in found:
        fitted = [tables.number(value) for value in exponent(one)]
        for value, taken, regret in zip(one.values, one.taken, one.regret, strict=True):
            error = tables.number(standard_error(regret))
            point = [one.field, one.policy, float(value), float(taken), float(regret.mean()), error]
            rows.append([*point, *fitted, stamp])
    head = ["field", "policy", "value", "taken", "regret", "sem", "exponent", "low", "high", "made"]
    return tables.csv_text(head, rows)


def picture(path: Path, found: list[Series], *, stamp: str) -> None:
    """Mean regret with bars of ± 1 standard error, and the line of the rate H^(1/2)."""
    fields = list(dict.fromkeys(one.field for one in found))
    if not fields:
        return
    across = min(len(fields), 3)
    down = -(-len(fields) // across)
    figure, grid = plt.subplots(
        down, across, figsize=(3.4 * across, 3.1 * down), layout="constrained", squeeze=False
    )
    looks = styles_of(dict.fromkeys(one.policy for one in found))
    for axes, field in zip(grid.flat, fields, strict=False):
        own = [one for one in found if one.field == field]
        for one in own:
            mean = one.regret.mean(1)
            bars = np.nan_to_num([standard_error(regret) for regret in one.regret])
            line = looks[one.policy].line()
            axes.errorbar(one.values, mean, bars, label=one.policy, capsize=2, **line)
        if field == "horizon":
            ends, start = own[0].values[[0, -1]], own[0].regret[0].mean()
            rate = start * (ends / ends[0]) ** ROOT
            axes.plot(ends, rate, color="#777777", lw=1, ls=(0, (2, 2)), label="rate H$^{1/2}$")
        axes.set(xscale="log", yscale="log", xlabel=NAMES.get(field, field))
        axes.xaxis.set_major_locator(FixedLocator(list(own[0].values)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{value:g}" for value in own[0].values])
        axes.grid(alpha=0.25, which="both")
        axes.set_ylabel("regret at the end (units of an entry)")
        axes.legend(fontsize=8)
    for axes in grid.flat[len(fields) :]:
        axes.axis("off")
    figure.supxlabel(f"Bars: ± 1 standard error over the seeds. {stamp}", fontsize=7)
    files.write(path, lambda stream: figure.savefig(stream, format="png", dpi=150))
    plt.close(figure)
