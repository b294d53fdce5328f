"""What it costs to ask for many entries before any answer: regret by the size of an ask.

python -m launch.batches --config=configs/synthetic.py --config.first_seed=1000 --asks=1,5,20,65,260

The model is fitted after every batch of picks, or ask where that is larger. `frozen` takes the same
number of best entries of one ranking: an entry that is asked closes, and changes nothing else.
"""

import functools
from collections.abc import Sequence

import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import data, experiment, settings, tables, validation
from launch.command import one_line, parse
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.simulation.environment import Environment
from smc_jax.simulation.loop import make_loop, make_reset
from smc_jax.simulation.regret import FRACTIONS, at_fractions, curves, paired_interval
from smc_jax.simulation.sweep import make_resets, make_sweep

CONFIG = config_flags.DEFINE_config_file("config", "configs/synthetic.py", "The experiment.")
POLICY = flags.DEFINE_string("policy", "ids", "Who is asked.")
ASKS = flags.DEFINE_list("asks", ["1", "5", "20", "65", "260"], "Entries that are asked at once.")
FROZEN = flags.DEFINE_integer("frozen", 65, "The ask that one frozen ranking is compared at.")


def regret(config: ConfigDict, world: Environment, asked: int, *, frozen: bool) -> np.ndarray:
    """Cumulative regret [seeds, horizon] where that many entries are asked at once."""
    picks, place = settings.horizon(config), experiment.placement(config)
    policy = experiment.make_policy(config, POLICY.value)
    if frozen:
        policy = policy._replace(choose_several=None)
    loop = make_loop(world, policy, horizon=picks, refits=config.refits, asked=asked)
    sweep = make_sweep(loop, resets=make_resets(make_reset(world, horizon=picks), **place), **place)
    *_, last = sweep.resume(sweep.start(settings.seeds(config)))
    return curves(last).regret


def main(arguments: Sequence[str]) -> None:
    """Prints a line an ask, and beside it what it loses against the first, seed by seed."""
    del arguments
    with one_line():
        config = validation.resolve(CONFIG.value)
        if not all(ask.isdigit() and int(ask) > 0 for ask in ASKS.value):
            raise ConfigError(f"asks: give whole numbers above 0, got {','.join(ASKS.value)}")
        world = experiment.environment(config, data.make_data(config))
        cases = [(f"{ask} at once", int(ask), False) for ask in ASKS.value]
        cases.append((f"{FROZEN.value} frozen", FROZEN.value, True))
        found = {
            title: regret(config, world, asked, frozen=frozen)
            for title, asked, frozen in tqdm(cases, unit="ask")
        }
    first = next(iter(found.values()))
    heads = "".join(f"{f'{percent} %':>18}" for percent in FRACTIONS)
    print(f"regret of {POLICY.value}, {config.seeds} seeds from {config.first_seed}")
    print(f"{'':<14}{heads}   at 100 %, against {next(iter(found))}")
    for title, curve in found.items():
        cells = "".join(tables.cell(values, 0) for values in at_fractions(curve).values())
        difference = paired_interval(curve[:, -1], first[:, -1])
        part = difference.mean / first[:, -1].mean()
        interval = f"{difference.mean:+.0f} [{difference.low:+.0f}, {difference.high:+.0f}]"
        print(f"{title:<14}{cells}   {part:+.1%}  {interval}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
