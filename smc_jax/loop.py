"""The bandit loop: one nested scan, refits outside and picks inside, a pure function of a seed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax import environment
from smc_jax.beliefs import Diagnostics
from smc_jax.completable import HeldOut
from smc_jax.environment import Problem, Step, World
from smc_jax.policies.base import Policy
from smc_jax.types import Observations


class Carry(NamedTuple):
    """All that the loop needs to go on."""

    key: Array  # the policy's own randomness
    noise_key: Array  # shared by the policies of one seed
    problem: Problem
    world: World
    policy: Any


class Refit(NamedTuple):
    """What is recorded at each refit."""

    diagnostics: Diagnostics
    held_out: HeldOut  # errors of a completion of what was seen, NaN where not asked for


class SeedKeys(NamedTuple):
    """All randomness of one seed."""

    problem: Array
    design: Array
    noise: Array
    policy: Array
    init: Array


def seed_keys(seed: Array) -> SeedKeys:
    """The keys that a seed stands for."""
    return SeedKeys(*jax.random.split(jax.random.key(seed), 5))


class Opening(NamedTuple):
    """A seed before anybody has chosen: the same for all policies."""

    keys: SeedKeys
    problem: Problem
    world: World  # after the initial design
    best: Array  # [horizon]  rewards of the best sequence from there

    def carry(self, state: Any) -> Carry:
        """What the loop begins with, given the policy's state."""
        # The truth is for oracles, and its shape that of the data, not of the experiment.
        problem = self.problem._replace(truth=None)
        return Carry(self.keys.policy, self.keys.noise, problem, self.world, state)


class Loop(NamedTuple):
    """An experiment as pure functions, so that it can be run in segments."""

    open: Callable[[Array], Opening]  # seed -> what policies share
    init: Callable[[Opening], Any]  # -> the policy's state
    start: Callable[[Array], tuple[Carry, Array]]  # both: seed -> carry, best rewards [horizon]
    refit: Callable[[Carry, Array], Carry]  # (carry, key): what begins a batch
    picks: Callable[[Carry, Array], tuple[Carry, Step]]  # (carry, key): the batch itself
    advance: Callable[[Carry, int], tuple[Carry, Refit, Step]]  # so many more batches
    batches: int
    batch: int


def make_opening(
    make_problem: Callable[[Array, Array], Problem],
    *,
    horizon: int,
    initial: int,
    beta: float = 0.0,
    once: bool = True,
) -> Callable[[Array], Opening]:
    """The function from a seed to its matrix and initial design; see `make_loop`."""

    def opening(seed: Array) -> Opening:
        keys = seed_keys(seed)
        problem = make_problem(keys.problem, seed)
        if problem.entries.size > environment.MOST_ENTRIES:
            raise ValueError(f"entries: {problem.entries.size} are more than can be numbered")
        world = environment.initial_design(
            keys.design, keys.noise, problem, size=initial, beta=beta, once=once
        )
        best = environment.best_rewards(problem, world, horizon=horizon, beta=beta, once=once)
        return Opening(keys, problem, world, best)

    return opening


def make_loop(
    make_problem: Callable[[Array, Array], Problem],
    policy: Policy,
    *,
    horizon: int,
    refits: int = 40,
    initial: int,
    beta: float = 0.0,
    once: bool = True,
    held_out_errors: Callable[[Array, Observations], HeldOut] | None = None,
) -> Loop:
    """Composes data, policy and environment.

    Args:
      make_problem: draws the matrix from a key and the number of the seed.
      policy: who chooses.
      horizon: H, the number of picks; the last batch may run over, and is cut by the caller.
      refits: into how many batches H is divided; each has ceil(H / refits) picks, so that a
        horizon they do not divide may end after fewer.
      initial: the size of the initial design, which is not counted in H.
      beta: discount of a repeated choice.
      once: forbids repeats.
      held_out_errors: (key, what was seen) -> how badly it predicts itself, asked at each refit.
    """
    batch = -(-horizon // refits)

    opening = make_opening(make_problem, horizon=horizon, initial=initial, beta=beta, once=once)

    def init(opened: Opening) -> Any:
        return policy.init(opened.keys.init, opened.world.view, opened.problem)

    def start(seed: Array) -> tuple[Carry, Array]:
        opened = opening(seed)
        return opened.carry(init(opened)), opened.best

    def pick(carry: Carry, key: Array) -> tuple[Carry, Step]:
        choose_key, absorb_key = jax.random.split(key)
        choice = policy.choose(choose_key, carry.policy, carry.world.view)
        world, outcome, step = environment.look(
            carry.noise_key, carry.problem, carry.world, choice, beta=beta, once=once
        )
        state = policy.absorb(absorb_key, carry.policy, world.view, outcome)
        return carry._replace(world=world, policy=state), step

    def refit(carry: Carry, key: Array) -> Carry:
        return carry._replace(policy=policy.refit(key, carry.policy, carry.world.view))

    def picks(carry: Carry, key: Array) -> tuple[Carry, Step]:
        return lax.scan(pick, carry, jax.random.split(key, batch))

    def one_batch(carry: Carry, _: None) -> tuple[Carry, tuple[Refit, Step]]:
        key, refit_key, pick_key, held_out_key = jax.random.split(carry.key, 4)
        carry = refit(carry._replace(key=key), refit_key)
        held_out = HeldOut(jnp.full((), jnp.nan), jnp.full((), jnp.nan))
        if held_out_errors is not None:
            held_out = held_out_errors(held_out_key, carry.world.view.observations)
        record = Refit(policy.diagnose(carry.policy), held_out)
        carry, steps = picks(carry, pick_key)
        return carry, (record, steps)

    def advance(carry: Carry, batches: int) -> tuple[Carry, Refit, Step]:
        carry, (refits, steps) = lax.scan(one_batch, carry, length=batches)
        return carry, refits, jax.tree.map(lambda x: x.reshape(-1), steps)

    return Loop(opening, init, start, refit, picks, advance, -(-horizon // batch), batch)
