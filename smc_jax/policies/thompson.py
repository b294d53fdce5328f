"""Thompson Sampling (Alg. 2): the best entry of one draw of the whole matrix."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs import Belief
from smc_jax.environment import Problem
from smc_jax.gaussian import gain, latent_posterior, matrix_of, sample_latents, sample_matrix
from smc_jax.policies.base import Policy, Setting, best_available, blank
from smc_jax.types import Outcome, Parameters, View

SAMPLES_AT_ONCE = 32  # of `point_sampling`: enough to make a product of matrices of each column's


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
    """Parameters that stay until the refit, and the columns given all that was seen."""

    belief: Any
    parameters: Parameters
    covariance: Array  # [N, K, K]  C_n
    samples: Array  # [S, N, K]  draws of x_n, of which each pick takes the next
    used: Array  # [] int: picks since the refit


def point_sampling(belief: Belief, *, entry_noise: bool, samples: int = 128) -> Policy:
    """The same for a belief that is one point.

    S draws of the columns are made at once at the refit. All of them are conditioned on each pick,
    so that each stays a draw given all that was seen; picks take them in turn, with fresh noise:
    a pick costs O(K (D N + S)), which allows K = D.
    """

    def gather(key: Array, belief_state: Any, view: View) -> PointState:
        draw_key, sample_key = jax.random.split(key)
        parameters = belief.draw(draw_key, belief_state)
        columns = latent_posterior(parameters, view.observations)

        def sample(key: Array) -> Array:
            return sample_latents(key, parameters, view.observations, columns)

        drawn = lax.map(sample, jax.random.split(sample_key, samples), batch_size=SAMPLES_AT_ONCE)
        none = jnp.zeros((), int)
        return PointState(belief_state, parameters, columns.covariance, drawn, none)

    def init(key: Array, view: View, problem: Problem) -> PointState:
        belief_state = belief.init(key, view.observations, problem)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, view)._replace(belief=belief_state)

    def refit(key: Array, state: PointState, view: View) -> PointState:
        fit_key, draw_key = jax.random.split(key)
        return gather(draw_key, belief.refit(fit_key, state.belief, view.observations), view)

    def choose(key: Array, state: PointState, view: View) -> Array:
        latents = lax.dynamic_index_in_dim(state.samples, state.used % samples, 0, keepdims=False)
        matrix = matrix_of(
            key, state.parameters, view.observations, latents, entry_noise=entry_noise
        )
        return best_available(view.discount * matrix, view.available)

    def condition(key: Array, state: PointState, view: View, outcome: Outcome) -> PointState:
        n, parameters = outcome.column, state.parameters
        loading, sigma = parameters.loadings[outcome.row], parameters.noise_at(n)
        covariance = lax.dynamic_index_in_dim(state.covariance, n, 0, keepdims=False)
        drawn = lax.dynamic_index_in_dim(state.samples, n, 1, keepdims=False)
        reach = covariance @ loading
        moved = gain(reach, loading, sigma**2, outcome.weight)
        noise = sigma * jax.random.normal(key, (samples,))
        shown = outcome.value - parameters.intercepts[outcome.row] - noise
        covariance = covariance - jnp.outer(moved, reach)
        drawn = drawn + jnp.outer(shown - drawn @ loading, moved)
        return state._replace(
            covariance=lax.dynamic_update_index_in_dim(state.covariance, covariance, n, 0),
            samples=lax.dynamic_update_index_in_dim(state.samples, drawn, n, 1),
            used=state.used + 1,
        )

    return Policy(init, refit, choose, condition, lambda state: belief.diagnose(state.belief))


def thompson(setting: Setting) -> Policy:
    """Thompson Sampling under the fitted model."""
    return sampling(setting.belief, entry_noise=setting.entry_noise)
