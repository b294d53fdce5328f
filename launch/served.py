"""Who is served: the picks of finished runs by the users that they went to.

python -m launch.served --workdirs=results/jester,results/equalised --picture=served.png

Each run is a directory that launch.run left. The table has, for every policy, the regret at the
end, the Gini coefficient of the picks over the columns (0: as many for each, 1: all for one), the
share of the picks that went to the tenth of the columns with the highest averages, the correlation
of a column's picks with its average, and the share of columns that got none; means over the seeds.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from absl import app, flags
from ml_collections import ConfigDict

from launch import data, files, plot, settings, validation
from launch.command import fail, one_line, parse
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.simulation.environment import seed_keys
from smc_jax.simulation.service import Service, describe, service

WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of finished runs.")
PICTURE = flags.DEFINE_string("picture", None, "Where to draw picks against averages.")


def averages(config: ConfigDict) -> np.ndarray:
    """The average [seeds, N] of each column's entries in the matrix of each seed."""
    make_problem = data.make_data(config)

    @jax.jit
    def average(seed: jax.Array) -> jax.Array:
        problem = make_problem(seed_keys(seed).problem, seed)
        return problem.entries.mean(0, where=problem.available)

    return np.stack([average(np.uint32(seed)) for seed in settings.seeds(config)])


def load(workdir: Path) -> dict[str, Service]:
    """Whom each policy of a finished run served."""
    try:
        held = ConfigDict(json.loads((workdir / "config.json").read_text())["config"])
        config = validation.resolve(held)  # and its data are still the same
        curves = files.load_curves(workdir)
    except ConfigError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"workdirs: cannot read {workdir}: {error}") from error
    average = averages(config)
    return {name: service(one, average) for name, one in curves.items()}


def print_table(runs: dict[str, dict[str, Service]]) -> None:
    """One line a run and policy."""
    width = max(map(len, runs)) + 2
    head = ("regret", "gini", "top tenth", "correlation", "unserved")
    lines = [f"{'run':<{width}}{'policy':<12}" + "".join(f"{name:>13}" for name in head)]
    for run, policies in runs.items():
        for policy, served in policies.items():
            try:
                regret, *others = describe(served)
            except ValueError as error:
                raise ConfigError(f"workdirs: {run}, {policy}: {error}") from error
            cells = f"{regret:>13.0f}" + "".join(f"{value:>13.2f}" for value in others)
            lines.append(f"{run:<{width}}{policy:<12}{cells}")
    print("\n".join(lines))


def main(arguments: Sequence[str]) -> None:
    """Prints the table, and draws."""
    del arguments
    if not WORKDIRS.value:
        fail("give --workdirs=DIR,DIR of finished runs")
    with one_line():
        runs = {name: load(Path(name)) for name in WORKDIRS.value}
        print_table(runs)
    if PICTURE.value:
        panels = {
            f"{run}, {policy}": (served.average, served.picks)
            for run, policies in runs.items()
            for policy, served in policies.items()
        }
        if not panels:
            fail("picture: no policy has finished in these runs")
        picture = Path(PICTURE.value)
        try:
            picture.parent.mkdir(parents=True, exist_ok=True)
            plot.served_plot(picture, panels)
        except OSError as error:
            fail(f"picture: cannot write {picture}: {error.strerror}")
        print(f"picks against averages are in {PICTURE.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
