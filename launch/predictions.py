"""One fit to entries seen at random, and its predictions of the others."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from launch import data, experiment
from smc_jax import beliefs, gaussian
from smc_jax.types import Observations, Parameters

DRAWS = 64  # of the parameters


def single_fit(config: ConfigDict, seen: float) -> Callable[[jax.Array], jax.Array]:
    """A function from a seed to error, log density and effective rank of one fit."""
    belief = experiment.make_belief(config)
    make_problem = data.make_data(config)

    def fit(seed: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(seed), 5)
        data_key, mask_key, start_key, fit_key, draw_key = keys
        problem = make_problem(data_key, seed)
        mask = problem.available & jax.random.bernoulli(mask_key, seen, problem.entries.shape)
        hidden = problem.available & ~mask
        observations = Observations.from_matrix(problem.entries, mask)
        state = belief.init(start_key, observations, problem)
        state = belief.refit(fit_key, state, observations)

        def predict(parameters: Parameters) -> tuple[jax.Array, jax.Array]:
            columns = gaussian.latent_posterior(parameters, observations)
            mean, variance = gaussian.entry_moments(parameters, columns)
            deviation = jnp.sqrt(variance + parameters.noise() ** 2)
            return mean, jax.scipy.stats.norm.logpdf(problem.entries, mean, deviation)

        draws = beliefs.draws(draw_key, belief, state, DRAWS)
        mean, log_density = jax.lax.map(predict, draws)
        log_density = jax.nn.logsumexp(log_density, axis=0) - jnp.log(DRAWS)
        unit = jnp.std(problem.entries, where=problem.available)
        error = jnp.sqrt(jnp.mean((mean.mean(0) - problem.entries) ** 2, where=hidden)) / unit
        density = jnp.mean(log_density, where=hidden) + jnp.log(unit)
        return jnp.stack([error, density, belief.diagnose(state).effective_rank])

    return fit
