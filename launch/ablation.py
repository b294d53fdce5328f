"""Which start and which optimiser: ELBO, error on unseen entries, regret of ids, and time.

python -m launch.ablation --config=configs/synthetic.py --config.first_seed=1000 --config.seeds=4

ELBO, the mean over the last window of steps, and RMSE, in standard deviations of the entries, are
figures of one fit (first_steps steps) to entries seen at random; the regret and the seconds,
without compilation, are figures of the whole experiment with ids.
"""

import functools
import time
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import data, experiment, settings, tables, validation
from launch.command import CompileClock, one_line, parse
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.beliefs.starts import STARTS
from smc_jax.beliefs.variational import OPTIMISERS
from smc_jax.simulation.held_out import single_fit
from smc_jax.simulation.regret import curves

CONFIG = config_flags.DEFINE_config_file("config", "configs/synthetic.py", "The experiment.")
SEEN = flags.DEFINE_float("seen", 0.2, "Fraction of the entries that the single fit sees.")


def one_cell(config: ConfigDict, clock: CompileClock) -> str:
    """The figures of one start and one optimiser."""
    seeds = settings.seeds(config)
    make_problem, belief = data.make_data(config), experiment.make_belief(config)
    fit = jax.jit(single_fit(make_problem, belief, SEEN.value))
    found = [fit(np.uint32(seed)) for seed in seeds]
    elbo, error = (np.array([getattr(one, field) for one in found]) for field in ("elbo", "error"))
    _, sweep = experiment.sweeps(config)("ids")
    began, compiled = time.monotonic(), clock.seconds
    *_, last = sweep.resume(sweep.start(seeds))
    seconds = time.monotonic() - began - (clock.seconds - compiled)
    regret = curves(last).regret[:, -1]
    line = f"{config.inference.start:<10}{config.inference.optimiser:<10}"
    for values, digits in ((elbo, 1), (error, 3), (regret, 1)):
        line += tables.cell(values, digits)
    return line + f"{seconds:>9.1f}"


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination."""
    del arguments
    with one_line():
        config = validation.resolve(CONFIG.value)
        if not 0.0 < SEEN.value < 1.0:
            raise ConfigError(f"seen: give a fraction between 0 and 1, got {SEEN.value:g}")
        clock = CompileClock()
        lines = []
        cells = [(start, optimiser) for start in STARTS for optimiser in OPTIMISERS]
        for start, optimiser in tqdm(cells, unit="cell"):
            config.inference.start, config.inference.optimiser = start, optimiser
            lines.append(one_cell(config, clock))
    print(f"{'start':<10}{'optimiser':<10}{'ELBO':>10}{'RMSE':>18}{'regret':>18}{'seconds':>17}")
    print("\n".join(lines))


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
