"""Who may not answer is asked less: policies learn the probability of an answer as they go."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import log_ndtr

from smc_jax.checks import at_least
from smc_jax.model.response import Asks, Response, mean_chance, sample_response
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy
from smc_jax.types import Choice, Offer, Outcome

RESPONSE = 2**30 + 1  # folded into a key for the response model; the policy has the key itself


class Heeding(NamedTuple):
    """The state of the policy, and what is believed of answers."""

    inner: Any
    draws: Response  # leading axis S
    log_weights: Array  # [S, N]  of the draws, by what each column did since the refit
    chance: Array  # [D, N]  the probability of an answer
    refits: Array  # [] int


def _believed(offer: Offer, chance: Array) -> Offer:
    """The offer with the probability of an answer."""
    if offer.columns is not None:
        chance = jnp.take(chance, offer.columns, axis=1, mode="clip")
    return offer._replace(chance=chance)


def _told(state: Heeding, outcome: Outcome) -> Heeding:
    """The state once one more ask was answered or refused.

    The draws of a column's chances are weighted by how likely they made what the column did; their
    effects of the row, which other columns share, wait for the refit.
    """
    row, n = outcome.row, outcome.column
    refused = jnp.zeros((), bool) if outcome.refused is None else outcome.refused
    asked = outcome.answered | refused

    def take(array: Array) -> Array:
        return jnp.take(array, jnp.asarray(n)[None], axis=1, mode="clip")

    columns, log_weights = take(state.draws.columns), take(state.log_weights)  # [S, 1]
    probit = columns[:, 0] + jnp.take(state.draws.rows, row, axis=1, mode="clip")
    moved = jnp.where(asked, log_ndtr(jnp.where(refused, -probit, probit)), 0.0)
    log_weights = log_weights + moved[:, None]
    chance = mean_chance(state.draws._replace(columns=columns), log_weights)
    return state._replace(
        log_weights=state.log_weights.at[:, n].set(log_weights[:, 0]),
        chance=state.chance.at[:, n].set(chance[:, 0]),
    )


def heeding_silence(
    policy: Policy, *, draws: int = 16, sweeps: int = 2, first_sweeps: int = 100
) -> Policy:
    """The policy, told with each offer how likely every entry is to be answered.

    The probabilities are those of the probit model with effects of rows and of columns. Its chain
    goes on at every refit of the policy. Between two refits each answer and each refusal moves
    the probabilities of its column. A policy whose belief learns who answers heeds it already: it
    stays as it is.

    Args:
      policy: who chooses, by expected rewards that heed `Offer.chance`.
      draws: S, how many draws the probabilities are averaged over.
      sweeps: Gibbs sweeps of the chain before each draw.
      first_sweeps: Gibbs sweeps before the first draw of the first refit.
    """
    at_least("draws", draws, 1)
    at_least("sweeps", sweeps, 1)
    at_least("first_sweeps", first_sweeps, 0)
    if policy.learns_answers:
        return policy

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> Heeding:
        start = Response.start(data.rows, data.columns)
        stored = jax.tree.map(lambda x: jnp.broadcast_to(x, (draws, *x.shape)), start)
        log_weights = jnp.zeros((draws, data.columns))
        chance = mean_chance(stored, log_weights)
        inner = policy.init(key, data, _believed(offer, chance), prior)
        return Heeding(inner, stored, log_weights, chance, jnp.zeros((), int))

    def refit(key: Array, state: Heeding, data: Observations, offer: Offer) -> Heeding:
        last = jax.tree.map(lambda x: x[-1], state.draws)
        first = jnp.where(state.refits == 0, first_sweeps, 0)
        own = jax.random.fold_in(key, RESPONSE)
        settings: dict[str, Any] = {"draws": draws, "sweeps": sweeps, "first": first}
        found = sample_response(own, last, Asks.of(data), **settings)
        log_weights = jnp.zeros_like(state.log_weights)
        chance = mean_chance(found, log_weights)
        inner = policy.refit(key, state.inner, data, _believed(offer, chance))
        return Heeding(inner, found, log_weights, chance, state.refits + 1)

    def choose(key: Array, state: Heeding, data: Observations, offer: Offer) -> Choice:
        return policy.choose(key, state.inner, data, _believed(offer, state.chance))

    def absorb(
        key: Array, state: Heeding, data: Observations, outcome: Outcome, offer: Offer
    ) -> Heeding:
        state = _told(state, outcome)
        offer = _believed(offer, state.chance)
        return state._replace(inner=policy.absorb(key, state.inner, data, outcome, offer))

    def choose_several(
        key: Array, state: Heeding, data: Observations, offer: Offer, pending: Array, number: int
    ) -> Choice:
        assert policy.choose_several is not None
        offer = _believed(offer, state.chance)
        return policy.choose_several(key, state.inner, data, offer, pending, number)

    def predict(key: Array, state: Heeding, *asked: Any) -> Any:
        assert policy.predict is not None
        return policy.predict(key, state.inner, *asked)

    return policy._replace(
        init=init,
        refit=refit,
        choose=choose,
        absorb=absorb,
        diagnose=lambda state: policy.diagnose(state.inner),
        predict=None if policy.predict is None else predict,
        choose_several=None if policy.choose_several is None else choose_several,
    )
