"""A benchmark of this checkout against the same one of another checkout, before and after a change.

python -m benchmarks.against --other=DIR --benchmark=picks [--rounds=3] [-- --rows=100 --ratings]

DIR is a checkout of another commit, whose API may differ. Each round runs the benchmark once in
each tree, in turn, as a process of its own with the same interpreter; every second round begins
with the other tree. What comes after `--` is given to both. Compared are the cases that both trees
have under the same title: medians over the rounds of the ratio new / old, below one where this
checkout is faster, by the processor's time and by the clock.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from tqdm import tqdm

import launch  # noqa: F401  both trees run on the machine as this one sets it up
from benchmarks import timing

BENCHMARKS = ("picks", "svi", "sweep")
OTHER = flags.DEFINE_string("other", None, "The folder of the other checkout.", required=True)
BENCHMARK = flags.DEFINE_enum("benchmark", "picks", BENCHMARKS, "What is run in both.")
ROUNDS = flags.DEFINE_integer("rounds", 3, "Runs in each tree.", lower_bound=1)
HERE = Path(__file__).resolve().parent.parent
WHICH = "import importlib.util as u; print(u.find_spec('smc_jax').origin)"

Title = tuple[str, ...]


class Case(NamedTuple):
    """Seconds of one program in one run."""

    clock: float
    processor: float | None


class Change(NamedTuple):
    """Medians over the rounds: seconds before and after, and their ratios, new / old."""

    old: Case
    new: Case
    by_clock: float
    by_processor: float | None


def cases(figures: Any, title: Title = ()) -> dict[Title, Case]:
    """All timings of a benchmark's figures, by their titles from the outermost in."""
    if not isinstance(figures, dict):
        return {}
    if {"median", "processor"} <= figures.keys():
        return {title: Case(figures["median"], figures["processor"])}
    found: dict[Title, Case] = {}
    for name, inner in figures.items():
        found |= cases(inner, (*title, str(name)))
    return found


def environment(tree: Path) -> dict[str, str]:
    """That of a process in which the packages of the tree come first."""
    return {**os.environ, "PYTHONPATH": str(tree)}


def run(tree: Path, benchmark: str, arguments: Sequence[str]) -> dict[Title, Case]:
    """The cases of one run of the benchmark of a tree, which keeps nothing there."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{benchmark}", *arguments],
            cwd=folder,
            env=environment(tree),
            capture_output=True,
            text=True,
            check=False,
        )
        kept = re.findall(r"^kept in (\S+\.json)", ran.stdout, re.MULTILINE)
        if ran.returncode or not kept:
            raise SystemExit(f"benchmarks.{benchmark} of {tree} failed\n{ran.stderr[-2000:]}")
        return cases(json.loads((Path(folder) / kept[-1]).read_text())["figures"])


def check(tree: Path) -> None:
    """Ends with a line unless processes in the tree import its own package."""
    ran = subprocess.run(
        [sys.executable, "-c", WHICH],
        cwd=tempfile.gettempdir(),
        env=environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    if not Path(ran.stdout.strip() or os.sep).is_relative_to(tree):
        raise SystemExit(f"--other: {tree} is no checkout of smc_jax")


def median_case(rounds: Sequence[Case]) -> Case:
    """The median of each figure over the rounds."""
    processor = [case.processor for case in rounds if case.processor is not None]
    return Case(
        float(np.median([case.clock for case in rounds])),
        float(np.median(processor)) if processor else None,
    )


def changes(
    old: Sequence[Mapping[Title, Case]], new: Sequence[Mapping[Title, Case]]
) -> dict[Title, Change]:
    """The cases that every run has, in the order of the new ones."""
    found = {}
    for title in new[0]:
        if not all(title in one for one in (*old, *new)):
            continue
        before, after = ([one[title] for one in runs] for runs in (old, new))
        clock = [b.clock / a.clock for a, b in zip(before, after, strict=True)]
        busy = [
            b.processor / a.processor
            for a, b in zip(before, after, strict=True)
            if a.processor and b.processor
        ]
        found[title] = Change(
            median_case(before),
            median_case(after),
            float(np.median(clock)),
            float(np.median(busy)) if busy else None,
        )
    return found


def table(title: str, found: Mapping[Title, Change]) -> str:
    """A line a case: the ratio by the processor and by the clock, and milliseconds of both."""
    names = [", ".join(case) for case in found]
    width = max(map(len, names), default=0) + 2
    head = f"{'processor':>10}{'clock':>8}{'old ms':>12}{'new ms':>12}"
    lines = [title, f"  {'new / old':<{width}}{head}"]
    for name, change in zip(names, found.values(), strict=True):
        busy = "-" if change.by_processor is None else f"{change.by_processor:.2f}"
        seconds = f"{1e3 * change.old.clock:>12.3f}{1e3 * change.new.clock:>12.3f}"
        lines.append(f"  {name:<{width}}{busy:>10}{change.by_clock:>8.2f}{seconds}")
    return "\n".join(lines)


def only_in(runs: Sequence[Mapping[Title, Case]], found: Mapping[Title, Change]) -> str:
    """The titles that the other tree does not have."""
    return "; ".join(", ".join(title) for title in runs[0] if title not in found) or "none"


def main(arguments: Sequence[str]) -> None:
    """Runs all rounds, and prints the ratios."""
    benchmark, given = BENCHMARK.value, arguments[1:]
    trees = {"old": Path(OTHER.value).resolve(), "new": HERE}
    for tree in trees.values():
        check(tree)
    runs: dict[str, list[dict[Title, Case]]] = {name: [] for name in trees}
    with tqdm(total=2 * ROUNDS.value, unit="run", leave=False) as bar:
        for number in range(ROUNDS.value):
            order = list(trees) if number % 2 else list(reversed(trees))
            for name in order:
                bar.set_postfix_str(name)
                runs[name].append(run(trees[name], benchmark, given))
                bar.update()
    found = changes(runs["old"], runs["new"])
    shown = " ".join([f"benchmarks.{benchmark}", *given])
    print(table(f"{shown}, medians over {ROUNDS.value} rounds", found))
    for name in trees:
        print(f"  {name} alone has: {only_in(runs[name], found)}")
    figures = {" | ".join(title): change._asdict() for title, change in found.items()}
    told = {"run": shown, "rounds": ROUNDS.value, "cases": figures}
    print(timing.closing(timing.keep(f"against_{benchmark}", told)))


if __name__ == "__main__":
    app.run(main)
