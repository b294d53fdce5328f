r"""Regret of one policy over a grid of its own settings, in every panel of a figure.

python -m launch.tune --config=configs/figure1.py --policy=empirical --config.first_seed=1000 \
  --config.seeds=4 --grid="strength=1,5,20 floor=0.03,0.1"

Prints the mean regret at the end of the horizon in each panel, the geometric mean of these, which
does not depend on the panels' units, and the setting where that is least. With --group=model or
--group=inference the grid is over settings of what the policy fits. Use development seeds, from
1000 up: those that are reported must not choose anything.
"""

import functools
import math
from collections.abc import Iterable, Sequence

from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import experiment, panels, settings
from launch.command import fail, one_line, parse
from launch.grid import trials
from launch.usage import usage
from smc_jax.policies.registry import POLICIES
from smc_jax.simulation.regret import curves
from smc_jax.simulation.sweep import ClosedChoiceError

CONFIG = config_flags.DEFINE_config_file("config", help_string="The figure.")
POLICY = flags.DEFINE_string("policy", None, "Which policy.")
GROUP = flags.DEFINE_string("group", None, "Whose settings: the policy's, or model, inference.")
GRID = flags.DEFINE_string("grid", "", "FIELD=VALUE,VALUE ... separated by blanks.")


def regrets(experiments: Iterable[ConfigDict], policy: str, bar: tqdm) -> list[float]:
    """Mean regret at the end of the horizon, panel by panel."""
    means = []
    for config in experiments:
        _, sweep = experiment.sweeps(config)(policy)
        *_, last = sweep.resume(sweep.start(settings.seeds(config)))
        means.append(float(curves(last).regret[:, -1].mean()))
        bar.update()
    return means


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination as soon as it is known, and the best one."""
    del arguments
    config, policy = CONFIG.value, POLICY.value
    if config is None or policy not in POLICIES:
        fail(f"give --config=configs/figure1.py and --policy, one of {', '.join(POLICIES)}")
    with one_line():
        made = {
            text: panels.resolve(trial)
            for text, trial in trials(config, GROUP.value or policy, GRID.value).items()
        }
    titles = list(next(iter(made.values())))
    width = max(map(len, [policy, *made])) + 1
    print(f"{policy:<{width}}" + "".join(f"{title:>14}" for title in titles) + f"{'mean':>10}")
    means = {}
    with tqdm(total=len(made) * len(titles), unit="cell", smoothing=0.0) as bar:
        for text, trial in made.items():
            try:
                each = regrets(trial.values(), policy, bar)
            except (FloatingPointError, ClosedChoiceError) as error:
                bar.write(f"{text:<{width}}failed: {error}")
                continue
            means[text] = math.prod(each) ** (1 / len(each))
            row = "".join(f"{regret:>14.1f}" for regret in each)
            bar.write(f"{text:<{width}}{row}{means[text]:>10.1f}")
    if means:
        print(f"least mean: {min(means, key=lambda text: means[text])}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
