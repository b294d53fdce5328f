"""The experiments of a figure, one a panel, to one picture and one table."""

import csv
import io
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
from tqdm import tqdm

from launch import experiment, plot, results, runner, settings


def make(config: ConfigDict, workdir: Path) -> dict[str, dict[str, Any]]:
    """Runs what is not finished of each panel; returns their summaries by title."""
    panels = experiment.validate_panels(config)
    folders = {title: workdir / title.replace(" ", "_") for title in panels}
    for title, panel in panels.items():
        results.open_workdir(folders[title], panel, experiment.defaults(panel))
    cells = [(t, name) for t, panel in panels.items() for name in settings.policy_names(panel)]
    done = {title: results.load_curves(folder).keys() for title, folder in folders.items()}
    refits = {title: settings.refits(panel) for title, panel in panels.items()}
    summaries, curves = {}, {}
    with tqdm(
        total=sum(refits[title] for title, _ in cells),
        initial=sum(refits[title] for title, name in cells if name in done[title]),
        unit="refit",
        smoothing=0.0,  # policies differ in speed: the average over all tells the time left best
    ) as bar:
        for title, panel in panels.items():
            summaries[title] = runner.run(panel, folders[title], bar)
            curves[title] = results.load_curves(folders[title])
            plot.panels_plot(workdir / "figure.png", curves)
            results.write(workdir / "table.csv", lambda file: file.write(rows(summaries).encode()))
            results.write(workdir / "table.md", lambda f: f.write(markdown(summaries).encode()))
    return summaries


def rows(summaries: dict[str, dict[str, Any]]) -> str:
    """The table as CSV: one row a panel and policy, empty where a figure has no meaning."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    regret = [f"{kind}_{percent}" for kind in ("regret", "sem") for percent in results.FRACTIONS]
    ends = ("", "_low", "_high")
    paired = [f"minus_{other}{end}" for other in results.REFERENCES for end in ends]
    writer.writerow(["panel", "policy", *regret, *paired, "effective_rank", "seconds", "compile"])
    for title, summary in summaries.items():
        for name, one in summary["policies"].items():
            percents = list(map(str, results.FRACTIONS))
            values = [one[kind][percent] for kind in ("regret", "sem") for percent in percents]
            for other in results.REFERENCES:
                values += one["paired"].get(other, 3 * [None])
            values += [one["effective_rank"], one["seconds"], one["compile_seconds"]]
            cells = ["" if value is None else f"{value:.4g}" for value in values]
            writer.writerow([title, name, *cells])
    return text.getvalue()


def markdown(summaries: dict[str, dict[str, Any]]) -> str:
    """The table for people: a block a panel."""
    lines = [
        "Cumulative regret at fractions of the horizon, mean ± standard error over the seeds, and"
        " paired differences at 100 % with 95 % intervals.",
    ]
    for title, summary in summaries.items():
        references = [name for name in results.REFERENCES if name in summary["policies"]]
        head = ["policy", *(f"{percent} %" for percent in results.FRACTIONS)]
        head += [f"minus {other}" for other in references] + ["effective rank", "seconds"]
        setting = summary["setting"]
        lines += ["", f"**{title}** (H = {setting['horizon']:,})", ""]
        lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for name, one in summary["policies"].items():
            cells = [name]
            for percent in map(str, results.FRACTIONS):
                spread = one["sem"][percent]
                cells.append(
                    f"{one['regret'][percent]:.0f}" + (f" ± {spread:.0f}" if spread else "")
                )
            for other in references:
                if other in one["paired"]:
                    mean, low, high = one["paired"][other]
                    cells.append(f"{mean:+.0f} [{low:+.0f}, {high:+.0f}]")
                else:
                    cells.append("")
            for field in ("effective_rank", "seconds"):
                cells.append("" if one[field] is None else f"{one[field]:.1f}")
            lines.append("| " + " | ".join(cells) + " |")
        for base, ratio in summary["policies"].get("ids", {}).get("ratio", {}).items():
            if base != "ids":
                cells = [f"{value:.2f}" for value in ratio.values() if value is not None]
                lines += ["", f"ids / {base}: {', '.join(cells)}."]
    return "\n".join(lines) + "\n"
