"""Rewards, the initial design, the best sequence, and the regret."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.types import Observations, Outcome, Parameters, View


class Problem(NamedTuple):
    """One matrix to be discovered."""

    entries: Array  # [D, N]  what a look returns, up to `noise`
    noise: Array  # []  standard deviation of a look; 0 where the noise is part of the entry
    available: Array  # [D, N] bool: entries that exist
    truth: Parameters | None  # for oracles


class World(NamedTuple):
    """What has happened so far."""

    observations: Observations
    times: Array  # [D, N] int: times chosen


class Step(NamedTuple):
    """One choice, as it is recorded."""

    row: Array | np.ndarray
    column: Array | np.ndarray
    reward: Array | np.ndarray  # as received, noise included
    expected: Array | np.ndarray  # without the noise
    valid: Array | np.ndarray  # bool: the entry was available


def view(problem: Problem, world: World, *, beta: float, once: bool) -> View:
    """What a policy may see."""
    available = problem.available & (world.times == 0) if once else problem.available
    return View(world.observations, available, _discount(beta, world.times, problem.entries.dtype))


def _discount(beta: float, times: Array, dtype: jnp.dtype) -> Array:
    """beta^times; 0^0 = 1."""
    if beta == 0:
        return (times == 0).astype(dtype)
    return jnp.power(jnp.asarray(beta, dtype), times)


def look(
    key: Array, problem: Problem, world: World, choice: Array, *, beta: float
) -> tuple[World, Outcome, Array, Array]:
    """Chooses a flat index; returns the world after it, the outcome, reward and expected reward.

    The reward is (entry + noise) beta^(times chosen before). The noise is a function of `key`,
    the entry and its number of looks alone, so that policies can be compared on paired noise.
    """
    row, column = jnp.divmod(choice, problem.entries.shape[1])
    times = world.times[row, column]
    noise_key = jax.random.fold_in(jax.random.fold_in(key, choice), times)
    entry = problem.entries[row, column]
    value = entry + problem.noise * jax.random.normal(noise_key)
    discount = _discount(beta, times, value.dtype)
    # Nothing is seen twice where a second look would show the very same value.
    seen = (discount > 0) & ((times == 0) | (problem.noise > 0))
    weight = seen.astype(value.dtype)
    outcome = Outcome(row, column, value, weight)
    world = World(
        world.observations.add(row, column, value, weight), world.times.at[row, column].add(1)
    )
    return world, outcome, discount * value, discount * entry


def initial_design(
    key: Array, noise_key: Array, problem: Problem, *, size: int, beta: float
) -> World:
    """`size` looks at existing entries, uniform with replacement."""
    rows, columns = problem.entries.shape
    existing_first = jnp.argsort(~problem.available.ravel())
    choices = existing_first[jax.random.randint(key, (size,), 0, problem.available.sum())]

    def one(world: World, choice: Array) -> tuple[World, None]:
        return look(noise_key, problem, world, choice, beta=beta)[0], None

    empty = World(Observations.empty(rows, columns), jnp.zeros((rows, columns), int))
    return lax.scan(one, empty, choices)[0]


def best_rewards(problem: Problem, world: World, *, horizon: int, beta: float, once: bool) -> Array:
    """Expected rewards [horizon] of the best sequence from here, largest first.

    `once`: the largest available entries. beta = 1: the largest entry again and again. Else the
    largest values of entry beta^j over positive entries, and zeros where there are none.
    """
    now = view(problem, world, beta=beta, once=once)
    value = jnp.where(now.available, now.discount * problem.entries, -jnp.inf).ravel()
    if once or beta == 0:
        best = lax.top_k(value, min(horizon, value.size))[0]
        best = jnp.pad(best, (0, horizon - best.size), constant_values=-jnp.inf)
        return best if once else jnp.maximum(best, 0.0)
    if beta == 1:
        return jnp.full(horizon, value.max())

    def take(value: Array, _: None) -> tuple[Array, Array]:
        choice = jnp.argmax(value)
        return value.at[choice].multiply(beta), jnp.maximum(value[choice], 0.0)

    return lax.scan(take, value, length=horizon)[1]
