"""Thompson Sampling (Alg. 2): the best entry of one draw of the whole matrix."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs import Belief
from smc_jax.environment import Problem
from smc_jax.gaussian import gain, latent_posterior, sample_matrices, sample_matrix
from smc_jax.policies.base import Policy, Setting, best_available, blank
from smc_jax.types import Outcome, Parameters, View


def sampling(belief: Belief, *, entry_noise: bool) -> Policy:
    """Each pick takes fresh parameters and a fresh matrix given everything seen so far."""

    def choose(key: Array, state: Any, view: View) -> Array:
        parameter_key, matrix_key = jax.random.split(key)
        parameters = belief.draw(parameter_key, state)
        matrix = sample_matrix(matrix_key, parameters, view.observations, entry_noise=entry_noise)
        return best_available(view.discount * matrix, view.available)

    return Policy(
        init=lambda key, view, problem: belief.init(key, view.observations, problem),
        refit=lambda key, state, view: belief.refit(key, state, view.observations),
        choose=choose,
        absorb=lambda key, state, view, outcome: state,
        diagnose=belief.diagnose,
    )


class PointState(NamedTuple):
    """Parameters that stay until the refit, and draws of the matrix given all that was seen."""

    belief: Any
    parameters: Parameters
    covariance: Array  # [N, K, K]  C_n
    matrices: Array  # [N, S, D]
    used: Array  # [] int: how many of them have chosen


def point_sampling(belief: Belief, *, entry_noise: bool, at_once: int = 64) -> Policy:
    """The same for a belief that is one point: a fresh draw of the matrix for each pick.

    S = `at_once` matrices are drawn together, which allows K = D. All are conditioned on each pick,
    so that the next is a draw given everything seen so far; when all have chosen, S more are drawn.
    """

    def draw(key: Array, state: PointState, view: View) -> PointState:
        matrices = sample_matrices(
            key,
            state.parameters,
            view.observations,
            state.covariance,
            draws=at_once,
            entry_noise=entry_noise,
        )
        return state._replace(matrices=matrices, used=jnp.zeros((), int))

    def gather(key: Array, belief_state: Any, view: View) -> PointState:
        parameter_key, draw_key = jax.random.split(key)
        parameters = belief.draw(parameter_key, belief_state)
        covariance = latent_posterior(parameters, view.observations).covariance
        none = jnp.zeros(())
        return draw(draw_key, PointState(belief_state, parameters, covariance, none, none), view)

    def init(key: Array, view: View, problem: Problem) -> PointState:
        belief_state = belief.init(key, view.observations, problem)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, view)._replace(belief=belief_state)

    def refit(key: Array, state: PointState, view: View) -> PointState:
        fit_key, draw_key = jax.random.split(key)
        return gather(draw_key, belief.refit(fit_key, state.belief, view.observations), view)

    def choose(key: Array, state: PointState, view: View) -> Array:
        del key
        matrix = lax.dynamic_index_in_dim(state.matrices, state.used, 1, keepdims=False).T
        return best_available(view.discount * matrix, view.available)

    def absorb(key: Array, state: PointState, view: View, outcome: Outcome) -> PointState:
        noise_key, draw_key = jax.random.split(key)
        row, n, parameters = outcome.row, outcome.column, state.parameters
        w, loading, sigma = parameters.loadings, parameters.loadings[row], parameters.noise_at(n)
        covariance = lax.dynamic_index_in_dim(state.covariance, n, 0, keepdims=False)
        reach = covariance @ loading
        covariance = covariance - jnp.outer(gain(reach, loading, sigma**2, outcome.weight), reach)
        # The same gain for the entries: cov(entries of the column, what is shown) / var(shown).
        shared, shown = w @ reach, jnp.full(at_once, outcome.value)
        if entry_noise:  # entries that were seen are known
            seen = lax.dynamic_index_in_dim(view.observations.count, n, 1, keepdims=False) > 0
            shared = jnp.where(seen, 0.0, shared).at[row].set(loading @ reach + sigma**2)
        else:
            shown = shown - sigma * jax.random.normal(noise_key, (at_once,))
        moved = outcome.weight * shared / (loading @ reach + sigma**2)
        drawn = lax.dynamic_index_in_dim(state.matrices, n, 0, keepdims=False)
        foreseen = lax.dynamic_index_in_dim(drawn, row, 1, keepdims=False)
        drawn = drawn + jnp.outer(shown - foreseen, moved)
        state = state._replace(
            covariance=lax.dynamic_update_index_in_dim(state.covariance, covariance, n, 0),
            matrices=lax.dynamic_update_index_in_dim(state.matrices, drawn, n, 0),
            used=state.used + 1,
        )
        # A loop of one round at most, not a branch, which would copy all matrices at every pick.
        return lax.while_loop(
            lambda state: state.used == at_once, lambda state: draw(draw_key, state, view), state
        )

    return Policy(init, refit, choose, absorb, lambda state: belief.diagnose(state.belief))


def thompson(setting: Setting, *, noisy: bool = True) -> Policy:
    """Thompson Sampling under the fitted model.

    Args:
      setting: of the experiment.
      noisy: whether draws of an entry have the noise that is part of it, as in the paper, or only
        what can be learned. Of many entries the largest noise is large, and says nothing.
    """
    return sampling(setting.belief, entry_noise=setting.entry_noise and noisy)
