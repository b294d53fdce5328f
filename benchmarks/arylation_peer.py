"""Bayesian optimisation with BayBE on the direct arylation yields, as a peer for campaigns.

It runs in an environment of its own, which has neither jax nor smc_jax:

python3.11 -m venv .cache/benchmarks/baybe
.cache/benchmarks/baybe/bin/pip install torch==2.13.0 baybe==0.15.0 botorch==0.18.1
OMP_NUM_THREADS=1 .cache/benchmarks/baybe/bin/python benchmarks/arylation_peer.py \
    --data=direct_arylation --parameters=components --starts=20 --out=components.jsonl

`--data` is the folder with `matrix_ligand-base_x_solvent-conc-temp.csv`: 48 rows, a ligand and a
base each, by 36 columns, a solvent, a concentration and a temperature each. Start s knows the
entries `numpy.random.default_rng(s).choice(1728, 10, replace=False)` of the matrix, row by row;
every round then measures a batch. `--parameters=components` tells the peer the five components as
five one-hot parameters, `rows_columns` only the row and the column: what a matrix model knows.

The recommender is BayBE's default: a Gaussian process with a Matern kernel, batches by
sequentially greedy qLogEI over all candidates. Three things are set:

* An entry that is known is not recommended again; the default would allow it for the entries known
  at the start.
* The candidates are listed in a random order, another one for every start. To one-hot parameters,
  values that have not been seen are alike: they tie, and the place in the list decides. The order
  of the file would thus steer all starts alike; `--order=file` keeps it.
* The seed is that of the start. One thread.

A line of JSON is appended to `--out` for every finished start, with the versions of the tools;
starts that are there already, with the same settings, are skipped: a run may be stopped and taken
up again, and `--starts` raised. Rounds count from 1; round 0 is what was known.
"""

import argparse
import csv
import importlib.metadata
import itertools
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from baybe import Campaign, Settings
from baybe.parameters import CategoricalParameter
from baybe.searchspace import SearchSpace
from baybe.targets import NumericalTarget

MATRIX = "matrix_ligand-base_x_solvent-conc-temp.csv"
PARAMETERS = {
    "components": ("ligand", "base", "solvent", "concentration", "temperature"),
    "rows_columns": ("row", "column"),
}
TARGET = "yield"
KNOWN = 10  # entries known at the start
TOP = 10  # entries whose mean is reported
TOOLS = ("baybe", "botorch", "gpytorch", "torch", "numpy", "pandas", "scipy")


class Problem(NamedTuple):
    """The entries of the matrix, row by row."""

    names: tuple[str, ...]  # of the parameters
    labels: list[tuple[str, ...]]  # the values of the parameters, an entry each
    yields: np.ndarray


