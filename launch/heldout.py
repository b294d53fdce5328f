"""How well the model predicts what it has not seen, over a grid of its settings.

python -m launch.heldout --config=configs/jester.py --config.first_seed=1000 --config.seeds=4 \
  --seen=0.05,0.2 --grid="loadings=gamma,signed noise_spread=0.0,0.35"

One fit (first_steps steps) to entries seen at random. Printed are the error on the others, in
standard deviations of the whole matrix, their mean log density in these units, and the effective
rank: mean and standard error over the seeds.
"""

from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from ml_collections import config_flags
from tqdm import tqdm

from launch import experiment, results, settings
from launch.command import fail, parse
from launch.grid import trials
from launch.predictions import single_fit

CONFIG = config_flags.DEFINE_config_file("config", "configs/jester.py", "The experiment.")
SEEN = flags.DEFINE_list("seen", ["0.05", "0.2"], "Fractions of the entries that a fit sees.")
GRID = flags.DEFINE_string("grid", "", "FIELD=VALUE,VALUE ... of config.model.")


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination as soon as it is known."""
    del arguments
    try:
        experiment.validate(CONFIG.value)  # which refuses a figure of several data
        made = trials(CONFIG.value, "model", GRID.value)
        fractions = [float(text) for text in SEEN.value]
        if not all(0.0 < fraction < 1.0 for fraction in fractions):
            raise ValueError
    except settings.ConfigError as error:
        fail(str(error))
    except ValueError:
        fail(f"seen: give fractions between 0 and 1, got {','.join(SEEN.value)}")
    width = max(map(len, made)) + 2
    head = f"{'seen':>6}{'RMSE':>10}{'log density':>20}{'rank':>15}"
    print(f"{'model':<{width}}{head}")
    with tqdm(total=len(made) * len(fractions), unit="cell", smoothing=0.0) as bar:
        for text, config in made.items():
            seeds = np.arange(config.first_seed, config.first_seed + config.seeds, dtype=np.uint32)
            for fraction in fractions:
                fit = jax.jit(single_fit(config, fraction))
                _, *figures = np.array([fit(seed) for seed in seeds]).T
                line = f"{text:<{width}}{fraction:>6g}"
                for values, digits in zip(figures, (4, 4, 1), strict=True):
                    line += results.cell(values, digits)
                bar.write(line)
                bar.update()


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
