"""Variance-based IDS here and in the bayesianbandits package, on the same draws in the same run.

python -m benchmarks.variance_ids [--arms=1000 --draws=1000 --repeats=15]

A choice from joint draws of the arms' rewards, which are in memory: expected regrets, the
variances of E[reward | best arm], and the mixture of two arms of least information ratio. Ours is
in float32, the package's in float64. The arms are those of a linear bandit. That both solve the
same problem is told by the least ratio that each finds.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from jax import Array

from benchmarks import peers, timing
from smc_jax.policies import information

ARMS = flags.DEFINE_integer("arms", 1000, "A.", lower_bound=2)
DRAWS = flags.DEFINE_integer("draws", 1000, "S.", lower_bound=1)
FEATURES = flags.DEFINE_integer("features", 20, "Of an arm.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 15, "Timings of each program.", lower_bound=1)
BANDITS = peers.Peer(
    "bayesianbandits",
    "from bayesianbandits import InformationDirectedSampling",
    packages=("bayesianbandits==1.5.0",),
)
PROGRAM = """
from bayesianbandits import InformationDirectedSampling
from bayesianbandits.policies import _information_directed_sampling as inside
samples = np.ascontiguousarray(inputs["means"].T[:, None, :], dtype=np.float64)
policy = InformationDirectedSampling(samples=samples.shape[-1])
arms, rng = list(range(len(samples))), np.random.default_rng(0)
alive = np.ones(samples.shape[:2], bool)
least = inside._optimal_two_point(*inside._vids_statistics(samples, alive), alive)[-1]

def once():
    return {"choice": policy.select(samples, arms, rng), "least": least}
"""


def draw(arms: int, draws: int, features: int) -> np.ndarray:
    """Mean rewards [S, A] of a linear bandit under draws of its parameters."""
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=(draws, features))
    means = parameters @ rng.normal(size=(features, arms)) / np.sqrt(features)
    return means.astype(np.float32)


def regret_and_gain(means: Array) -> tuple[Array, Array]:
    """Of each arm [A]."""
    regret = means.max(1).mean() - means.mean(0)
    return regret, information.variance_gain(means, means.argmax(1))


@jax.jit
def choose(key: Array, means: Array) -> Array:
    """The arm [] that IDS plays."""
    regret, gain = regret_and_gain(means)
    return information.two_action_choice(key, regret, gain, jnp.ones_like(regret, bool))


@jax.jit
def least_ratio(means: Array) -> Array:
    """The ratio [] of the mixture that it is drawn from."""
    regret, gain = regret_and_gain(means)
    i, j, q = information.two_action_mixture(regret, gain, jnp.ones_like(regret, bool))
    mixed_regret, mixed_gain = ((1 - q) * x[i] + q * x[j] for x in (regret, gain))
    return information.information_ratio(mixed_regret, mixed_gain)


def main(arguments: Sequence[str]) -> None:
    """Times both in turn, and prints medians, the ratio, and what each found."""
    del arguments
    means = draw(ARMS.value, DRAWS.value, FEATURES.value)
    ours, key = jnp.asarray(means), jax.random.key(0)
    programs: dict[str, Callable[[], Any]] = {"ours": lambda: choose(key, ours)}
    least = {"ours": float(least_ratio(ours))}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(
                peers.Running(BANDITS, PROGRAM, {"means": means}, threads=cores or 1)
            )
            running()
            least["bayesianbandits"] = float(running.found["least"][0])
            programs["bayesianbandits"] = running
        except peers.PeerError as error:
            print(f"{error}; ours alone:")
        timings = timing.interleaved(programs, repeats=REPEATS.value)
    best = len(np.unique(means.argmax(1)))
    title = f"one choice, {ARMS.value} arms, {DRAWS.value} draws, {best} arms best in a draw"
    print(timing.table(title, timings, peer=list(programs)[-1]))
    print("  least ratio: " + ", ".join(f"{name} {value:.6g}" for name, value in least.items()))
    seconds = {name: each._asdict() for name, each in timings.items()}
    figures = {"arms": ARMS.value, "draws": DRAWS.value, "seconds": seconds, "least": least}
    print(timing.closing(timing.keep("variance_ids", figures)))


if __name__ == "__main__":
    app.run(main)
