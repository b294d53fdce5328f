"""Uniformly random open entries: the floor that every policy must beat."""

import jax
from jax import Array

from smc_jax.beliefs.base import Diagnostics
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy, best_open
from smc_jax.types import Choice, Offer


def random() -> Policy:
    """Chooses uniformly among the open entries."""

    def choose(key: Array, state: tuple, data: Observations, offer: Offer) -> Choice:
        del state, data
        return best_open(jax.random.uniform(key, offer.open.shape), offer)

    return Policy(
        init=lambda key, data, offer, prior=None: (),
        refit=lambda key, state, data, offer: state,
        choose=choose,
        absorb=lambda key, state, data, outcome, offer: state,
        diagnose=lambda state: Diagnostics.none(),
    )
