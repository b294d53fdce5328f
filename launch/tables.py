"""From curves to a summary, and from summaries to text: for the terminal, as CSV, as Markdown."""

import csv
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from smc_jax.policies.registry import ORACLES, base_of
from smc_jax.simulation.regret import (
    FRACTIONS,
    Curves,
    at_fractions,
    paired_interval,
    standard_error,
)

# Policies that all others are compared with pair by pair, at the end of the horizon.
REFERENCES = ("oracle", "mean_oracle", "ids", "thompson", "greedy")
ALONG = ("greedy", *ORACLES)  # policies that all others are compared with along the horizon
BASES = (*ORACLES, "ids")  # policies whose regret the others' is divided by
COLUMNS = ("oracle", "mean_oracle", "ids")  # of these, what the terminal has a column for


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


def comparable(one: Curves, other: Curves) -> bool:
    """Whether two policies picked equally often: none is better for having ended earlier."""
    return not (picks_made(one) != picks_made(other)).any()


def best_oracle(curves: dict[str, Curves]) -> str | None:
    """The oracle of the least mean regret at the end, None where there is no oracle."""
    there = [name for name in curves if base_of(name) in ORACLES]
    return min(there, key=lambda name: curves[name].regret[:, -1].mean(), default=None)


def paired(
    name: str, curves: dict[str, Curves], references: Iterable[str]
) -> dict[str, dict[str, list[float]]]:
    """Regret minus that of each reference, over paired seeds, with its interval.

    The differences are at fractions of the horizon, by the reference and the percentage.
    """
    one, found = curves[name], {}
    for other in references:
        if other == name or other not in curves or len(one.regret) < 2:
            continue
        if comparable(one, curves[other]):
            ours, theirs = at_fractions(one.regret), at_fractions(curves[other].regret)
            found[other] = {str(p): list(paired_interval(ours[p], theirs[p])) for p in ours}
    return found


def summarise(
    curves: dict[str, Curves], times: dict[str, dict[str, Any]], reference: str | None = None
) -> dict[str, Any]:
    """Regret at fractions of the horizon with standard errors, and paired differences.

    Args:
      curves: the finished policies.
      times: the seconds that each took.
      reference: a policy that all others are compared with, in addition to REFERENCES.

    `paired` has the differences at the end of the horizon, `paired_along` the differences from
    greedy and each oracle at every fraction.
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
        ends = paired(name, curves, references)
        policies[name]["paired"] = {other: along["100"] for other, along in ends.items()}
        policies[name]["paired_along"] = paired(name, curves, ALONG)
    for one in policies.values():
        one["ratio"] = {
            base: {
                p: one["regret"][p] / of if of else None
                for p, of in policies[base]["regret"].items()
            }
            for base in BASES
            if base in policies
        }
    return {"policies": policies, "reference": reference}


def references_of(summary: dict[str, Any]) -> list[str]:
    """Whom the policies of a summary are compared with: a reference that was asked for first."""
    asked = summary["reference"]
    return list(dict.fromkeys((*([] if asked is None else [asked]), *REFERENCES)))


def table(summary: dict[str, Any]) -> str:
    """The summary for the terminal."""
    policies = summary["policies"]
    width = max([12, *(len(name) + 1 for name in policies)])
    bases = [name for name in COLUMNS if name in policies]
    head = f"{'policy':<{width}}" + "".join(f"{f'{p} %':>14}" for p in FRACTIONS)
    head += "".join(f"{'/ ' + name:>14}" for name in bases)
    about = "cumulative regret at fractions of the horizon, mean ± standard error over the seeds"
    if summary.get("best") == "upper bound":
        about += "; measured from an upper bound on the best sequence"
    elif summary.get("best") == "exact but for losses":
        about += "; the best sequence is exact where no offer of it is a loss"
    if bases:
        about += "; / NAME: the regret at 100 % divided by that of NAME"
    lines = [about, head + f"{'rank':>7}{'seconds':>9}{'compile':>9}"]
    lines += [f"{name:<{width}}{_row(one, bases)}" for name, one in policies.items()]
    for name, one in policies.items():
        if "picks" in one:
            lines.append(
                f"{name}: stopped early, after {np.mean(one['picks']):.1f} picks on average"
            )
    return "\n".join(lines + _differences(summary) + _ratios(policies))


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


def _differences(summary: dict[str, Any]) -> list[str]:
    """A line for each pair of a policy and a reference, each pair once.

    A reference that was asked for comes first, with a heading of its own.
    """
    found: dict[str, list[str]] = {}
    for reference in references_of(summary):
        lines = []
        for name, one in summary["policies"].items():
            if reference in one["paired"] and name not in found:
                mean, low, high = one["paired"][reference]
                lines.append(
                    f"{name} - {reference} at 100 %: {mean:+.1f}, 95 % interval"
                    f" [{low:+.1f}, {high:+.1f}]"
                )
        found[reference] = lines
    asked = summary["reference"]
    if asked is None:
        return [line for lines in found.values() for line in lines]
    own = found.pop(asked) or ["none: pairs take two seeds, and runs of the same length"]
    others = [line for lines in found.values() for line in lines]
    heading = ["differences from other policies, paired by seed:"] if others else []
    return [f"differences from the reference {asked}, paired by seed:", *own, *heading, *others]


def _ratios(policies: dict[str, Any]) -> list[str]:
    """A line for ids over each oracle."""
    found = policies.get("ids", {}).get("ratio", {})
    percents = ", ".join(map(str, FRACTIONS))
    return [
        f"ids / {base} at {percents} %: {_ratio_cell(ratios)}"
        for base, ratios in found.items()
        if base != "ids"
    ]


def _ratio_cell(ratios: dict[str, float | None]) -> str:
    """The ratios at the fractions of the horizon, one after another."""
    return ", ".join("none" if ratio is None else f"{ratio:.2f}" for ratio in ratios.values())


def difference_cell(interval: list[float]) -> str:
    """A paired difference and its interval, signs shown."""
    mean, low, high = interval
    return f"{mean:+.0f} [{low:+.0f}, {high:+.0f}]"


def mean_cell(mean: float, error: float | None, digits: int = 0) -> str:
    """A mean and its standard error, where there is one."""
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def block(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(cells) + " |" for cells in rows]


def csv_text(head: list[str], rows: Iterable[list[Any]]) -> str:
    """A table as CSV: numbers with four digits, and nothing where there is no figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for cells in rows:
        writer.writerow([f"{x:.4g}" if isinstance(x, float) else x for x in cells])
    return text.getvalue()


