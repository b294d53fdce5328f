"""Which start and which optimiser: ELBO, error on unseen entries, regret of ids, and time.

python -m launch.ablation --config=configs/synthetic.py --config.first_seed=1000 --config.seeds=4

ELBO, the mean over the last window of steps, and RMSE, in standard deviations of the entries, are
of one fit (first_steps steps) to entries seen at random; the regret and the seconds, compilation
apart, are of the whole experiment with ids.
"""

import time
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from ml_collections import config_flags
from tqdm import tqdm

from launch import experiment, results, settings
from launch.command import CompileClock, fail, parse
from launch.predictions import single_fit
from smc_jax.inference import OPTIMISERS
from smc_jax.start import STARTS
from smc_jax.sweep import curves

CONFIG = config_flags.DEFINE_config_file("config", "configs/synthetic.py", "The experiment.")
SEEN = flags.DEFINE_float("seen", 0.2, "Fraction of the entries that the single fit sees.")


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination."""
    del arguments
    config = CONFIG.value
    try:
        experiment.validate(config)
    except settings.ConfigError as error:
        fail(str(error))
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    clock = CompileClock()
    lines = []
    cells = [(start, optimiser) for start in STARTS for optimiser in OPTIMISERS]
    for start, optimiser in tqdm(cells, unit="cell"):
        config.inference.start, config.inference.optimiser = start, optimiser
        fit = jax.jit(single_fit(config, SEEN.value))
        elbo, rmse, *_ = np.array([fit(np.uint32(seed)) for seed in seeds]).T
        _, sweep = experiment.sweeps(config)("ids")
        began, compiled = time.monotonic(), clock.seconds
        *_, last = sweep.go_on(sweep.start(seeds))
        seconds = time.monotonic() - began - (clock.seconds - compiled)
        regret = curves(last).regret[:, -1]
        line = f"{start:<10}{optimiser:<10}"
        for values, digits in ((elbo, 1), (rmse, 3), (regret, 1)):
            line += results.cell(values, digits)
        lines.append(line + f"{seconds:>9.1f}")
    print(f"{'start':<10}{'optimiser':<10}{'ELBO':>10}{'RMSE':>18}{'regret':>18}{'seconds':>17}")
    print("\n".join(lines))


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
