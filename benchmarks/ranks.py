"""How many factors a fit finds: synthetic matrices of known rank, shown in part.

python -m benchmarks.ranks [--seeds=2 --rows=50 --columns=100,1000 --seen=0.2,0.5,0.99]

Of each fit by chains three counts are printed, means over the seeds: columns of W above 5 % of the
largest (the effective rank), directions of W W' above the noise variance in a draw, and directions
of the posterior mean of W W' above it. No rotation of W changes the last two. Loadings of which
little is known are small, many and different in every draw: together they make directions in each
draw, and none in the mean.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from absl import app, flags
from jax import Array
from tqdm import tqdm

import launch  # noqa: F401  sets up the machine
from smc_jax import presets
from smc_jax.beliefs.base import Belief, parameter_draws
from smc_jax.data.synthetic import synthetic
from smc_jax.model.rank import ranks_of_draws
from smc_jax.observations import Observations
from smc_jax.simulation.environment import seed_keys
from smc_jax.simulation.problem import MakeProblem

FIRST = flags.DEFINE_integer("first", 0, "The first seed.")
SEEDS = flags.DEFINE_integer("seeds", 2, "How many matrices of each kind.")
ROWS = flags.DEFINE_integer("rows", 50, "D.")
COLUMNS = flags.DEFINE_list("columns", ["100", "1000"], "Numbers of columns, N.")
SEEN = flags.DEFINE_list("seen", ["0.2", "0.5", "0.99"], "Parts of the entries that are seen.")
RANKS = flags.DEFINE_list("ranks", ["1", "5", "10", "15", "20"], "True ranks, K*.")
BOUND = 20  # K
DRAWS = 48


class Found(NamedTuple):
    """What a fit says of the rank."""

    columns: Array
    directions: Array  # mean over the draws
    covariance: Array  # [D, D]  the posterior mean of W W'
    noise_variance: Array


def directions(found: Found) -> int:
    """Directions of the posterior mean of W W' in which it exceeds the noise."""
    values = np.linalg.eigvalsh(np.asarray(found.covariance, np.float64))
    return int((values > float(found.noise_variance)).sum())


def fit(make_problem: MakeProblem, belief: Belief, seen: float) -> Callable[[Array], Found]:
    """From the number of a seed to what one fit finds."""

    def one(seed: Array) -> Found:
        keys = seed_keys(seed)
        entries = make_problem(keys.problem, seed).entries
        data = Observations.from_matrix(
            entries, jax.random.bernoulli(keys.design, seen, entries.shape)
        )
        state = belief.refit(keys.policy, belief.init(keys.noise, data), data)
        draws = parameter_draws(keys.init, belief, state, DRAWS)
        counts = ranks_of_draws(draws)
        covariance = (draws.loadings @ draws.loadings.swapaxes(1, 2)).mean(0)
        return Found(counts.effective, counts.signal, covariance, (draws.sigma**2).mean())

    return one


def main(arguments: Sequence[str]) -> None:
    """Prints a line for each kind of matrix as soon as it is known."""
    del arguments
    belief = presets.paper(rank=BOUND).belief()
    kinds = list(itertools.product(COLUMNS.value, SEEN.value, RANKS.value))
    print(f"{'columns':>8}{'seen':>7}{'K*':>4}{'W columns':>12}{'directions':>12}{'of mean':>9}")
    for columns, seen, rank in tqdm(kinds, unit="kind"):
        problem = synthetic(rows=ROWS.value, columns=int(columns), true_rank=int(rank))
        program = jax.jit(fit(problem, belief, float(seen)))
        seeds = range(FIRST.value, FIRST.value + SEEDS.value)
        found = [program(np.uint32(seed)) for seed in seeds]
        values = (
            np.mean([one.columns for one in found]),
            np.mean([one.directions for one in found]),
            np.mean([directions(one) for one in found]),
        )
        tqdm.write(
            f"{columns:>8}{seen:>7g}{rank:>4}" + "{:>12.1f}{:>12.1f}{:>9.1f}".format(*values)
        )


if __name__ == "__main__":
    app.run(main)
