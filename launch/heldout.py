r"""How well the model predicts what it has not seen, over a grid of its settings.

python -m launch.heldout --config=configs/jester.py --config.first_seed=1000 --config.seeds=4 \
  --seen=0.05,0.2 --grid="loadings=gamma,signed noise_spread=0.0,0.35"

python -m launch.heldout --config=configs/davis.py --config.seeds=10 --seen=0.05 \
  --grid="row_features=None,noise column_features=None,noise"

One fit to entries seen at random. Printed are the error on the others, in standard deviations of
the whole matrix, their mean log density in these units, and the effective rank: mean and standard
error over the seeds; and how much the error differs from that of the first combination, in percent,
with the 95 % interval of seeds in pairs.
"""

import functools
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from ml_collections import config_flags
from tqdm import tqdm

from launch import data, experiment, settings, tables, validation
from launch.command import one_line, parse
from launch.grid import trials
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.simulation.held_out import single_fit
from smc_jax.simulation.regret import paired_interval

CONFIG = config_flags.DEFINE_config_file("config", "configs/jester.py", "The experiment.")
SEEN = flags.DEFINE_list("seen", ["0.05", "0.2"], "Fractions of the entries that a fit sees.")
GRID = flags.DEFINE_string("grid", "", "FIELD=VALUE,VALUE ... of config.model, or features.")


def seen_fractions() -> list[float]:
    """The fractions that were asked for."""
    try:
        fractions = [float(text) for text in SEEN.value]
    except ValueError:
        fractions = []
    if not fractions or not all(0.0 < fraction < 1.0 for fraction in fractions):
        told = f"seen: give fractions between 0 and 1, got {','.join(SEEN.value)}"
        raise ConfigError(told)
    return fractions


def against(errors: np.ndarray, first: np.ndarray) -> str:
    """How much errors [seeds] are above those of the first combination, in percent of their mean.

    Nothing for the first itself, and for one seed, which has no interval.
    """
    if errors is first or len(errors) < 2:
        return ""
    parts = 100.0 * np.array(paired_interval(errors, first)) / first.mean()
    return "{:>+14.2f} % [{:+.2f}, {:+.2f}]".format(*parts)


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination as soon as it is known."""
    del arguments
    with one_line():
        validation.validate(CONFIG.value)  # which refuses a figure of several data
        made = {
            text: validation.resolve(trial)
            for text, trial in trials(CONFIG.value, "model", GRID.value).items()
        }
        fractions = seen_fractions()
        width = max(map(len, made)) + 2
        head = f"{'seen':>6}{'RMSE':>10}{'log density':>20}{'rank':>15}"
        print(f"{'model':<{width}}{head}{'RMSE against the first':>32}")
        first: dict[float, np.ndarray] = {}
        with tqdm(total=len(made) * len(fractions), unit="cell", smoothing=0.0) as bar:
            for text, config in made.items():
                make_problem, belief = data.make_data(config), experiment.make_belief(config)
                for fraction in fractions:
                    fit = jax.jit(single_fit(make_problem, belief, fraction))
                    found = [fit(np.uint32(seed)) for seed in settings.seeds(config)]
                    line = f"{text:<{width}}{fraction:>6g}"
                    for field, digits in (("error", 4), ("density", 4), ("effective_rank", 1)):
                        values = np.array([getattr(one, field) for one in found])
                        line += tables.cell(values, digits)
                    errors = np.array([float(one.error) for one in found])
                    bar.write(line + against(errors, first.setdefault(fraction, errors)))
                    bar.update()


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
