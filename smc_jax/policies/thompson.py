"""Thompson Sampling (Alg. 2): the best entry of one draw of the whole matrix."""

from typing import Any

import jax
from jax import Array

from smc_jax import beliefs
from smc_jax.gaussian import sample_matrix
from smc_jax.policies.base import Policy, Setting, best_available
from smc_jax.types import View


def sampling(belief: beliefs.Belief, *, entry_noise: bool) -> Policy:
    """Each pick takes fresh parameters and a fresh matrix given everything seen so far."""

    def choose(key: Array, state: Any, view: View) -> Array:
        parameter_key, matrix_key = jax.random.split(key)
        parameters = belief.draw(parameter_key, state)
        matrix = sample_matrix(matrix_key, parameters, view.observations, entry_noise=entry_noise)
        return best_available(view.discount * matrix, view.available)

    return Policy(
        init=lambda key, view, truth: belief.init(key, view.observations, truth),
        refit=lambda key, state, view: belief.refit(key, state, view.observations),
        choose=choose,
        absorb=lambda key, state, view, outcome: state,
        diagnose=belief.diagnose,
    )


def thompson(setting: Setting) -> Policy:
    """Thompson Sampling under the fitted model."""
    return sampling(setting.belief, entry_noise=setting.entry_noise)
