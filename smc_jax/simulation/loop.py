"""The bandit loop: one nested scan, refits outside and picks inside, a pure function of a seed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs.base import Diagnostics
from smc_jax.checks import at_least
from smc_jax.completion.stopping import HeldOut
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy
from smc_jax.recommender import choose_several
from smc_jax.simulation.delays import Delayed, Delays, check_delays, make_delays
from smc_jax.simulation.environment import Environment, SeedKeys, Step, World, seed_keys
from smc_jax.simulation.oracles import prior_of
from smc_jax.types import Choice, Outcome


class Carry(NamedTuple):
    """All that the loop needs to go on."""

    key: Array  # the policy's own randomness
    noise_key: Array  # shared by the policies of one seed
    offer_key: Array  # shared by the policies of one seed
    world: World
    policy: Any

    @property
    def seen(self) -> Observations:
        """What the policy was told: all answers, unless some are under way."""
        return self.policy.told.data if isinstance(self.policy, Delayed) else self.world.data


class Refit(NamedTuple):
    """What is recorded at each refit."""

    diagnostics: Diagnostics
    held_out: HeldOut  # errors of a completion of what was seen, NaN where not asked for


class Reset(NamedTuple):
    """A seed before anybody has chosen: the same for all policies."""

    keys: SeedKeys
    world: World  # after the initial design
    best: Array  # [horizon]  rewards of the best sequence from there

    def carry(self, state: Any) -> Carry:
        """What the loop begins with, given the policy's state."""
        # The truth is for oracles, and its shape that of the data, not of the experiment. History
        # is in the state of the policy that was told of it.
        problem = self.world.problem._replace(truth=None, history=None)
        world = self.world._replace(problem=problem)
        return Carry(self.keys.policy, self.keys.noise, self.keys.offers, world, state)


class Loop(NamedTuple):
    """An experiment as pure functions, so that it can be run in segments."""

    reset: Callable[[Array], Reset]  # seed -> what policies share
    init: Callable[[Reset], Any]  # -> the policy's state
    refit: Callable[[Carry, Array], Carry]  # (carry, key): what begins a batch
    picks: Callable[[Carry, Array], tuple[Carry, Step]]  # (carry, key): the batch itself
    advance: Callable[[Carry, int], tuple[Carry, Refit, Step]]  # (carry, number of batches)
    batches: int
    batch: int

    def start(self, seed: Array) -> tuple[Carry, Array]:
        """The carry of a seed before the first batch, and the best rewards [horizon]."""
        begun = self.reset(seed)
        return begun.carry(self.init(begun)), begun.best


def make_reset(environment: Environment, *, horizon: int) -> Callable[[Array], Reset]:
    """The function from a seed to its matrix and initial design, and the best rewards."""

    def reset(seed: Array) -> Reset:
        keys = seed_keys(seed)
        world = environment.reset(keys, seed)
        return Reset(keys, world, environment.best(keys.offers, world, horizon))

    return reset


