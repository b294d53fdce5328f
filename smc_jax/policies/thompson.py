"""Thompson Sampling (Alg. 2): the best entry of one draw of the whole matrix.

There are three ways to draw it: anew for every pick, from a pool of draws that are conditioned on
every pick, and, where the belief is one point, many matrices at once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs.base import Belief
from smc_jax.checks import at_least
from smc_jax.model.gaussian import gain, latent_posterior, sample_matrices, sample_matrix
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies.base import Best, Policy, best_open, blank, keys_of, predictor
from smc_jax.policies.ensemble import Ensemble
from smc_jax.policies.ensemble_policy import ColumnView, Rule, ensemble_policy
from smc_jax.policies.rewards import expected_reward
from smc_jax.types import Choice, Offer, Outcome


def fresh_sampling(belief: Belief, *, entry_noise: bool) -> Policy:
    """Each pick takes fresh parameters and a fresh matrix given everything seen so far."""

    def choose(key: Array, state: Any, data: Observations, offer: Offer) -> Choice:
        parameter_key, matrix_key = jax.random.split(key)
        parameters = belief.draw(parameter_key, state)
        if offer.columns is not None:
            parameters = parameters.at_columns(offer.columns)
            data = data.at_columns(offer.columns)
        matrix = sample_matrix(matrix_key, parameters, data, entry_noise=entry_noise)
        answers = None if parameters.answers is None else parameters.answers.answering()
        left = 0.0 if entry_noise else parameters.noise() ** 2
        return best_open(expected_reward(offer, matrix, answers, left), offer)

    return Policy(
        init=lambda key, data, offer, prior=None: belief.init(key, data, prior),
        refit=lambda key, state, data, offer: belief.refit(key, state, data),
        choose=choose,
        absorb=lambda key, state, data, outcome, offer: belief.absorb(key, state, data, outcome),
        diagnose=belief.diagnose,
        predict=predictor(belief),
        learns_answers=belief.learns_answers,
    )


def pooled_sampling(belief: Belief, *, pool: int, entry_noise: bool) -> Policy:
    """Each pick takes one of `pool` draws at random, which are conditioned on every pick.

    A draw is parameters, a sample of all columns and, with `entry_noise`, of the noise of every
    entry. Until the refit a draw that is taken again has the same parameters, and of its sample
    only what was seen meanwhile has changed. Its best entry is kept column by column. Where answers
    depend on values, each column takes its draw by how likely it made who answered.
    """

    def share(key: Array, members: Ensemble, offer: Offer, part: float) -> Array:
        """The key of the noise of every entry."""
        del members, offer, part
        return jax.random.key_data(key)

    def summarise(column: ColumnView) -> Pooled:
        sample = column.prediction.sample
        if entry_noise:
            key = jax.random.fold_in(jax.random.wrap_key_data(column.shared), column.column)
            noisy = sample + column.noise[:, None] * jax.random.normal(key, sample.shape)
            sample = jnp.where(column.data.seen(), column.data.average(), noisy)
        left = 0.0 if entry_noise else column.noise[:, None] ** 2
        best_of_column = jax.vmap(Best.of_column, in_axes=(0, None))
        reward = expected_reward(column, sample, column.answers, left)
        return Pooled(best_of_column(reward, column.open), column.log_weights)

    def choose(key: Array, summary: Pooled, shared: Array, offer: Offer) -> Choice:
        del shared, offer
        return take_draw(key, summary, pool).choice()

    return ensemble_policy(belief, Rule(summarise, choose, share), draws=pool)


class Pooled(NamedTuple):
    """What is kept of each column."""

    best: Best  # [S, C]  of every draw
    log_weights: Array | None  # [S, C]  of the draws; None where they weigh alike


def take_draw(key: Array, summary: Pooled, pool: int) -> Best:
    """The best entries [C] of one draw, of a column with weights of a draw that is taken by them.

    One uniform number is turned into draws of all columns: alike weights take the same draw.
    """
    best, log_weights = summary
    if log_weights is None:
        taken = jax.random.randint(key, (), 0, pool)
        return jax.tree.map(lambda x: x[taken], best)
    below = jnp.cumsum(jax.nn.softmax(log_weights, axis=0), axis=0)
    level = jax.random.uniform(key, (), below.dtype)
    taken = jnp.minimum((below <= level).sum(0), pool - 1)
    return jax.tree.map(lambda x: jnp.take_along_axis(x, taken[None], axis=0)[0], best)


class PointState(NamedTuple):
    """Parameters that stay until the refit, and draws of the matrix given all that was seen."""

    belief: Any
    parameters: Parameters
    covariance: Array  # [N, K, K]  C_n
    matrices: Array  # [N, S, D]
    used: Array  # [] int: how many of them have chosen


def _condition(
    key: Array, state: PointState, data: Observations, outcome: Outcome, *, entry_noise: bool
) -> PointState:
    """Conditions the posterior and the matrices of one column on one more value."""
    row, n, parameters = outcome.row, outcome.column, state.parameters
    w, sigma = parameters.factors(), parameters.noise_at(n)
    loading = w[row]
    covariance = lax.dynamic_index_in_dim(state.covariance, n, 0, keepdims=False)
    reach = covariance @ loading
    covariance = covariance - jnp.outer(gain(reach, loading, sigma**2, outcome.weight), reach)
    drawn = lax.dynamic_index_in_dim(state.matrices, n, 0, keepdims=False)
    # The same gain for the entries: cov(entries of the column, what is shown) / var(shown).
    shared, shown = w @ reach, jnp.full(len(drawn), outcome.value)
    if entry_noise:  # the values of entries that were seen are known
        seen = data.column(n).seen()[:, 0]
        shared = jnp.where(seen, 0.0, shared).at[row].set(loading @ reach + sigma**2)
    else:
        shown = shown - sigma * jax.random.normal(key, (len(drawn),))
    moved = outcome.weight * shared / (loading @ reach + sigma**2)
    foreseen = lax.dynamic_index_in_dim(drawn, row, 1, keepdims=False)
    drawn = drawn + jnp.outer(shown - foreseen, moved)
    return state._replace(
        covariance=lax.dynamic_update_index_in_dim(state.covariance, covariance, n, 0),
        matrices=lax.dynamic_update_index_in_dim(state.matrices, drawn, n, 0),
    )


def point_sampling(belief: Belief, *, entry_noise: bool, matrices: int = 64) -> Policy:
    """Thompson Sampling for a belief that is one point: a draw of the matrix for each pick.

    S = `matrices` of them are drawn together, which allows K = D. All are conditioned on each pick,
    so that the next is a draw given everything seen so far; when all have chosen, S more are drawn.
    """

    def draw(key: Array, state: PointState, data: Observations) -> PointState:
        drawn = sample_matrices(
            key, state.parameters, data, state.covariance, draws=matrices, entry_noise=entry_noise
        )
        return state._replace(matrices=drawn, used=jnp.zeros((), int))

    def gather(key: Array, belief_state: Any, data: Observations) -> PointState:
        parameter_key, draw_key = jax.random.split(key)
        parameters = belief.draw(parameter_key, belief_state)
        covariance = latent_posterior(parameters, data).covariance
        none = jnp.zeros(())
        return draw(draw_key, PointState(belief_state, parameters, covariance, none, none), data)

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> PointState:
        del offer
        belief_state = belief.init(key, data, prior)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, data)._replace(belief=belief_state)

    def refit(key: Array, state: PointState, data: Observations, offer: Offer) -> PointState:
        del offer
        fit_key, draw_key = jax.random.split(key)
        return gather(draw_key, belief.refit(fit_key, state.belief, data), data)

    def choose(key: Array, state: PointState, data: Observations, offer: Offer) -> Choice:
        del key, data
        matrix = lax.dynamic_index_in_dim(state.matrices, state.used, 1, keepdims=False)
        if offer.columns is not None:
            matrix = jnp.take(matrix, offer.columns, axis=0, mode="clip")
        return best_open(expected_reward(offer, matrix.T), offer)

    def absorb(
        key: Array, state: PointState, data: Observations, outcome: Outcome, offer: Offer
    ) -> PointState:
        del offer
        noise_key, draw_key, belief_key = jax.random.split(key, 3)
        state = _condition(noise_key, state, data, outcome, entry_noise=entry_noise)
        moved = belief.absorb(belief_key, state.belief, data, outcome)
        return spend(draw_key, state._replace(belief=moved), data)

    def spend(key: Array, state: PointState, data: Observations) -> PointState:
        """The state after a matrix has chosen: when all have, others are drawn."""
        # A loop of one round at most, not a branch, which would copy all matrices at every pick.
        return lax.while_loop(
            lambda state: state.used == matrices,
            lambda state: draw(key, state, data),
            state._replace(used=state.used + 1),
        )

    def choose_several(
        key: Array,
        state: PointState,
        data: Observations,
        offer: Offer,
        pending: Array,
        number: int,
    ) -> Choice:
        """Each entry is chosen by a matrix of its own."""
        del pending

        def pick(carry: tuple[PointState, Offer], key: Array) -> tuple[tuple, Choice]:
            state, offer = carry
            choice = choose(key, state, data, offer)
            return (spend(key, state, data), offer.without(choice)), choice

        return lax.scan(pick, (state, offer), keys_of(key, number))[1]

    def diagnose(state: PointState) -> Any:
        return belief.diagnose(state.belief)

    predict = predictor(belief, lambda state: state.belief)
    return Policy(init, refit, choose, absorb, diagnose, predict, choose_several)


def thompson(belief: Belief, *, entry_noise: bool, noisy: bool = True, pool: int = 16) -> Policy:
    """Thompson Sampling on any belief.

    Args:
      belief: where the parameters come from.
      entry_noise: whether the noise is part of the entry, as where each is seen once.
      noisy: whether draws of an entry have the noise that is part of it, as in the paper, or only
        what can be learned. Of many entries the largest noise is large, and says nothing.
      pool: how many draws are kept and conditioned on every pick; with 0 every pick draws
        parameters and matrix anew, as in the paper. A belief that is one point needs no pool.
    """
    at_least("pool", pool, 0)
    noise = entry_noise and noisy
    if belief.point:
        return point_sampling(belief, entry_noise=noise)
    if pool:
        return pooled_sampling(belief, pool=pool, entry_noise=noise)
    return fresh_sampling(belief, entry_noise=noise)
