"""Who answers: what a campaign learns from its asks, those with an answer and those without.

Values that nobody was asked for, such as those of the first table, say nothing of it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.campaign.log import Responses
from smc_jax.observations import Observations
from smc_jax.policies.heeding import heeding_silence
from smc_jax.policies.random import random
from smc_jax.types import Offer

DRAWS = 64  # of the response model: P(answer) is their average


def asked_of(shape: tuple[int, int], responses: Responses) -> Observations:
    """How often each entry [D, N] of a campaign was asked with an answer, and without one."""
    answered, refused = np.zeros(shape), np.zeros(shape)
    entries = responses.row, responses.column
    np.add.at(answered, entries, responses.answered)
    np.add.at(refused, entries, ~responses.answered)
    nothing = jnp.zeros(shape)
    return Observations(jnp.asarray(answered, nothing.dtype), nothing, nothing).with_refusals(
        jnp.asarray(refused, nothing.dtype)
    )


@functools.cache
def response_program() -> Callable[[Array, Observations], Array]:
    """The compiled program that finds P(answer) [D, N] from the asks.

    It is what policies that heed silence believe after a refit. The policy inside, which no value
    and no chance moves, is there because they are policies.
    """
    policy = heeding_silence(random(), draws=DRAWS)

    def chance(key: Array, asked: Observations) -> Array:
        offer = Offer(None, asked.seen(), jnp.ones((asked.rows, asked.columns)))
        begun = policy.init(key, asked, offer)
        return policy.refit(key, begun, asked, offer).chance

    return jax.jit(chance)
