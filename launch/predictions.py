"""One fit to entries seen at random, and its predictions of the others."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from launch import data, experiment
from smc_jax import beliefs, gaussian
from smc_jax.loop import seed_keys
from smc_jax.types import Observations, Parameters

DRAWS = 64  # of the parameters


def score(
    entries: jax.Array,
    exists: jax.Array,
    hidden: jax.Array,
    means: jax.Array,
    deviations: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Error of the mean prediction of hidden entries, and their mean log density.

    Both in units of the standard deviation of all entries [D, N] that exist. Each of S draws
    predicts normals with means and deviations [S, D, N]; the density is that of their mixture.
    """
    unit = jnp.std(entries, where=exists)
    error = jnp.sqrt(jnp.mean((means.mean(0) - entries) ** 2, where=hidden)) / unit
    each = jax.scipy.stats.norm.logpdf(entries, means, deviations)
    density = jax.nn.logsumexp(each, axis=0) - jnp.log(len(means)) + jnp.log(unit)
    return error, jnp.mean(density, where=hidden)


class Single(NamedTuple):
    """Figures of one fit."""

    elbo: jax.Array | np.ndarray
    error: jax.Array | np.ndarray  # see `score`
    density: jax.Array | np.ndarray
    effective_rank: jax.Array | np.ndarray


def single_fit(config: ConfigDict, seen: float) -> Callable[[jax.Array], Single]:
    """A function from a seed to the figures of one fit to entries seen at random."""
    belief = experiment.make_belief(config)
    make_problem = data.make_data(config)

    def fit(seed: jax.Array) -> Single:
        data_key, *rest = seed_keys(seed)
        mask_key, start_key, fit_key, draw_key = rest
        problem = make_problem(data_key, seed)
        mask = problem.available & jax.random.bernoulli(mask_key, seen, problem.entries.shape)
        observations = Observations.from_matrix(problem.entries, mask)
        state = belief.init(start_key, observations, problem)
        state = belief.refit(fit_key, state, observations)

        def predict(parameters: Parameters) -> tuple[jax.Array, jax.Array]:
            columns = gaussian.latent_posterior(parameters, observations)
            mean, variance = gaussian.entry_moments(parameters, columns)
            return mean, jnp.sqrt(variance + parameters.noise() ** 2)

        predicted = jax.lax.map(predict, beliefs.draws(draw_key, belief, state, DRAWS))
        hidden = problem.available & ~mask
        figures = score(problem.entries, problem.available, hidden, *predicted)
        found = belief.diagnose(state)
        return Single(found.elbo, *figures, found.effective_rank)

    return fit
