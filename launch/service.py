"""How the picks of a finished run are shared out among the columns."""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from launch import data, experiment, results
from launch.settings import ConfigError
from smc_jax.loop import seed_keys
from smc_jax.sweep import Curves


class Service(NamedTuple):
    """The picks that each column got, and its average, one line a seed."""

    picks: np.ndarray  # [seeds, N]
    average: np.ndarray  # [seeds, N]
    regret: np.ndarray  # [seeds]  at the end


def gini(picks: np.ndarray) -> float:
    """Half the mean difference between two columns' picks, over the mean."""
    ordered = np.sort(picks)
    rank = np.arange(1, ordered.size + 1)
    return float((2 * rank - ordered.size - 1) @ ordered / (ordered.size * ordered.sum()))


def averages(config: ConfigDict) -> np.ndarray:
    """The average [seeds, N] of each column's entries in the matrix of each seed."""
    make_problem = data.make_data(config)

    def average(seed: jax.Array) -> jax.Array:
        problem = make_problem(seed_keys(seed).problem, seed)
        return problem.entries.mean(0, where=problem.available)

    seeds = np.arange(config.first_seed, config.first_seed + config.seeds, dtype=np.uint32)
    return np.stack([jax.jit(average)(seed) for seed in seeds])


def service(curves: Curves, average: np.ndarray) -> Service:
    """Counts the picks of each column."""
    columns = average.shape[1]
    picks = [np.bincount(cols[cols >= 0], minlength=columns) for cols in curves.cols]
    return Service(np.stack(picks), average, curves.regret[:, -1])


def describe(served: Service) -> dict[str, float]:
    """The figures of the table."""
    each = []
    for picks, average in zip(served.picks, served.average, strict=True):
        if not picks.any():
            raise ConfigError("workdirs: a seed of a run made no picks")
        rated = np.isfinite(average)  # a column without ratings cannot be served
        picks, average = picks[rated], average[rated]
        highest = np.argsort(-average)[: max(average.size // 10, 1)]
        together = (picks - picks.mean()) @ (average - average.mean())
        apart = picks.size * picks.std() * average.std()
        each.append(
            (
                gini(picks),
                picks[highest].sum() / picks.sum(),
                together / apart if apart > 0 else 0.0,
                (picks == 0).mean(),
            )
        )
    names = ("gini", "top tenth", "correlation", "unserved")
    figures = dict(zip(names, map(float, np.mean(each, axis=0)), strict=True))
    return {"regret": float(served.regret.mean()), **figures}


def load(workdir: Path) -> dict[str, Service]:
    """What each policy of a finished run did."""
    try:
        config = ConfigDict(json.loads((workdir / "config.json").read_text())["config"])
        experiment.validate(config)  # and that its data are still the same
        curves = results.load_curves(workdir)
    except ConfigError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"workdirs: cannot read {workdir}: {error}") from error
    average = averages(config)
    return {name: service(one, average) for name, one in curves.items()}
