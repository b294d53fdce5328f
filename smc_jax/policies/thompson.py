"""Thompson Sampling (Alg. 2): the best entry of one draw of the whole matrix."""

from typing import Any, NamedTuple

import jax
from jax import Array

from smc_jax.beliefs import Belief
from smc_jax.environment import Problem
from smc_jax.gaussian import Column, Columns, absorb, latent_posterior, sample_matrix
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
    """Parameters that stay until the refit, and the columns given all that was seen."""

    belief: Any
    parameters: Parameters
    columns: Columns


def point_sampling(belief: Belief, *, entry_noise: bool) -> Policy:
    """The same for a belief that is one point: a fresh matrix for each pick.

    The latent posteriors are conditioned on each pick instead of solved anew, so that a pick
    costs O(N K^2), which allows K = D.
    """

    def gather(key: Array, belief_state: Any, view: View) -> PointState:
        parameters = belief.draw(key, belief_state)
        return PointState(belief_state, parameters, latent_posterior(parameters, view.observations))

    def init(key: Array, view: View, problem: Problem) -> PointState:
        belief_state = belief.init(key, view.observations, problem)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, view)._replace(belief=belief_state)

    def refit(key: Array, state: PointState, view: View) -> PointState:
        fit_key, draw_key = jax.random.split(key)
        return gather(draw_key, belief.refit(fit_key, state.belief, view.observations), view)

    def choose(key: Array, state: PointState, view: View) -> Array:
        matrix = sample_matrix(
            key, state.parameters, view.observations, state.columns, entry_noise=entry_noise
        )
        return best_available(view.discount * matrix, view.available)

    def condition(key: Array, state: PointState, view: View, outcome: Outcome) -> PointState:
        mean, covariance = state.columns
        n, parameters = outcome.column, state.parameters
        column = absorb(
            key,
            Column(mean[n], covariance[n], mean[n]),
            parameters.loadings[outcome.row],
            outcome.value - parameters.intercepts[outcome.row],
            parameters.sigma**2,
            outcome.weight,
        )
        columns = Columns(mean.at[n].set(column.mean), covariance.at[n].set(column.covariance))
        return state._replace(columns=columns)

    return Policy(init, refit, choose, condition, lambda state: belief.diagnose(state.belief))


def thompson(setting: Setting) -> Policy:
    """Thompson Sampling under the fitted model."""
    return sampling(setting.belief, entry_noise=setting.entry_noise)