def _all_references(summaries: dict[str, dict[str, Any]]) -> list[str]:
    each = (references_of(summary) for summary in summaries.values())
    return list(dict.fromkeys(name for references in each for name in references))


def rows(summaries: dict[str, dict[str, Any]]) -> str:
    """The panels of a figure as CSV: one row a panel and policy, empty where there is no figure."""
    references, percents = _all_references(summaries), list(map(str, FRACTIONS))
    met = {name for summary in summaries.values() for name in summary["policies"]}
    along, bases = ([n for n in names if n in met] for names in (ALONG, BASES))
    ends = ("", "_low", "_high")
    head = [f"{kind}_{percent}" for kind in ("regret", "sem") for percent in percents]
    head += [f"minus_{other}{end}" for other in references for end in ends]
    head += [f"minus_{other}_{p}{end}" for other in along for p in percents for end in ends]
    head += [f"ratio_{base}_{p}" for base in bases for p in percents]
    head += ["effective_rank", "seconds", "compile", "commit"]
    lines = []
    for title, summary in summaries.items():
        for name, one in summary["policies"].items():
            values = [one[kind][percent] for kind in ("regret", "sem") for percent in percents]
            for other in references:
                values += one["paired"].get(other, 3 * [None])
            for other in along:
                for p in percents:
                    values += one["paired_along"].get(other, {}).get(p, 3 * [None])
            values += [one["ratio"].get(base, {}).get(p) for base in bases for p in percents]
            values += [one["effective_rank"], one["seconds"], one["compile_seconds"]]
            lines.append([title, name, *values, one["commit"]])
    return csv_text(["panel", "policy", *head], lines)


def markdown(summaries: dict[str, dict[str, Any]], stamp: str = "") -> str:
    """The panels of a figure for people: a block a panel, and where the figures come from."""
    lines = [
        "Cumulative regret at fractions of the horizon, mean ± standard error over the seeds, and"
        " paired differences at 100 % with 95 % intervals.",
        *(["", stamp] if stamp else []),
    ]
    for title, summary in summaries.items():
        policies = summary["policies"]
        references = [name for name in references_of(summary) if name in policies]
        head = ["policy", *(f"{percent} %" for percent in FRACTIONS)]
        head += [f"minus {other}" for other in references] + ["effective rank", "seconds"]
        lines += ["", f"**{title}** (H = {summary['setting']['horizon']:,})", ""]
        lines += block(head, [[name, *_cells(one, references)] for name, one in policies.items()])
        lines += _along(policies)
    return "\n".join(lines) + "\n"


def _along(policies: dict[str, Any]) -> list[str]:
    """Tables of the differences from greedy and of the ratios to each oracle along the horizon."""
    lines: list[str] = []
    percents = [f"{percent} %" for percent in FRACTIONS]
    along = {name: one["paired_along"] for name, one in policies.items()}
    oracles = [name for name in ORACLES if name in policies]
    blocks = {
        "Paired differences from `greedy`:": {
            f"{name} minus greedy": one["greedy"] for name, one in along.items() if "greedy" in one
        },
        "Paired differences of IDS from each oracle:": {
            f"{name} minus {other}": along[name][other]
            for name in ("ids", "ids_paper")
            for other in oracles
            if other in along.get(name, {})
        },
    }
    for told, found in blocks.items():
        cells = [[title, *map(difference_cell, one.values())] for title, one in found.items()]
        lines += ["", told, "", *block(["", *percents], cells)] if cells else []
    if oracles:
        told = f"Regret divided by that of each oracle, at {', '.join(percents)}:"
        cells = [
            [n, *(_ratio_cell(one["ratio"][o]) for o in oracles)] for n, one in policies.items()
        ]
        lines += ["", told, "", *block(["policy", *(f"/ {name}" for name in oracles)], cells)]
    return lines


def _cells(one: dict[str, Any], references: list[str]) -> list[str]:
    """The cells of one policy in a panel's block."""
    cells = []
    for percent in map(str, FRACTIONS):
        cells.append(mean_cell(one["regret"][percent], one["sem"][percent]))
    for other in references:
        cells.append(difference_cell(one["paired"][other]) if other in one["paired"] else "")
    for field in ("effective_rank", "seconds"):
        cells.append("" if one[field] is None else f"{one[field]:.1f}")
    return cells
