"""Time of one pick of every policy against one of thompson, in the same run.

python -m benchmarks.picks [--rows=50 --columns=100 --seen=0.2 --particles=30 --repeats=9]
python -m benchmarks.picks --ratings --rows=100 --columns=1000 --repeats=3

ids is timed with each gain and scope. `thompson` draws parameters and matrix anew for every pick,
`thompson pool` has 16 draws that are conditioned on every pick. All policies have seen the same
data, and one fit of the model serves all that use it. `pick` is choosing an entry and absorbing its
value; `batch` adds what begins a batch once the model is fitted, which for ids and the pool is
drawing the ensemble. Both are seconds a pick. `--ratings` takes model and settings for ratings, on
synthetic values. With more `--refits` a run is shorter, but what begins a batch is then shared by
fewer picks than in the experiment: compare `batch` at 40.
"""

from collections.abc import Callable, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
from absl import app, flags
from tqdm import tqdm

from benchmarks import timing
from benchmarks.experiment import Experiment, make_experiment
from smc_jax.policies.ensemble_policy import EnsembleState
from smc_jax.policies.ids import GAINS, SCOPES

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
BATCHES = ("thompson", "ids")  # those whose batch is timed
POOL = 16

Variant = tuple[str, dict[str, Any]]  # a policy and its settings


def variants(particles: int) -> dict[str, Variant]:
    """Title, policy and settings of all that is timed."""
    made: dict[str, Variant] = {
        "thompson": ("thompson", {"pool": 0}),
        "thompson pool": ("thompson", {"pool": POOL}),
    }
    for gain in GAINS:
        for scope in SCOPES:
            made[f"ids {gain} {scope}"] = ("ids", {"gain": gain, "scope": scope})
    others: dict[str, Variant] = {name: (name, {}) for name in OTHERS}
    return made | others | {"particle": ("particle", {"particles": particles})}


def fit_model(experiment: Experiment, seed: int = 0) -> Any:
    """The state of the belief after the initial design of a seed."""
    loop = experiment.loop(experiment.policy("thompson", pool=0))
    carry, _ = jax.jit(loop.start)(jnp.uint32(seed))
    return jax.jit(loop.refit)(carry, jax.random.key(seed)).policy


def programs(
    experiment: Experiment, variant: Variant, belief: Any
) -> tuple[int, dict[str, Callable[[], Any]]]:
    """How many picks a batch has, and its `pick` and `batch` as functions without arguments."""
    name, settings = variant
    if name in FITTED:
        experiment = experiment.already_fitted()
    loop = experiment.loop(experiment.policy(name, **settings))
    key = jax.random.key(0)
    carry, _ = jax.jit(loop.start)(jnp.uint32(0))
    if name in FITTED:
        state = carry.policy
        fitted = state._replace(belief=belief) if isinstance(state, EnsembleState) else belief
        carry = carry._replace(policy=fitted)
    begun = jax.jit(loop.refit)(carry, key)
    pick = jax.jit(lambda carry: loop.picks(carry, key)[1])
    batch = jax.jit(lambda carry: loop.advance(carry, 1)[2])
    made: dict[str, Callable[[], Any]] = {"pick": lambda: pick(begun)}
    if name in BATCHES:
        made["batch"] = lambda: batch(carry)
    return loop.batch, made


def main(arguments: Sequence[str]) -> None:
    """Times all programs in turn, repeatedly, and prints medians and ratios."""
    del arguments
    rows, columns = ROWS.value, COLUMNS.value
    experiment = make_experiment(
        rows,
        columns,
        ratings=RATINGS.value,
        seen=SEEN.value,
        refits=REFITS.value,
        first_steps=STEPS.value,
    )
    belief = fit_model(experiment)
    kinds: dict[str, dict[str, Callable[[], Any]]] = {"pick": {}, "batch": {}}
    for title, one in tqdm(variants(PARTICLES.value).items(), desc="compiling", leave=False):
        picks, made = programs(experiment, one, belief)
        for kind, program in made.items():
            kinds[kind][title] = program
    # One run of all: a ratio is of programs that were timed in turn.
    everything = {(kind, title): p for kind, made in kinds.items() for title, p in made.items()}
    timings = timing.interleaved(everything, repeats=REPEATS.value)
    model = "ratings" if RATINGS.value else "synthetic"
    figures: dict[str, Any] = {"rows": rows, "columns": columns, "model": model}
    figures |= {"seen": SEEN.value, "picks": picks}
    for kind, made in kinds.items():
        each = {title: timings[kind, title].each(picks) for title in made}
        title = f"{kind}, {rows} x {columns}, {model} model, {SEEN.value:.0%} seen"
        print(timing.table(f"{title}, {picks} picks a batch", each, peer="thompson", unit=1e-6))
        figures[kind] = {title: one._asdict() for title, one in each.items()}
    print(timing.closing(timing.keep(f"picks_{model}_{rows}x{columns}", figures)))


if __name__ == "__main__":
    app.run(main)
