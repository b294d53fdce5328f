"""Time of one pick of every policy against one of thompson, in the same run.

python -m benchmarks.picks [--rows=50 --columns=100 --seen=0.2 --particles=30 --repeats=9]
python -m benchmarks.picks --ratings --rows=100 --columns=1000 --repeats=3

ids is timed with each gain and scope. All policies have seen the same data, and one fit of the
model serves all that use it. `pick` is choosing an entry and absorbing its value; `batch` adds what
begins a batch once the model is fitted, which for ids is drawing the ensemble. Both are seconds a
pick. `--ratings` takes model and settings of configs/jester.py, on synthetic values. With more
`--refits` a run is shorter, but what begins a batch is then shared by fewer picks than in the
experiment: compare `batch` at 40.
"""

from collections.abc import Callable, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
from absl import app, flags
from ml_collections import ConfigDict
from tqdm import tqdm

from benchmarks import timing
from configs import jester, synthetic
from launch import experiment, settings
from smc_jax.policies.ids import GAINS, SCOPES
from smc_jax.policies.live import LiveState

ROWS = flags.DEFINE_integer("rows", 50, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 100, "N.", lower_bound=1)
RATINGS = flags.DEFINE_bool("ratings", False, "The model and the settings for ratings.")
SEEN = flags.DEFINE_float("seen", 0.2, "Size of the initial design, as a fraction of all entries.")
PARTICLES = flags.DEFINE_integer("particles", 30, "Of the particle filter.", lower_bound=1)
REFITS = flags.DEFINE_integer("refits", 40, "Batches of the horizon.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Of the fit that all share.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 9, "Timings of each program.", lower_bound=1)
OTHERS = ("empirical", "optspace", "particle", "icf", "greedy", "random")
FITTED = ("thompson", "ids", "greedy")  # those that use the model


def make_config(
    rows: int, columns: int, *, ratings: bool, seen: float, refits: int, steps: int
) -> ConfigDict:
    """The synthetic experiment of that size, with its own model or that for ratings."""
    config = synthetic.get_config()
    if ratings:
        drawn = {name: config[name] for name in ("true_rank", "loadings", "noise_variance")}
        config = jester.get_config()
        config.update(data="synthetic", **drawn)
    config.rows, config.columns, config.refits = rows, columns, refits
    config.rank = min(config.rank, rows, columns)
    config.initial_fraction = seen * rows * columns / settings.horizon(config)
    config.inference.first_steps = steps
    return config


def fit_model(config: ConfigDict, seed: int = 0) -> Any:
    """The belief after the initial design of a seed."""
    loop = experiment.build(config, "thompson")
    carry, _ = jax.jit(loop.start)(jnp.uint32(seed))
    return jax.jit(loop.refit)(carry, jax.random.key(seed)).policy


def programs(
    config: ConfigDict, name: str, belief: Any
) -> tuple[int, dict[str, Callable[[], Any]]]:
    """How many picks a batch has, and its `pick` and `batch` as functions without arguments."""
    config = config.copy_and_resolve_references()
    if name in FITTED:  # the fit is there: a refit makes no step
        config.inference.first_steps = config.inference.steps = 0
    loop = experiment.build(config, name)
    key = jax.random.key(0)
    carry, _ = jax.jit(loop.start)(jnp.uint32(0))
    if name in FITTED:
        state = carry.policy
        known = state._replace(belief=belief) if isinstance(state, LiveState) else belief
        carry = carry._replace(policy=known)
    begun = jax.jit(loop.refit)(carry, key)
    pick = jax.jit(lambda carry: loop.picks(carry, key)[1])
    batch = jax.jit(lambda carry: loop.advance(carry, 1)[2])
    made: dict[str, Callable[[], Any]] = {"pick": lambda: pick(begun)}
    if name in ("thompson", "ids"):
        made["batch"] = lambda: batch(carry)
    return loop.batch, made


def variants(config: ConfigDict) -> dict[str, tuple[str, ConfigDict]]:
    """Title, policy and config of all that is timed."""
    made = {"thompson": ("thompson", config)}
    for gain in GAINS:
        for scope in SCOPES:
            own = config.copy_and_resolve_references()
            own.ids.gain, own.ids.scope = gain, scope
            made[f"ids {gain} {scope}"] = ("ids", own)
    return made | {name: (name, config) for name in OTHERS}


def main(arguments: Sequence[str]) -> None:
    """Times all programs in turn, repeatedly, and prints medians and ratios."""
    del arguments
    config = make_config(
        ROWS.value,
        COLUMNS.value,
        ratings=RATINGS.value,
        seen=SEEN.value,
        refits=REFITS.value,
        steps=STEPS.value,
    )
    config.particle.particles = PARTICLES.value
    belief = fit_model(config)
    kinds: dict[str, dict[str, Callable[[], Any]]] = {"pick": {}, "batch": {}}
    for title, (name, own) in tqdm(variants(config).items(), desc="compiling", leave=False):
        picks, made = programs(own, name, belief)
        for kind, program in made.items():
            kinds[kind][title] = program
    # One run of all: a ratio is of programs that were timed in turn.
    everything = {(kind, title): p for kind, made in kinds.items() for title, p in made.items()}
    timings = timing.interleaved(everything, repeats=REPEATS.value)
    model = "ratings" if RATINGS.value else "synthetic"
    figures: dict[str, Any] = {"rows": ROWS.value, "columns": COLUMNS.value, "model": model}
    figures |= {"seen": SEEN.value, "picks": picks}
    for kind, made in kinds.items():
        each = {title: timings[kind, title].each(picks) for title in made}
        title = f"{kind}, {ROWS.value} x {COLUMNS.value}, {model} model, {SEEN.value:.0%} seen"
        print(timing.table(f"{title}, {picks} picks a batch", each, peer="thompson", unit=1e-6))
        figures[kind] = {title: one._asdict() for title, one in each.items()}
    size = f"{ROWS.value}x{COLUMNS.value}"
    print(timing.closing(timing.keep(f"picks_{model}_{size}", figures)))


if __name__ == "__main__":
    app.run(main)