def batch_size(horizon: int, *, refits: int, asked: int = 1) -> int:
    """Picks between two refits: the horizon in equal parts, rounded up to whole asks."""
    picks = -(-horizon // refits)
    return asked * -(-picks // asked)


def _make_pick(
    environment: Environment, policy: Policy
) -> Callable[[Carry, Array], tuple[Carry, Step]]:
    """One pick, answered and told at once."""

    def pick(carry: Carry, key: Array) -> tuple[Carry, Step]:
        choose_key, absorb_key = jax.random.split(key)
        offer = environment.offer(carry.offer_key, carry.world)
        choice = policy.choose(choose_key, carry.policy, carry.world.data, offer)
        world, outcome, step = environment.answer(carry.noise_key, carry.world, offer, choice)
        following = environment.offer(carry.offer_key, world)
        state = policy.absorb(absorb_key, carry.policy, world.data, outcome, following)
        return carry._replace(world=world, policy=state), step

    return pick


def _make_late_pick(waits: Delays) -> Callable[[Carry, Array], tuple[Carry, Step]]:
    """One pick, after which an earlier one may be told."""

    def pick(carry: Carry, key: Array) -> tuple[Carry, Step]:
        state, world, step = waits.pick(
            key, carry.policy, carry.noise_key, carry.offer_key, carry.world
        )
        return carry._replace(world=world, policy=state), step

    return pick


def _make_ask(
    environment: Environment, policy: Policy, asked: int
) -> Callable[[Carry, Array], tuple[Carry, Step]]:
    """Several picks from one offer, answered before the policy is told of any."""

    def ask(carry: Carry, key: Array) -> tuple[Carry, Step]:
        choose_key, absorb_key = jax.random.split(key)
        world = carry.world
        offer, nothing = environment.offer(carry.offer_key, world), jnp.zeros_like(world.open)
        chosen = choose_several(choose_key, policy, carry.policy, world.data, offer, nothing, asked)

        def answer(world: World, choice: Choice) -> tuple[World, tuple[Outcome, Step]]:
            world, outcome, step = environment.answer(carry.noise_key, world, offer, choice)
            return world, (outcome, step)

        world, (outcomes, steps) = lax.scan(answer, world, chosen)
        following = environment.offer(carry.offer_key, world)

        def absorb(
            before: tuple[Any, Observations], told: tuple[Array, Outcome]
        ) -> tuple[tuple[Any, Observations], None]:
            (state, data), (key, outcome) = before, told
            # One by one: an answer that is not told yet is none that the policy may count on.
            data = data.add(outcome.row, outcome.column, outcome.value, outcome.weight)
            data = data.refuse(outcome.row, outcome.column, outcome.refused)
            return (policy.absorb(key, state, data, outcome, following), data), None

        told = jax.random.split(absorb_key, asked), outcomes
        (state, _), _ = lax.scan(absorb, (carry.policy, carry.world.data), told)
        return carry._replace(world=world, policy=state), steps

    return ask


def make_loop(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    refits: int = 40,
    asked: int = 1,
    delay: int = 0,
    told: str = "at_once",
    held_out_errors: Callable[[Array, Observations], HeldOut] | None = None,
    prior: Any = None,
) -> Loop:
    """Composes environment and policy.

    Args:
      environment: the matrix, what is on offer, and who answers.
      policy: who chooses.
      horizon: H, the number of picks; the last batch may run over, and is cut by the caller.
      refits: into how many batches H is divided; each has ceil(H / refits) picks, so that a
        horizon they do not divide may end after fewer.
      asked: how many entries are asked at once, before any of their answers is told; a batch is
        rounded up to a whole number of asks.
      delay: how many picks are made after a pick before its answer is told. What is not told yet is
        pending: closed, and counted as known where only what will be learned matters.
      told: `at_once` after the delay, or `at_refits`: the answers of a batch together, before the
        next refit. What was not told at the end is lost to the policy; its reward counts.
      held_out_errors: (key, what was seen) -> how badly it predicts itself, asked at each refit.
      prior: what the policy knows beforehand on every seed, such as a `History`. An oracle is told
        what it must know instead, and the history of a problem comes first.
    """
    at_least("horizon", horizon, 1)
    at_least("refits", refits, 1)
    at_least("asked", asked, 1)
    if asked > 1 and not environment.standing:
        raise ValueError(f"asked: must be 1 where offers change from pick to pick, got {asked}")
    late = check_delays(delay=delay, told=told, asked=asked)
    batch = batch_size(horizon, refits=refits, asked=asked)
    waits, pick = None, _make_pick(environment, policy)
    if late:
        waits = make_delays(environment, policy, delay=delay, told=told, batch=batch)
        pick = _make_late_pick(waits)

    def init(begun: Reset) -> Any:
        world, keys = begun.world, begun.keys
        known = prior_of(policy.told, world.problem, prior)
        start = policy.init if waits is None else waits.init
        return start(keys.init, world.data, environment.offer(keys.offers, world), known)

    def refit(carry: Carry, key: Array) -> Carry:
        world = carry.world
        offer = environment.offer(carry.offer_key, world)
        if waits is not None:
            return carry._replace(policy=waits.refit(key, carry.policy, offer))
        return carry._replace(policy=policy.refit(key, carry.policy, world.data, offer))

    def picks(carry: Carry, key: Array) -> tuple[Carry, Step]:
        if asked == 1:
            return lax.scan(pick, carry, jax.random.split(key, batch))
        ask = _make_ask(environment, policy, asked)
        carry, steps = lax.scan(ask, carry, jax.random.split(key, batch // asked))
        return carry, jax.tree.map(lambda x: x.reshape(-1), steps)

    def one_batch(carry: Carry, _: None) -> tuple[Carry, tuple[Refit, Step]]:
        key, refit_key, pick_key, held_out_key = jax.random.split(carry.key, 4)
        carry = refit(carry._replace(key=key), refit_key)
        held_out = HeldOut(jnp.full((), jnp.nan), jnp.full((), jnp.nan))
        if held_out_errors is not None:
            held_out = held_out_errors(held_out_key, carry.seen)
        own = carry.policy.told.policy if late else carry.policy
        record = Refit(policy.diagnose(own), held_out)
        carry, steps = picks(carry, pick_key)
        return carry, (record, steps)

    def advance(carry: Carry, batches: int) -> tuple[Carry, Refit, Step]:
        carry, (refits, steps) = lax.scan(one_batch, carry, length=batches)
        return carry, refits, jax.tree.map(lambda x: x.reshape(-1), steps)

    reset = make_reset(environment, horizon=horizon)
    return Loop(reset, init, refit, picks, advance, -(-horizon // batch), batch)
