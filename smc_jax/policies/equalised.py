"""Every column with the same average: whom a policy serves does not depend on who rates high."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs.history import History
from smc_jax.beliefs.pairwise import row_means
from smc_jax.checks import positive
from smc_jax.observations import Observations
from smc_jax.policies.base import Mixture, Policy
from smc_jax.types import Choice, Offer, Outcome


class Equalised(NamedTuple):
    """The state of the policy, and by how much each column was above the others at the refit."""

    inner: Any
    offsets: Array  # [N]


def column_offsets(data: Observations, *, strength: float) -> Array:
    """How much the values of a column are above their rows' means, on average [N].

    They are shrunk as `strength` more values at 0 would. Rows' means are taken out, so that a
    column that was shown good rows does not pass for one that rates high.
    """
    above = data.above(row_means(data, strength=0.0))
    return above / jnp.maximum(data.by_column() + strength, 1e-6)


def equalised(policy: Policy, *, strength: float = 2.0) -> Policy:
    """The policy on values from which each column's offset is taken, learned at every refit.

    Its rewards, and so its regret, are made of the values as they are. It is meant for entries
    that are chosen once: a discounted reward would be that of the shifted value. The offsets come
    from what was seen, for oracles too: a column that was served its best entries counts as one
    that rates high, which spreads the picks further.
    """
    positive("strength", strength)

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> Equalised:
        offsets = column_offsets(data, strength=strength)
        if isinstance(prior, History):  # its columns have offsets of their own
            shift = column_offsets(prior.data, strength=strength)
            prior = prior._replace(data=prior.data.relative_to(shift))
        return Equalised(policy.init(key, data.relative_to(offsets), offer, prior), offsets)

    def refit(key: Array, state: Equalised, data: Observations, offer: Offer) -> Equalised:
        offsets = column_offsets(data, strength=strength)
        inner = policy.refit(key, state.inner, data.relative_to(offsets), offer)
        return Equalised(inner, offsets)

    def choose(key: Array, state: Equalised, data: Observations, offer: Offer) -> Choice:
        return policy.choose(key, state.inner, data.relative_to(state.offsets), offer)

    def absorb(
        key: Array, state: Equalised, data: Observations, outcome: Outcome, offer: Offer
    ) -> Equalised:
        outcome = outcome.relative_to(state.offsets[outcome.column])
        shifted = data.relative_to(state.offsets)
        inner = policy.absorb(key, state.inner, shifted, outcome, offer)
        return state._replace(inner=inner)

    def choose_several(
        key: Array,
        state: Equalised,
        data: Observations,
        offer: Offer,
        pending: Array,
        number: int,
    ) -> Choice:
        assert policy.choose_several is not None
        shifted = data.relative_to(state.offsets)
        return policy.choose_several(key, state.inner, shifted, offer, pending, number)

    def predict(
        key: Array, state: Equalised, data: Observations, rows: Array, columns: Array, number: int
    ) -> Mixture:
        assert policy.predict is not None
        shifted = data.relative_to(state.offsets)
        found = policy.predict(key, state.inner, shifted, rows, columns, number)
        return found._replace(mean=found.mean + state.offsets[columns])

    return policy._replace(
        init=init,
        refit=refit,
        choose=choose,
        absorb=absorb,
        diagnose=lambda state: policy.diagnose(state.inner),
        predict=None if policy.predict is None else predict,
        choose_several=None if policy.choose_several is None else choose_several,
    )
