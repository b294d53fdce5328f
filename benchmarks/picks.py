"""Time of one pick of every policy against one of thompson, in the same run.

python -m benchmarks.picks [--rows=50 --columns=100 --seen=0.2 --particles=30 --repeats=15]

All policies have seen the same data and are fitted to them. `pick` is choosing an entry
and absorbing its value; `batch` adds what begins a batch once the model is fitted, which for ids
is drawing the ensemble, spread over the picks of the batch.
"""

import time
from collections.abc import Sequence

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags

from configs import synthetic
from launch import experiment, settings

ROWS = flags.DEFINE_integer("rows", 50, "D.")
COLUMNS = flags.DEFINE_integer("columns", 100, "N.")
SEEN = flags.DEFINE_float("seen", 0.2, "Size of the initial design, as a fraction of all entries.")
PARTICLES = flags.DEFINE_integer("particles", 30, "Of the particle filter.")
REPEATS = flags.DEFINE_integer("repeats", 15, "Timings of each program.")
POLICIES = ("thompson", "ids", "empirical", "optspace", "particle", "icf", "greedy", "random")


def programs(name: str) -> dict:
    """The compiled `pick` and `batch` of a policy, as functions without arguments."""
    config = synthetic.get_config()
    config.rows, config.columns = ROWS.value, COLUMNS.value
    config.initial_fraction = SEEN.value * config.rows * config.columns / settings.horizon(config)
    config.particle.particles = PARTICLES.value
    loop = experiment.build(config, name)
    key = jax.random.key(0)
    carry, _ = jax.jit(loop.start)(0)
    carry = jax.jit(loop.refit)(carry, key)
    # The oracle's belief needs no fit, so that a whole batch of it times the policy alone.
    picks = {"thompson": "thompson", "ids": "ids"}.get(name)
    run = {"pick": (jax.jit(loop.picks), (carry, key))}
    if picks is not None:
        config.oracle.picks = picks
        known = experiment.build(config, "oracle")
        start, _ = jax.jit(known.start)(0)
        run["batch"] = (jax.jit(lambda carry: known.advance(carry, 1)), (start,))
    for function, arguments in run.values():
        jax.block_until_ready(function(*arguments))
    return {kind: (function, arguments, loop.batch) for kind, (function, arguments) in run.items()}


def main(arguments: Sequence[str]) -> None:
    """Times all programs in turn, repeatedly, and prints medians and ratios."""
    del arguments
    cases = {(name, kind): run for name in POLICIES for kind, run in programs(name).items()}
    times: dict = {case: [] for case in cases}
    for _ in range(REPEATS.value):
        for case, (function, inputs, batch) in cases.items():
            began = time.perf_counter()
            jax.block_until_ready(function(*inputs))
            times[case].append(1e6 * (time.perf_counter() - began) / batch)
    print(f"{ROWS.value} x {COLUMNS.value}, {SEEN.value:.0%} seen, {jax.devices()[0].device_kind}")
    print(f"{'policy':<10}{'kind':<7}{'us a pick':>10}{'quartiles':>16}{'/ thompson':>12}")
    for (name, kind), values in times.items():
        low, median, high = np.percentile(values, [25, 50, 75])
        ratio = median / np.median(times["thompson", kind])
        print(f"{name:<10}{kind:<7}{median:>10.1f}{f'{low:.1f}-{high:.1f}':>16}{ratio:>12.2f}")


if __name__ == "__main__":
    app.run(main)
