"""Answers that come late: a policy goes on choosing, and what it waits for is pending."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.checks import at_least, one_of
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy
from smc_jax.recommender import State, recommender, without_pending
from smc_jax.simulation.environment import Environment, Step, World
from smc_jax.types import Choice, Offer, Outcome

TOLD = ("at_once", "at_refits")
TELLING = 2**31 - 1  # none of the keys that a refit splits its own into has this number


class Delayed(NamedTuple):
    """What a policy was told, and the answers that are under way."""

    told: State  # what was told so far, what the policy makes of it, and what is pending
    waiting: Outcome  # [B] a ring; rows of -1 stand for no answer
    oldest: Array  # [] int: the place of the answer that comes next


class Delays(NamedTuple):
    """A policy that waits for its answers, as the loop asks it."""

    init: Callable[[Array, Observations, Offer, Any], Delayed]
    refit: Callable[[Array, Delayed, Offer], Delayed]  # (key, state, the next offer)
    # (key, state, keys of noise and of all offers, world) -> what one pick leaves
    pick: Callable[[Array, Delayed, Array, Array, World], tuple[Delayed, World, Step]]


def check_delays(*, delay: int, told: str, asked: int) -> bool:
    """Whether answers are told late; settings that do not go together are refused."""
    at_least("delay", delay, 0)
    one_of("told", told, TOLD)
    late = delay > 0 or told == "at_refits"
    if delay and told == "at_refits":
        raise ValueError(f"delay: must be 0 where answers are told at refits, got {delay}")
    if late and asked > 1:
        raise ValueError(f"asked: must be 1 where answers are told late, got {asked}")
    return late


def make_delays(
    environment: Environment, policy: Policy, *, delay: int, told: str, batch: int
) -> Delays:
    """Tells every answer `delay` picks after its own, or all of a batch at the next refit.

    A pending entry is closed, and counts as known in the covariances alone. What is not told when
    the horizon ends is lost to the policy; its reward counts.

    Args:
      environment: who answers.
      policy: who chooses.
      delay: picks made before an answer is told; where answers are told at refits it is not used.
      told: `at_once` after the delay, or `at_refits`.
      batch: picks between two refits.
    """
    asking, slots = recommender(policy), batch if told == "at_refits" else delay

    def nothing(data: Observations, offer: Offer) -> Outcome:
        absent, number = jnp.full(slots, -1), jnp.zeros(slots, offer.factor.dtype)
        no = jnp.zeros(slots, bool)
        return Outcome(
            absent, jnp.zeros_like(absent), number, no, no if data.counts_refusals else None
        )

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> Delayed:
        state = asking.init(key, data, offer, prior)
        return Delayed(state, nothing(data, offer), jnp.zeros((), int))

    def refit(key: Array, state: Delayed, offer: Offer) -> Delayed:
        if told == "at_refits":
            tell_key = jax.random.fold_in(key, TELLING)
            known = asking.tell(tell_key, state.told, state.waiting, offer)
            state = Delayed(known, nothing(known.data, offer), jnp.zeros((), int))
        return state._replace(told=asking.refit(key, state.told, offer))

    def pick(
        key: Array, state: Delayed, noise_key: Array, offer_key: Array, world: World
    ) -> tuple[Delayed, World, Step]:
        choose_key, absorb_key = jax.random.split(key)
        offer = environment.offer(offer_key, world)
        known, chosen = asking.ask(choose_key, state.told, offer, 1)
        choice = Choice(*(index[0] for index in chosen))
        # What is pending is not on offer; where nothing else is, time passes.
        left = without_pending(offer, state.told.pending).everyone()
        world, outcome, step = environment.answer(noise_key, world, left, choice)
        now = state.oldest
        if told == "at_once":
            arrived = jax.tree.map(
                lambda x: lax.dynamic_slice_in_dim(x, now, 1), state.waiting
            )  # of the pick that was made `delay` picks ago
            known = asking.tell(absorb_key, known, arrived, environment.offer(offer_key, world))
        waiting = jax.tree.map(
            lambda ring, new: ring.at[now].set(jnp.asarray(new, ring.dtype)), state.waiting, outcome
        )
        return Delayed(known, waiting, (now + 1) % slots), world, step

    return Delays(init, refit, pick)
