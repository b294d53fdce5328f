"""Regret of one policy over a grid of its own settings, in every panel of a figure.

python -m launch.tune --config=configs/figure1.py --policy=empirical --config.first_seed=1000 \
  --config.seeds=4 --grid="strength=1,5,20 floor=0.03,0.1"

Prints the mean regret at the end of the horizon in each panel and over all of them, and the least
of those. Use development seeds, from 1000 up: those that are reported must not choose anything.
"""

import ast
import itertools
from collections.abc import Sequence
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import experiment
from launch.command import fail, parse
from launch.settings import ConfigError
from smc_jax.policies import POLICIES
from smc_jax.sweep import curves, make_sweep

CONFIG = config_flags.DEFINE_config_file("config", help_string="The figure.")
POLICY = flags.DEFINE_string("policy", None, "Which policy.")
GRID = flags.DEFINE_string("grid", "", "FIELD=VALUE,VALUE ... separated by blanks.")


def combinations(grid: str) -> list[dict[str, Any]]:
    """All settings of a grid such as `rank=2,5 users=chosen`."""

    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    fields = []
    for part in grid.split():
        name, equals, values = part.partition("=")
        if not equals or not values:
            raise ConfigError(f"grid: give FIELD=VALUE,VALUE ..., got {part!r}")
        fields.append([(name, value(text)) for text in values.split(",")])
    return [dict(chosen) for chosen in itertools.product(*fields)]


def regrets(config: ConfigDict, policy: str, bar: tqdm) -> list[float]:
    """Mean regret at the end of the horizon, panel by panel."""
    means = []
    for panel in experiment.panels(config).values():
        sweep = make_sweep(experiment.build(panel, policy))
        seeds = range(panel.first_seed, panel.first_seed + panel.seeds)
        *_, last = sweep.go_on(sweep.start(seeds))
        means.append(float(curves(last).regret[:, -1].mean()))
        bar.update()
    return means


def trials(config: ConfigDict, policy: str, grid: str) -> dict[str, ConfigDict]:
    """A config for each combination of settings; ConfigError where one cannot be used."""
    made = {}
    for cell in combinations(grid):
        trial = config.copy_and_resolve_references()
        trial.policies = policy
        for field, value in cell.items():
            if field not in trial.get(policy, {}):
                raise ConfigError(f"grid: {policy} has no setting {field!r}")
            with trial.ignore_type():
                trial[policy][field] = value
        for panel in experiment.panels(trial).values():
            experiment.validate(panel)
        made[" ".join(f"{field}={value}" for field, value in cell.items()) or "defaults"] = trial
    return made


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination as soon as it is known, and the best one."""
    del arguments
    config, policy = CONFIG.value, POLICY.value
    if config is None or policy not in POLICIES:
        fail(f"give --config=configs/figure1.py and --policy, one of {', '.join(POLICIES)}")
    try:
        made = trials(config, policy, GRID.value)
        titles = list(experiment.panels(config))
    except ConfigError as error:
        fail(str(error))
    width = max(map(len, [policy, *made])) + 1
    print(f"{policy:<{width}}" + "".join(f"{title:>14}" for title in titles) + f"{'mean':>10}")
    means = {}
    with tqdm(total=len(made) * len(titles), unit="cell", smoothing=0.0) as bar:
        for text, trial in made.items():
            try:
                each = regrets(trial, policy, bar)
            except (FloatingPointError, RuntimeError) as error:
                bar.write(f"{text:<{width}}failed: {error}")
                continue
            means[text] = sum(each) / len(each)
            row = "".join(f"{regret:>14.1f}" for regret in each)
            bar.write(f"{text:<{width}}{row}{means[text]:>10.1f}")
    if means:
        print(f"least mean: {min(means, key=lambda text: means[text])}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
