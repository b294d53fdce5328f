"""Rewards, the initial design, the best sequence, and the regret."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.types import Observations, Outcome, Parameters, View

MOST_ENTRIES = 2**31 - 1  # an entry is chosen by its number, of 32 bits


class Problem(NamedTuple):
    """One matrix to be discovered."""

    entries: Array  # [D, N]  what a look returns, up to `noise`
    noise: Array  # []  standard deviation of a look; 0 where the noise is part of the entry
    available: Array  # [D, N] bool: entries that exist
    truth: Parameters | None  # for oracles


class World(NamedTuple):
    """What has happened so far."""

    view: View  # what a policy may see of it
    times: Array  # [D, N] int: times chosen


class Step(NamedTuple):
    """One choice, as it is recorded."""

    row: Array | np.ndarray
    column: Array | np.ndarray
    reward: Array | np.ndarray  # as received, noise included
    expected: Array | np.ndarray  # without the noise
    valid: Array | np.ndarray  # bool: the entry was available


def untouched(problem: Problem) -> World:
    """Nothing has been looked at yet."""
    shape, dtype = problem.entries.shape, problem.entries.dtype
    view = View(Observations.empty(*shape), problem.available, jnp.ones(shape, dtype))
    return World(view, jnp.zeros(shape, int))


def _entry(matrix: Array, row: Array, column: Array) -> Array:
    """One entry, as a gather: a slice of a matrix over devices would bring all of it together."""
    return matrix.at[row[None], column[None]].get(mode="clip")[0]


def look(
    key: Array, problem: Problem, world: World, choice: Array, *, beta: float, once: bool
) -> tuple[World, Outcome, Step]:
    """Chooses a flat index; returns the world after it, what it showed, and the record of it.

    The reward is (entry + noise) beta^(times chosen before). The noise is a function of `key`,
    the entry and its number of looks alone, so that policies can be compared on paired noise.
    """
    row, column = jnp.divmod(choice, problem.entries.shape[1])

    def read() -> tuple[Array, ...]:
        arrays = (world.times, world.view.discount, world.view.available)
        return row, *(_entry(array, row, column) for array in arrays)

    def nothing() -> tuple[Array, ...]:  # a row that is not there, where nothing is written
        return jnp.full_like(row, len(problem.entries)), *map(jnp.zeros_like, read()[1:])

    # A branch, which XLA does not merge with what comes after: all is read before it is written,
    # in place. Reads that are merged with later ones would cost copies of the matrix.
    inside = (choice >= 0) & (choice < problem.entries.size)
    row, times, discount, valid = lax.cond(inside, read, nothing)
    observations, available, discounts = world.view
    noise_key = jax.random.fold_in(jax.random.fold_in(key, choice), times)
    entry = _entry(problem.entries, row, column)
    value = entry + problem.noise * jax.random.normal(noise_key)
    # Nothing is seen twice where a second look would show the very same value.
    seen = (discount > 0) & ((times == 0) | (problem.noise > 0))
    weight = seen.astype(value.dtype)
    outcome = Outcome(row, column, value, weight)
    if once:
        available = available.at[row, column].set(False)
    after = jnp.power(jnp.asarray(beta, value.dtype), times + 1)
    # Entry by entry: between two picks nothing of the size of the matrix is computed.
    view = View(observations.add(*outcome), available, discounts.at[row, column].set(after))
    world = World(view, world.times.at[row, column].set(times + 1))
    row, column = (jnp.where(inside, index, -1) for index in (row, column))
    return world, outcome, Step(row, column, discount * value, discount * entry, valid)


def initial_design(
    key: Array, noise_key: Array, problem: Problem, *, size: int, beta: float, once: bool
) -> World:
    """`size` looks at existing entries, uniform with replacement."""
    existing_first = jnp.argsort(~problem.available.ravel())
    choices = existing_first[jax.random.randint(key, (size,), 0, problem.available.sum())]

    def one(world: World, choice: Array) -> tuple[World, None]:
        return look(noise_key, problem, world, choice, beta=beta, once=once)[0], None

    return lax.scan(one, untouched(problem), choices)[0]


def best_rewards(problem: Problem, world: World, *, horizon: int, beta: float, once: bool) -> Array:
    """Expected rewards [horizon] of the best sequence from here, largest first.

    `once`: the largest available entries. beta = 1: the largest entry again and again. Else the
    largest values of entry beta^j over positive entries, and zeros where there are none.
    """
    _, available, discount = world.view
    value = jnp.where(available, discount * problem.entries, -jnp.inf).ravel()
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
