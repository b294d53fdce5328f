"""Ask and tell as pure functions: any policy on a matrix whose values nobody has.

Nothing here reads a file or knows an id, and everything can be jitted. Fed one by one with the
answers of a simulated matrix, and with the same keys, it chooses what the bandit loop chooses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array, lax

from smc_jax.observations import Observations
from smc_jax.policies.base import Policy, keys_of
from smc_jax.predictions import Predicted, predict
from smc_jax.types import Choice, Offer, Outcome


class State(NamedTuple):
    """What was seen, what the policy makes of it, and what it is waiting for."""

    data: Observations
    policy: Any  # the policy's state, which knows of no pending entry
    pending: Array  # [D, N] bool: asked, and neither answered nor withdrawn


class Predict(Protocol):
    """Predicts entries."""

    def __call__(
        self, key: Array, state: State, rows: Array, columns: Array, **settings: Any
    ) -> Predicted:
        """As `predictions.predict`, for entries [M] by row and column."""


class Recommender(NamedTuple):
    """A policy that is asked and told.

    The offers need not heed what is pending: it is closed in any case. Rows of -1 stand for no
    entry, so that a jitted `tell` can be given fewer outcomes than it has room for. The value of an
    outcome that was not answered may be anything, NaN included.
    """

    init: Callable[..., State]  # (key, data, offer, prior=None)
    refit: Callable[[Array, State, Offer], State]  # (key, state, offer)
    ask: Callable[[Array, State, Offer, int], tuple[State, Choice]]  # -> choices [number]
    tell: Callable[[Array, State, Outcome, Offer], State]  # outcomes [n], and the next offer
    predict: Predict


def without_pending(offer: Offer, pending: Array) -> Offer:
    """The offer without the pending entries."""
    if offer.columns is not None:
        pending = jnp.take(pending, offer.columns, axis=1, mode="clip")
    return offer._replace(open=offer.open & ~pending)


def choose_several(
    key: Array,
    policy: Policy,
    state: Any,
    data: Observations,
    offer: Offer,
    pending: Array,
    number: int,
) -> Choice:
    """Distinct entries [number] of the offer that are not pending; -1 where none is left."""
    offer = without_pending(offer, pending)
    if policy.choose_several is not None:
        chosen = policy.choose_several(key, state, data, offer, pending, number)
    else:

        def pick(left: Offer, key: Array) -> tuple[Offer, Choice]:
            choice = policy.choose(key, state, data, left)
            return left.without(choice), choice

        chosen = lax.scan(pick, offer, keys_of(key, number))[1]
    there = jnp.arange(number) < offer.open.sum()
    return Choice(*(jnp.where(there, index, -1) for index in chosen))


def recommender(policy: Policy) -> Recommender:
    """Asks a policy for entries, and tells it what came of them, in any order and at any time.

    Between two refits a pending entry counts as known where only what will be learned matters: in
    the covariances. Its value is not made up, so that an answer, whenever it comes, is absorbed as
    if nothing had been pending.
    """

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> State:
        nothing = jnp.zeros((data.rows, data.columns), bool)
        return State(data, policy.init(key, data, offer, prior), nothing)

    def refit(key: Array, state: State, offer: Offer) -> State:
        left = without_pending(offer, state.pending)
        return state._replace(policy=policy.refit(key, state.policy, state.data, left))

    def ask(key: Array, state: State, offer: Offer, number: int) -> tuple[State, Choice]:
        chosen = choose_several(key, policy, state.policy, state.data, offer, state.pending, number)
        row = jnp.where(chosen.row < 0, state.data.rows, chosen.row)
        pending = state.pending.at[row, chosen.column].set(True, mode="drop")
        return state._replace(pending=pending), chosen

    def tell(key: Array, state: State, outcomes: Outcome, offer: Offer) -> State:
        number = jnp.shape(outcomes.row)[0]

        def one(state: State, told: tuple[Array, Outcome]) -> tuple[State, None]:
            key, outcome = told
            missing = outcome.row < 0
            answered = outcome.answered & ~missing
            if outcome.refused is not None:
                outcome = outcome._replace(refused=outcome.refused & ~missing)
            outcome = outcome._replace(
                row=jnp.where(missing, state.data.rows, outcome.row),  # where nothing is written
                column=jnp.where(missing, 0, outcome.column),
                value=jnp.where(answered, outcome.value, 0.0),
                answered=answered,
            )
            data = state.data.add(outcome.row, outcome.column, outcome.value, outcome.weight)
            data = data.refuse(outcome.row, outcome.column, outcome.refused)
            pending = state.pending.at[outcome.row, outcome.column].set(False, mode="drop")
            left = without_pending(offer, pending)
            own = policy.absorb(key, state.policy, data, outcome, left)
            return State(data, own, pending), None

        return lax.scan(one, state, (keys_of(key, number), outcomes))[0]

    def foretell(
        key: Array, state: State, rows: Array, columns: Array, **settings: Any
    ) -> Predicted:
        return predict(key, policy, state.policy, state.data, rows, columns, **settings)

    return Recommender(init, refit, ask, tell, foretell)
