"""Regret of one policy over a grid of its own settings, in every panel of a figure.

python -m launch.tune --config=configs/figure1.py --policy=empirical --config.first_seed=1000 \
  --config.seeds=4 --grid="strength=1,5,20 floor=0.03,0.1"

Prints the mean regret at the end of the horizon in each panel and over all of them, and marks the
least. Use development seeds, from 1000 up: those that are reported must not choose anything.
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
from launch.experiment import ConfigError
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


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination."""
    del arguments
    config, policy = CONFIG.value, POLICY.value
    if config is None or policy is None:
        fail("give --config=configs/figure1.py and --policy=NAME")
    config.policies = policy
    try:
        cells = combinations(GRID.value)
        for cell in cells:
            unknown = sorted(cell.keys() - config.get(policy, {}).keys())
            if unknown:
                raise ConfigError(f"grid: {policy} has no setting {unknown[0]!r}")
            trial = config.copy_and_resolve_references()
            trial[policy].update(cell)
            for panel in experiment.panels(trial).values():
                experiment.validate(panel)
    except (ConfigError, TypeError) as error:
        fail(str(error))
    titles = list(experiment.panels(config))
    found = []
    with tqdm(total=len(cells) * len(titles), unit="cell", smoothing=0.0) as bar:
        for cell in cells:
            trial = config.copy_and_resolve_references()
            trial[policy].update(cell)
            found.append(regrets(trial, policy, bar))
    means = [sum(each) / len(each) for each in found]
    width = max(len(str(cell)) for cell in cells)
    print(f"{policy:<{width}}" + "".join(f"{title:>14}" for title in titles) + f"{'mean':>10}")
    for cell, each, mean in zip(cells, found, means, strict=True):
        text = " ".join(f"{name}={value}" for name, value in cell.items()) or "defaults"
        mark = " *" if mean == min(means) else ""
        print(f"{text:<{width}}" + "".join(f"{x:>14.1f}" for x in each) + f"{mean:>10.1f}{mark}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
