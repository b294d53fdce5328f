"""Histogram IDS as it prunes, against brute force: the same choices, and how much sooner.

python -m benchmarks.histograms [--rows=100 --columns=1000 --seeds=2 --picks=3 --apart=10]

The states are those of the policy itself: a belief fitted to an initial design, and `apart` picks
between two comparisons. Brute force makes the histogram of every entry. In every state both
must choose the same entry, and the policy too, or the run ends with an error. Printed are the
share of entries whose histogram was made, the times of one choice, and those of one histogram: what
the two programs differ in there is not a merit of pruning.
"""

from collections.abc import Sequence
from typing import NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from jax import Array

from benchmarks import timing
from benchmarks.experiment import make_experiment
from smc_jax.algebra.extremes import argmax
from smc_jax.policies import information
from smc_jax.policies.base import Policy
from smc_jax.policies.ensemble_policy import EnsembleState
from smc_jax.policies.ids import SCOPES
from smc_jax.simulation.environment import Environment
from smc_jax.simulation.loop import make_loop
from smc_jax.types import Offer

ROWS = flags.DEFINE_integer("rows", 100, "D.", lower_bound=2)
COLUMNS = flags.DEFINE_integer("columns", 1000, "N.", lower_bound=2)
SEEDS = flags.DEFINE_integer("seeds", 2, "Matrices.", lower_bound=1)
PICKS = flags.DEFINE_integer("picks", 3, "Comparisons in each.", lower_bound=1)
APART = flags.DEFINE_integer("apart", 10, "Picks between two of them.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Of the fit.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 5, "Timings of each program.", lower_bound=1)
BINS = 32


class Instance(NamedTuple):
    """What one choice is made from."""

    regret: Array  # [A]
    bound: Array  # [A]  at least the gain
    available: Array  # [A]
    means: Array  # [S, A]  of an outcome, given theta
    scales: Array  # [S, A]
    best: Array  # [S]  each draw's best entry


def instance(state: EnsembleState, offer: Offer) -> Instance:
    """The choice that a state of histogram IDS is before."""
    scores, optimum = state.summary, state.shared
    reward = offer.factor * scores.mean
    attainable = jnp.where(offer.open, reward, -jnp.inf).max()
    mean, variance = scores.given_theta.mean, scores.given_theta.variance
    best = jax.vmap(argmax)(jnp.where(offer.open, offer.factor * mean, -jnp.inf))
    bound = jnp.minimum(scores.gain, information.entropy_of_best(best))
    draws = len(mean)
    return Instance(
        (jnp.maximum(optimum, attainable) - reward).ravel(),
        jnp.where(offer.factor > 0, bound, 0.0).ravel(),
        offer.open.ravel(),
        mean.reshape(draws, -1),
        jnp.sqrt(variance).reshape(draws, -1),
        best,
    )


@jax.jit
def brute_force(case: Instance) -> Array:
    """The choice from the histograms of all entries."""
    gain = information.histogram_gain(case.means, case.scales, case.best, bins=BINS)
    gain = jnp.where(case.bound > 0, gain, 0.0)
    return information.deterministic_choice(case.regret, gain, case.available)


@jax.jit
def pruned(case: Instance) -> information.Pruned:
    """The choice from as few as possible."""

    def gains(index: Array) -> Array:
        means, scales = case.means[:, index], case.scales[:, index]
        return information.histogram_gain(means, scales, case.best, bins=BINS)

    return information.pruned_choice(case.regret, case.bound, case.available, gains)


def states(
    policy: Policy, environment: Environment, seeds: Sequence[int], *, picks: int, apart: int
) -> list[tuple[Instance, int]]:
    """What the policy stands before after each of `picks` batches a seed, and what it chooses.

    A batch is `apart` picks, and the choice the number of an entry, counted row by row.
    """
    loop = make_loop(environment, policy, horizon=picks * apart, refits=picks)
    start, refit, pick = jax.jit(loop.start), jax.jit(loop.refit), jax.jit(loop.picks)
    choose, make = jax.jit(policy.choose), jax.jit(instance)
    found = []
    for seed in seeds:
        carry, _ = start(jnp.uint32(seed))
        carry = refit(carry, jax.random.key(seed))
        for key in jax.random.split(jax.random.key(seed), picks):
            carry, _ = pick(carry, key)
            offer = environment.offer(carry.offer_key, carry.world)
            choice = choose(key, carry.policy, carry.world.data, offer)
            number = int(choice.row) * offer.open.shape[1] + int(choice.column)
            found.append((make(carry.policy, offer), number))
    return found


def shares(found: Sequence[tuple[Instance, int]]) -> list[float]:
    """The share of available entries that was evaluated in each state.

    Raises AssertionError where pruning, brute force and the policy do not choose the same.
    """
    evaluated = []
    for case, chosen in found:
        choices = (chosen, int(pruned(case).choice), int(brute_force(case)))
        assert len(set(choices)) == 1, f"policy, pruned and brute force chose {choices}"
        evaluated.append(float(pruned(case).evaluated / case.available.sum()))
    return evaluated


def contested(case: Instance) -> bool:
    """Whether every available entry is at a loss: one that is not is chosen whatever it teaches."""
    return bool(jnp.where(case.available, case.regret, jnp.inf).min() > 0.0)


def main(arguments: Sequence[str]) -> None:
    """Both scopes."""
    del arguments
    experiment = make_experiment(ROWS.value, COLUMNS.value, first_steps=STEPS.value)
    environment = experiment.environment()
    size, figures = f"{ROWS.value} x {COLUMNS.value}", {}
    for scope in SCOPES:
        policy = experiment.policy("ids", scope=scope, gain="histogram", bins=BINS)
        found = states(
            policy, environment, range(SEEDS.value), picks=PICKS.value, apart=APART.value
        )
        share = shares(found)
        case = found[-1][0]
        programs = {"pruned": lambda: pruned(case), "brute force": lambda: brute_force(case)}
        timings = timing.interleaved(programs, repeats=REPEATS.value)
        print(timing.table(f"one choice, {scope}, {size}", timings, peer="brute force"))
        least, middle, most = np.percentile(share, [0, 50, 100])
        print(
            f"  identical choices in {len(found)} of {len(found)} states, of which"
            f" {sum(contested(case) for case, _ in found)} have no entry without regret;"
            f" histograms of {middle:.2%} of the entries ({least:.2%}-{most:.2%})"
        )
        made = {"pruned": int(pruned(case).evaluated), "brute force": case.regret.size}
        busy = {name: 1e6 * (timings[name].processor or 0.0) / made[name] for name in made}
        told = ", ".join(f"{name} {each:.1f}" for name, each in busy.items())
        print(f"  microseconds of the processor a histogram, the choice included: {told}")
        seconds = {name: each._asdict() for name, each in timings.items()}
        figures[scope] = {"seconds": seconds, "shares": share, "us_a_histogram": busy}
    print(timing.closing(timing.keep("histograms", {"size": size, **figures})))


if __name__ == "__main__":
    app.run(main)
