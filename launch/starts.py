"""Which start and which optimiser of the inference: one experiment with ids for each pair."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from launch import commits, data, experiment, files, plans, settings, tables, validation
from launch.settings import ConfigError
from smc_jax.beliefs.starts import STARTS
from smc_jax.beliefs.variational import OPTIMISERS
from smc_jax.simulation.held_out import single_fit
from smc_jax.simulation.regret import standard_error

POLICY = "ids"
FIT = "fit.json"  # the figures of the single fits of a pair, beside its run
DIGITS = {"ELBO": 1, "RMSE": 3, "regret": 1}


def plan(config: ConfigDict, workdir: Path, seen: float) -> plans.Plan:
    """The experiment with `ids` alone, once for each start and optimiser.

    Args:
      config: the experiment.
      workdir: where the results go.
      seen: the part of the entries that a single fit sees.
    """
    resolved = validation.resolve(config)
    if not 0.0 < seen < 1.0:
        raise ConfigError(f"seen: give a fraction between 0 and 1, got {seen:g}")
    experiments = {}
    for start in STARTS:
        for optimiser in OPTIMISERS:
            trial = resolved.copy_and_resolve_references()
            with trial.ignore_type():
                trial.policies, trial.reference = POLICY, None
            trial.inference.start, trial.inference.optimiser = start, optimiser
            trial.inference.method = "svi"  # what the optimiser and the ELBO belong to
            experiments[f"{start} {optimiser}"] = trial
    folders = {title: workdir / title.replace(" ", "_") for title in experiments}

    def report(summaries: plans.Summaries) -> None:
        found = {title: figures(experiments[title], folders[title], seen) for title in summaries}
        for title, summary in summaries.items():
            found[title]["seconds"] = summary["policies"][POLICY]["seconds"]
            found[title]["commit"] = summary["policies"][POLICY]["commit"]
            found[title]["fit_commit"] = commits.made_at(folders[title], FIT)
        made_at = [one[of] for one in found.values() for of in ("commit", "fit_commit")]
        stamp = commits.stamp(made_at)
        files.write_text(workdir / "ablation.md", markdown(found, stamp))
        files.write_text(workdir / "ablation.csv", as_csv(found))

    return plans.Plan(experiments, folders, report, parts=(FIT,))


def figures(config: ConfigDict, folder: Path, seen: float) -> dict[str, Any]:
    """ELBO and error of one fit a seed, which are kept, and the regret of the run [seeds]."""
    path = folder / FIT
    try:
        fits = json.loads(path.read_text()) if path.exists() else {}
        kept = fits.get("seen") == seen
    except (OSError, AttributeError, ValueError) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}; delete the file") from error
    if not kept:
        fit = jax.jit(single_fit(data.make_data(config), experiment.make_belief(config), seen))
        found = [fit(np.uint32(seed)) for seed in settings.seeds(config)]
        fits = {
            "seen": seen,
            "ELBO": [float(one.elbo) for one in found],
            "RMSE": [float(one.error) for one in found],
        }
        commits.note(folder, FIT)
        files.write_json(path, fits)
    regret = files.load_curves(folder)[POLICY].regret[:, -1]
    made = {"ELBO": fits["ELBO"], "RMSE": fits["RMSE"], "regret": regret}
    return {name: np.asarray(values) for name, values in made.items()}


def markdown(found: dict[str, dict[str, Any]], stamp: str) -> str:
    """The table for people."""
    told = (
        "ELBO and error on unseen entries, in standard deviations of the entries, of one fit to"
        " entries seen at random; regret at the end of the horizon and seconds, without"
        f" compilation, of the whole experiment with ids. Mean ± standard error. {stamp}"
    )
    cells = []
    for title, one in found.items():
        means = [
            tables.mean_cell(one[name].mean(), tables.number(standard_error(one[name])), digits)
            for name, digits in DIGITS.items()
        ]
        cells.append([*title.split(), *means, f"{one['seconds']:.1f}"])
    head = ["start", "optimiser", *DIGITS, "seconds"]
    return "\n".join([told, "", *tables.block(head, cells)]) + "\n"


def as_csv(found: dict[str, dict[str, Any]]) -> str:
    """The table for programs."""
    head = [column for name in DIGITS for column in (name, f"{name}_sem")]
    cells: list[list[Any]] = []
    for title, one in found.items():
        values: list[Any] = []
        for name in DIGITS:
            error = standard_error(one[name])
            values += [float(one[name].mean()), tables.number(error)]
        cells.append([*title.split(), *values, one["seconds"], one["commit"], one["fit_commit"]])
    last = ["seconds", "commit", "fit_commit"]
    return tables.csv_text(["start", "optimiser", *head, *last], cells)
