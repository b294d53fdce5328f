"""Seeds of one experiment sharded over the devices, against one after another on one device.

python -m benchmarks.sweep [--seeds=1,2,4,10 --horizon=260 --refits=4 --repeats=3]
python -m benchmarks.sweep --shard=columns --seeds=1 --rows=1000 --columns=6040 --steps=100

The second shards the columns of one matrix instead, and compares with all of it on one device.

ids on the synthetic experiment with a shortened horizon. Which of the curves are the same in both,
bit by bit, is printed; the run ends with an error if regret, rewards or picks are not. There is one
device a core; JAX_NUM_CPU_DEVICES sets another number.
"""

from collections.abc import Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags

from benchmarks import timing
from configs import synthetic
from launch import experiment
from smc_jax.loop import Loop
from smc_jax.sweep import SHARDS, Curves, curves, make_sweep

SEEDS = flags.DEFINE_list("seeds", ["1", "2", "4", "10"], "How many seeds, each of these.")
HORIZON = flags.DEFINE_integer("horizon", 260, "Picks a seed.", lower_bound=1)
REFITS = flags.DEFINE_integer("refits", 4, "Batches of it.", lower_bound=1)
SHARD = flags.DEFINE_enum("shard", "seeds", SHARDS, "What is shared out.")
ROWS = flags.DEFINE_integer("rows", 50, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 100, "N.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Of the first fit.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 3, "Timings of each program.", lower_bound=1)
MUST_BE_SAME = {"regret", "reward", "rows", "cols"}


class Program:
    """A sweep from start to end; the curves of the last run are kept."""

    def __init__(
        self, loop: Loop, seeds: int, devices: Sequence[jax.Device], shard: str = "seeds"
    ) -> None:
        self.sweep, self.seeds = make_sweep(loop, shard=shard, devices=devices), range(seeds)
        self.curves: Curves | None = None

    def __call__(self) -> None:
        """Runs it."""
        *_, last = self.sweep.go_on(self.sweep.start(self.seeds))
        self.curves = curves(last)


def differences(one: Curves, other: Curves) -> dict[str, float]:
    """The curves that are not the same bit by bit, each with its largest relative difference."""
    found = {}
    for name, a, b in zip(Curves._fields, one, other, strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            apart, size = np.abs(np.float64(a) - b), np.maximum(np.abs(np.float64(b)), 1e-30)
            found[name] = float(np.nanmax(apart / size))
    return found


def main(arguments: Sequence[str]) -> None:
    """Every number of seeds."""
    del arguments
    config = synthetic.get_config()
    config.rows, config.columns, config.shard = ROWS.value, COLUMNS.value, SHARD.value
    config.horizon, config.refits = HORIZON.value, REFITS.value
    config.inference.first_steps = STEPS.value
    experiment.validate(config)
    loop, devices = experiment.build(config, "ids"), jax.devices()
    figures: dict[str, Any] = {"horizon": HORIZON.value, "refits": REFITS.value}
    broken = []
    for seeds in map(int, SEEDS.value):
        over = devices[:seeds] if SHARD.value == "seeds" else devices
        sharded = Program(loop, seeds, over, SHARD.value)
        alone = Program(loop, seeds, devices[:1])
        timings = timing.interleaved({"sharded": sharded, "alone": alone}, repeats=REPEATS.value)
        assert sharded.curves is not None
        assert alone.curves is not None
        differ = differences(sharded.curves, alone.curves)
        size = f"{ROWS.value} x {COLUMNS.value}"
        title = (
            f"{seeds} seeds, {SHARD.value} on {len(over)} devices, {size}, {HORIZON.value} picks"
        )
        print(timing.table(title, timings, peer="alone", unit=1.0))
        rates = {name: seeds * HORIZON.value / one.median for name, one in timings.items()}
        told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
        print(f"  picks a second, fits included: {told}")
        identical = ", ".join(name for name in Curves._fields if name not in differ)
        apart = ", ".join(f"{name} by up to {most:.1e} of it" for name, most in differ.items())
        print(f"  identical bit by bit: {identical}; not: {apart or 'none'}")
        seconds = {name: one._asdict() for name, one in timings.items()}
        figures[str(seeds)] = {"seconds": seconds, "picks_a_second": rates, "differ": differ}
        if SHARD.value == "seeds" and differ.keys() & MUST_BE_SAME:
            broken.append(seeds)
    print(timing.closing(timing.keep(f"sweep_{SHARD.value}", figures)))
    if broken:
        raise SystemExit(f"{broken} seeds: sharded and alone do not pick the same")


if __name__ == "__main__":
    app.run(main)
