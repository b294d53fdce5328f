"""From curves to a summary, and from summaries to text: for the terminal, as CSV, as Markdown."""

import csv
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from smc_jax.simulation.regret import (
    FRACTIONS,
    Curves,
    at_fractions,
    paired_interval,
    standard_error,
)

# Policies that all others are compared with pair by pair.
REFERENCES = ("oracle", "mean_oracle", "ids", "thompson")
BASES = ("oracle", "mean_oracle", "ids")  # policies whose regret the others' is divided by


def number(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if np.isnan(value) else float(value)


def cell(values: np.ndarray, digits: int) -> str:
    """Mean ± standard error, 18 wide; for one seed the mean alone."""
    error = f"±{standard_error(values):<6.{digits}f}" if len(values) > 1 else 7 * " "
    return f"{np.mean(values):>10.{digits}f} {error}"


def picks_made(curves: Curves) -> np.ndarray:
    """The number of picks [seeds] before a run ended."""
    return (curves.rows >= 0).sum(1)


def paired(
    name: str, curves: dict[str, Curves], references: Iterable[str]
) -> dict[str, list[float]]:
    """Regret at the end minus that of each reference, over paired seeds, with its interval."""
    one = curves[name]
    found = {}
    for other in references:
        if other == name or other not in curves or len(one.regret) < 2:
            continue
        if (picks_made(one) != picks_made(curves[other])).any():
            continue  # a run is no better for having ended earlier
        ends = (each.regret[:, -1] for each in (one, curves[other]))
        found[other] = list(paired_interval(*ends))
    return found


def summarise(
    curves: dict[str, Curves], times: dict[str, dict[str, Any]], reference: str | None = None
) -> dict[str, Any]:
    """Regret at fractions of the horizon with standard errors, and paired differences.

    Args:
      curves: the finished policies.
      times: the seconds that each took.
      reference: a policy that all others are compared with, in addition to REFERENCES.
    """
    references = dict.fromkeys((*REFERENCES, *([] if reference is None else [reference])))
    policies: dict[str, Any] = {}
    for name, one in curves.items():
        regret = at_fractions(one.regret)
        ranks, made = one.effective_rank[:, -1], picks_made(one)
        policies[name] = {
            "regret": {str(p): float(values.mean()) for p, values in regret.items()},
            "sem": {str(p): number(standard_error(values)) for p, values in regret.items()},
            "seconds": times[name]["seconds"],
            "compile_seconds": times[name]["compile_seconds"],
            "effective_rank": number(ranks.mean()),
            "effective_ranks": [number(rank) for rank in ranks],
        }
        if (made < one.rows.shape[1]).any():
            policies[name]["picks"] = made.tolist()
        policies[name]["paired"] = paired(name, curves, references)
    for one in policies.values():
        one["ratio"] = {
            base: {
                p: one["regret"][p] / of if of else None
                for p, of in policies[base]["regret"].items()
            }
            for base in BASES
            if base in policies
        }
    return {"policies": policies}


def references_of(policies: dict[str, Any]) -> list[str]:
    """Whom the policies of a summary are compared with: a reference that was asked for first."""
    found = dict.fromkeys(other for one in policies.values() for other in one["paired"])
    return [*(name for name in found if name not in REFERENCES), *REFERENCES]


def table(summary: dict[str, Any]) -> str:
    """The summary for the terminal."""
    policies = summary["policies"]
    width = max([12, *(len(name) + 1 for name in policies)])
    bases = [name for name in BASES if name in policies]
    head = f"{'policy':<{width}}" + "".join(f"{f'{p} %':>14}" for p in FRACTIONS)
    head += "".join(f"{'/ ' + name:>14}" for name in bases)
    about = "cumulative regret at fractions of the horizon, mean ± standard error over the seeds"
    if summary.get("best") == "upper bound":
        about += "; measured from an upper bound on the best sequence"
    lines = [about, head + f"{'rank':>7}{'seconds':>9}{'compile':>9}"]
    lines += [f"{name:<{width}}{_row(one, bases)}" for name, one in policies.items()]
    for name, one in policies.items():
        if "picks" in one:
            lines.append(
                f"{name}: stopped early, after {np.mean(one['picks']):.1f} picks on average"
            )
    return "\n".join(lines + _differences(policies) + _ratios(policies, bases))


def _row(one: dict[str, Any], bases: list[str]) -> str:
    """The figures of one policy."""
    line = ""
    for percent in map(str, FRACTIONS):
        spread, regret = one["sem"][percent], one["regret"][percent]
        line += f"{regret:>14.1f}" if spread is None else f"{regret:>8.1f} ±{spread:<4.0f}"
    for base in bases:
        ratio = one["ratio"][base]["100"]
        line += 14 * " " if ratio is None else f"{ratio:>14.2f}"
    rank = "" if one["effective_rank"] is None else f"{one['effective_rank']:.1f}"
    times = (one["seconds"], one["compile_seconds"])
    cells = ("" if seconds is None else f"{seconds:.1f}" for seconds in times)
    return line + f"{rank:>7}" + "".join(f"{text:>9}" for text in cells)


def _differences(policies: dict[str, Any]) -> list[str]:
    """A line for each pair of a policy and a reference, each pair once."""
    lines, told = [], set()
    for reference in references_of(policies):
        for name, one in policies.items():
            if reference in one["paired"] and name not in told:
                mean, low, high = one["paired"][reference]
                lines.append(
                    f"{name} - {reference} at 100 %: {mean:+.1f}, 95 % interval"
                    f" [{low:+.1f}, {high:+.1f}]"
                )
        told.add(reference)
    return lines


def _ratios(policies: dict[str, Any], bases: list[str]) -> list[str]:
    """A line for ids over each oracle."""
    lines = []
    for base in bases:
        if "ids" in policies and base != "ids":
            ratios = policies["ids"]["ratio"][base].values()
            text = ", ".join("none" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"ids / {base} at {', '.join(map(str, FRACTIONS))} %: {text}")
    return lines


def _all_references(summaries: dict[str, dict[str, Any]]) -> list[str]:
    each = (references_of(summary["policies"]) for summary in summaries.values())
    return list(dict.fromkeys(name for references in each for name in references))


def rows(summaries: dict[str, dict[str, Any]]) -> str:
    """The panels of a figure as CSV: one row a panel and policy, empty where there is no figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    references, percents = _all_references(summaries), list(map(str, FRACTIONS))
    regret = [f"{kind}_{percent}" for kind in ("regret", "sem") for percent in percents]
    compared = [f"minus_{other}{end}" for other in references for end in ("", "_low", "_high")]
    writer.writerow(["panel", "policy", *regret, *compared, "effective_rank", "seconds", "compile"])
    for title, summary in summaries.items():
        for name, one in summary["policies"].items():
            values = [one[kind][percent] for kind in ("regret", "sem") for percent in percents]
            for other in references:
                values += one["paired"].get(other, 3 * [None])
            values += [one["effective_rank"], one["seconds"], one["compile_seconds"]]
            cells = ["" if value is None else f"{value:.4g}" for value in values]
            writer.writerow([title, name, *cells])
    return text.getvalue()


def markdown(summaries: dict[str, dict[str, Any]]) -> str:
    """The panels of a figure for people: a block a panel."""
    lines = [
        "Cumulative regret at fractions of the horizon, mean ± standard error over the seeds, and"
        " paired differences at 100 % with 95 % intervals.",
    ]
    for title, summary in summaries.items():
        policies = summary["policies"]
        references = [name for name in references_of(policies) if name in policies]
        head = ["policy", *(f"{percent} %" for percent in FRACTIONS)]
        head += [f"minus {other}" for other in references] + ["effective rank", "seconds"]
        lines += ["", f"**{title}** (H = {summary['setting']['horizon']:,})", ""]
        lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for name, one in policies.items():
            lines.append("| " + " | ".join([name, *_cells(one, references)]) + " |")
        for base, ratio in policies.get("ids", {}).get("ratio", {}).items():
            if base != "ids":
                cells = [f"{value:.2f}" for value in ratio.values() if value is not None]
                lines += ["", f"ids / {base}: {', '.join(cells)}."]
    return "\n".join(lines) + "\n"


def _cells(one: dict[str, Any], references: list[str]) -> list[str]:
    """The cells of one policy in a panel's block."""
    cells = []
    for percent in map(str, FRACTIONS):
        spread = one["sem"][percent]
        cells.append(f"{one['regret'][percent]:.0f}" + (f" ± {spread:.0f}" if spread else ""))
    for other in references:
        if other in one["paired"]:
            mean, low, high = one["paired"][other]
            cells.append(f"{mean:+.0f} [{low:+.0f}, {high:+.0f}]")
        else:
            cells.append("")
    for field in ("effective_rank", "seconds"):
        cells.append("" if one[field] is None else f"{one[field]:.1f}")
    return cells