def read_problem(folder: Path, parameters: str) -> Problem:
    """Reads the matrix and describes its entries by the parameters asked for."""
    with open(folder / MATRIX, newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    labels: list[tuple[str, ...]] = []
    for line, column in itertools.product(lines, header[1:]):
        pair = (line[0], column)
        labels.append(pair if parameters == "rows_columns" else tuple("|".join(pair).split("|")))
    yields = np.array([float(value) for line in lines for value in line[1:]])
    if len(set(labels)) != len(yields) or not np.isfinite(yields).all():
        raise ValueError(f"{MATRIX} is not a full matrix with distinct names")
    return Problem(PARAMETERS[parameters], labels, yields)


def make_campaign(problem: Problem, order: np.ndarray) -> Campaign:
    """A campaign with the default recommender, which does not repeat a measurement.

    Args:
        problem: The entries.
        order: All entries, in the order in which the recommender is to see them.

    Returns:
        The campaign, without measurements.
    """
    parameters = [
        CategoricalParameter(name=name, values=sorted(set(values)), encoding="OHE")
        for name, values in zip(problem.names, zip(*problem.labels, strict=True), strict=True)
    ]
    candidates = pd.DataFrame([problem.labels[entry] for entry in order], columns=problem.names)
    space = SearchSpace.from_dataframe(candidates, parameters)
    objective = NumericalTarget(name=TARGET).to_objective()
    return Campaign(space, objective, allow_recommending_already_measured=False)


def measure(campaign: Campaign, problem: Problem, entries: Sequence[int]) -> None:
    """Adds the yields of the entries."""
    table = pd.DataFrame([problem.labels[entry] for entry in entries], columns=problem.names)
    table[TARGET] = problem.yields[list(entries)]
    campaign.add_measurements(table)


def run_start(
    problem: Problem, start: int, *, rounds: int, batch: int, order: str
) -> dict[str, Any]:
    """One campaign: what it measured, in order, and how it did."""
    size = len(problem.labels)
    entry_of = {label: entry for entry, label in enumerate(problem.labels)}
    measured = np.random.default_rng(start).choice(size, KNOWN, replace=False).tolist()
    shuffled = np.random.default_rng((start, 1)).permutation(size)
    seconds, busy = [], []
    with Settings(random_seed=start):
        campaign = make_campaign(problem, shuffled if order == "shuffled" else np.arange(size))
        measure(campaign, problem, measured)
        for _ in range(rounds):
            began, began_busy = time.perf_counter(), time.process_time()
            table = campaign.recommend(batch)
            seconds.append(time.perf_counter() - began)
            busy.append(time.process_time() - began_busy)
            rows = table[list(problem.names)].itertuples(index=False, name=None)
            chosen = [entry_of[row] for row in rows]
            measure(campaign, problem, chosen)
            measured += chosen
    if len(set(measured)) != KNOWN + rounds * batch:
        raise RuntimeError("an entry was measured twice")
    return {
        "measured": measured,
        **summary(problem.yields, measured, rounds=rounds, batch=batch),
        "seconds_a_round": round(float(np.mean(seconds)), 4),
        "cpu_seconds_a_round": round(float(np.mean(busy)), 4),
    }


def summary(
    yields: np.ndarray, measured: Sequence[int], *, rounds: int, batch: int
) -> dict[str, Any]:
    """The measures of a run; entries that tie for the best yield all count as the best."""
    values = yields[list(measured)]
    best = [float(values[: KNOWN + batch * i].max()) for i in range(rounds + 1)]
    found = [i for i, value in enumerate(best) if value == yields.max()]
    return {
        "found": bool(found),
        "found_round": found[0] if found else None,
        "mean_top": float(np.sort(values)[-TOP:].mean()),
        "best_so_far": best,
    }


def finished(out: Path, settings: dict[str, Any]) -> set[int]:
    """The starts in the file, which must have been run with the same settings."""
    if not out.exists():
        return set()
    starts = set()
    for line in out.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if any(record[name] != value for name, value in settings.items()):
            raise SystemExit(f"{out} has starts of other settings: name another file")
        starts.add(record["start"])
    return starts


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description="BayBE on the direct arylation yields.")
    parser.add_argument("--data", type=Path, required=True, help="Folder with the matrix.")
    parser.add_argument("--parameters", choices=tuple(PARAMETERS), default="components")
    parser.add_argument("--starts", type=int, default=20, help="Runs the starts 0 to this - 1.")
    parser.add_argument("--rounds", type=int, default=30, help="Batches to measure.")
    parser.add_argument("--batch", type=int, default=5, help="Entries in a batch.")
    parser.add_argument("--order", choices=("shuffled", "file"), default="shuffled")
    parser.add_argument("--out", type=Path, required=True, help="File of JSON lines to extend.")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the starts that are not in the file yet."""
    flags = parse(arguments)
    torch.set_num_threads(1)
    protocol = {"rounds": flags.rounds, "batch": flags.batch, "order": flags.order}
    settings = {"parameters": flags.parameters, **protocol}
    done = finished(flags.out, settings)
    versions = {tool: importlib.metadata.version(tool) for tool in TOOLS}
    versions["python"] = platform.python_version()
    problem = read_problem(flags.data, flags.parameters)
    for start in range(flags.starts):
        if start in done:
            continue
        told = run_start(problem, start, **protocol)
        record = {**settings, "start": start, **told, "versions": versions}
        with open(flags.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{flags.parameters} start {start}: best {told['best_so_far'][-1]:.2f}, "
            f"found in round {told['found_round']}, mean of the best {TOP} "
            f"{told['mean_top']:.2f}, {told['seconds_a_round']:.2f} s a round",
            flush=True,
        )


if __name__ == "__main__":
    main()
