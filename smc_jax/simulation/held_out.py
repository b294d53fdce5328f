"""One fit to entries seen at random, and how well it predicts the others."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.algebra.batching import mapped
from smc_jax.beliefs.base import Belief, parameter_draws
from smc_jax.checks import at_least, between
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.predictions import score
from smc_jax.simulation.environment import seed_keys
from smc_jax.simulation.problem import MakeProblem


class SingleFit(NamedTuple):
    """Figures of one fit to entries that were seen at random."""

    elbo: Array | np.ndarray
    error: Array  # of the hidden entries; see `score`
    density: Array  # of the hidden entries; see `score`
    effective_rank: Array | np.ndarray
    signal_rank: Array | np.ndarray
    noise_variance: Array  # mean over the draws and over the columns


def single_fit(
    make_problem: MakeProblem, belief: Belief, seen: float, *, draws: int = 64
) -> Callable[[Array], SingleFit]:
    """A function from the number of a seed to the figures of one fit to a part of its matrix.

    Args:
      make_problem: draws the matrix from a key and the number of the seed, as `synthetic(...)` and
        `recorded(...)` make it.
      belief: what is fitted, by its first refit.
      seen: each entry is seen with this probability; the others are hidden.
      draws: how many parameter draws predict the hidden entries.
    """
    between("seen", seen, 0.0, 1.0)
    at_least("draws", draws, 1)

    def fit(seed: Array) -> SingleFit:
        keys = seed_keys(seed)
        problem = make_problem(keys.problem, seed)
        mask = problem.available & jax.random.bernoulli(keys.design, seen, problem.entries.shape)
        data = Observations.from_matrix(problem.entries, mask)
        state = belief.refit(keys.policy, belief.init(keys.noise, data), data)

        def predict_all(parameters: Parameters) -> tuple[Array, Array]:
            columns = gaussian.latent_posterior(parameters, data)
            mean, variance = gaussian.entry_moments(parameters, columns)
            return mean, jnp.sqrt(variance + parameters.noise() ** 2)

        drawn = parameter_draws(keys.init, belief, state, draws)
        means, deviations = mapped(predict_all, drawn, on_cpu=1)
        hidden = problem.available & ~mask
        error, density = score(problem.entries, problem.available, hidden, means, deviations)
        found = belief.diagnose(state)
        noise = jnp.mean(jax.vmap(Parameters.noise)(drawn) ** 2)
        return SingleFit(found.elbo, error, density, found.effective_rank, found.signal_rank, noise)

    return fit
