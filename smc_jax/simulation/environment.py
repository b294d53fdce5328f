"""Rewards, the initial design, offers and answers, and the best sequence."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.checks import at_least
from smc_jax.observations import Observations
from smc_jax.seen import Entry
from smc_jax.simulation.problem import MakeProblem, Problem
from smc_jax.types import Choice, Offer, Outcome

MOST_EXISTING = 2**31 - 1  # the initial design counts the entries that exist with 32 bits


class SeedKeys(NamedTuple):
    """All randomness of one seed."""

    problem: Array
    design: Array
    noise: Array
    policy: Array
    init: Array
    offers: Array


def seed_keys(seed: Array) -> SeedKeys:
    """The keys that a seed stands for."""
    return SeedKeys(*jax.random.split(jax.random.key(seed), len(SeedKeys._fields)))


class World(NamedTuple):
    """The matrix, and what has happened so far."""

    problem: Problem
    data: Observations  # what was seen
    open: Array  # [D, N] bool: entries that may still be chosen
    factor: Array  # [D, N]: beta^(times chosen before)
    times: Array  # [D, N] int: times chosen
    clock: Array  # [] int: asks since the initial design
    silence: Any = None  # what decides who answers; see `simulation.silence`


class Step(NamedTuple):
    """One choice, as it is recorded."""

    row: Array | np.ndarray
    column: Array | np.ndarray
    reward: Array | np.ndarray  # as received, noise included
    expected: Array | np.ndarray  # without the noise
    valid: Array | np.ndarray  # bool: the entry was open in the offer, or the offer was empty
    answered: Array | np.ndarray  # bool: an entry was asked, and an answer came


class Environment(NamedTuple):
    """A world as pure functions."""

    reset: Callable[[SeedKeys, Array], World]  # (keys, number of the seed), design included
    offer: Callable[[Array, World], Offer]  # (key of all offers, world)
    answer: Callable[[Array, World, Offer, Choice], tuple[World, Outcome, Step]]  # (noise key, ...)
    best: Callable[[Array, World, int], Array]  # (key of all offers, world, horizon) -> [horizon]
    once: bool  # whether an entry can be chosen once only
    standing: bool = True  # whether every offer is the standing one
    # Whether `best` is the best sequence, or an upper bound on it; among several arrivals, and for
    # stock, it is the best sequence where that has no loss in it.
    exact: bool = True
    # Along which sides entries are on offer at the same times: those of one row, of one column.
    together: tuple[str, ...] = ("row", "column")
    kinds: tuple[int, ...] = ()  # of the randomness of what closes; see `simulation.offers.best`
    # The factor [D, N] of every reward, were everything on offer.
    factor: Callable[[World], Array] = lambda world: world.factor


def untouched(problem: Problem) -> World:
    """Nothing has been seen yet."""
    shape, dtype = problem.entries.shape, problem.entries.dtype
    data, factor = Observations.empty(*shape), jnp.ones(shape, dtype)
    return World(
        problem, data, problem.available, factor, jnp.zeros(shape, int), jnp.zeros((), int)
    )


def standing_offer(world: World) -> Offer:
    """Everything that is left."""
    return Offer(None, world.open, world.factor)


def entry_at(matrix: Array, row: Array, column: Array) -> Array:
    """One entry, as a gather: a slice of a matrix over devices would bring all of it together."""
    return matrix.at[row[None], column[None]].get(mode="clip")[0]


def answer(
    key: Array, world: World, offer: Offer, choice: Choice, *, beta: float, once: bool
) -> tuple[World, Outcome, Step]:
    """The world after a choice, what the choice showed, and the record of it.

    The reward is (entry + noise) times the offer's factor. The noise is a function of `key`, the
    entry and the number of times it was chosen before, so that policies can be compared on paired
    noise. Where nothing is open in an offer of some columns, nothing happens but that time passes.
    """
    problem = world.problem
    rows, columns = problem.entries.shape
    row, column = choice
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    position, empty = column, jnp.zeros((), bool)
    if offer.columns is not None:
        present = offer.columns == column
        position, empty = jnp.argmax(present), ~offer.open.any()
        inside &= present.any() & ~empty

    def read() -> tuple[Array, ...]:
        told = (entry_at(array, row, position) for array in (offer.factor, offer.open))
        return row, *world.data.entry(row, column), entry_at(world.times, row, column), *told

    def nothing() -> tuple[Array, ...]:  # a row that is not there, where nothing is written
        return jnp.full_like(row, rows), *map(jnp.zeros_like, read()[1:])

    # A branch, which XLA does not merge with what comes after: all is read before it is written,
    # in place. Reads that are merged with later ones would cost copies of the matrix.
    row, count, mean, times, factor, valid = lax.cond(inside, read, nothing)
    noise_key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, row), column), times)
    entry = entry_at(problem.entries, row, column)
    value = entry + problem.noise * jax.random.normal(noise_key)
    # Nothing is seen twice where a second answer would show the very same value.
    answered = (factor > 0) & ((times == 0) | (problem.noise > 0)) & inside
    column = jnp.where(inside, column, 0)  # an index that can be read, whatever was chosen
    outcome = Outcome(row, column, jnp.where(answered, value, 0.0), answered)
    # Entry by entry: between two picks nothing of the size of the matrix is computed.
    after = jnp.power(jnp.asarray(beta, value.dtype), times + 1)
    world = world._replace(
        data=world.data.add(row, column, value, outcome.weight, Entry(count, mean)),
        open=world.open.at[row, column].set(False) if once else world.open,
        factor=world.factor.at[row, column].set(after),
        times=world.times.at[row, column].set(times + 1),
        clock=world.clock + 1,
    )
    row, column = (jnp.where(inside, index, -1) for index in (row, column))
    earned = jnp.where(inside, factor * value, 0.0), jnp.where(inside, factor * entry, 0.0)
    return world, outcome, Step(row, column, *earned, valid | empty, inside)


def initial_design(
    key: Array, noise_key: Array, problem: Problem, *, size: int, beta: float, once: bool
) -> World:
    """`size` answers of existing entries, uniform with replacement."""
    if size and problem.available.size > MOST_EXISTING:
        raise ValueError(
            f"initial: a design can draw from {MOST_EXISTING} entries, and there may be"
            f" {problem.available.size}; set initial=0"
        )
    in_row = problem.available.sum(1)
    before_row = jnp.cumsum(in_row) - in_row
    number = jax.random.randint(key, (size,), 0, in_row.sum())  # of the entries that exist
    rows = jnp.searchsorted(before_row + in_row, number, side="right")

    def one(world: World, drawn: tuple[Array, Array]) -> tuple[World, None]:
        row, number = drawn
        exists = jnp.take(problem.available, row, axis=0, mode="clip")
        column = jnp.searchsorted(jnp.cumsum(exists), number - before_row[row], side="right")
        choice = Choice(row, column)
        return answer(noise_key, world, standing_offer(world), choice, beta=beta, once=once)[
            0
        ], None

    world = lax.scan(one, untouched(problem), (rows, number))[0]
    return world._replace(clock=jnp.zeros((), int))


def best_rewards(world: World, *, horizon: int, beta: float, once: bool) -> Array:
    """Expected rewards [horizon] of the best sequence from here under the standing offer.

    `once`: the largest open entries. beta = 1: the largest entry again and again. Else the largest
    values of entry beta^j over positive entries, and zeros where there are none left; where no
    entry is positive, the one that costs least again and again.
    """
    value = jnp.where(world.open, world.factor * world.problem.entries, -jnp.inf).ravel()
    if once or beta == 0:
        best = lax.top_k(value, min(horizon, value.size))[0]
        best = jnp.pad(best, (0, horizon - best.size), constant_values=-jnp.inf)
        if once:
            return best
        least_cost = jnp.zeros(horizon).at[0].set(best[0])
        return jnp.where(best[0] > 0, jnp.maximum(best, 0.0), least_cost)
    if beta == 1:
        return jnp.full(horizon, value.max())

    def take(value: Array, _: None) -> tuple[Array, Array]:
        choice = jnp.argmax(value)
        return value.at[choice].multiply(beta), value[choice]

    largest = value.max()
    least_cost = largest * jnp.power(jnp.asarray(beta, value.dtype), jnp.arange(horizon))
    return jnp.where(largest > 0, lax.scan(take, value, length=horizon)[1], least_cost)


def make_environment(
    make_problem: MakeProblem, *, initial: int, beta: float = 0.0, once: bool = True
) -> Environment:
    """The environment of the paper: everything that is left is on offer at every step.

    Args:
      make_problem: draws the matrix from a key and the number of the seed.
      initial: the size of the initial design.
      beta: discount of a repeated choice.
      once: whether repeats are forbidden.
    """
    at_least("initial", initial, 0)
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"beta: must lie in [0, 1], got {beta!r}")

    def reset(keys: SeedKeys, seed: Array) -> World:
        problem = make_problem(keys.problem, seed)
        return initial_design(keys.design, keys.noise, problem, size=initial, beta=beta, once=once)

    def answered(
        key: Array, world: World, offer: Offer, choice: Choice
    ) -> tuple[World, Outcome, Step]:
        return answer(key, world, offer, choice, beta=beta, once=once)

    return Environment(
        reset=reset,
        offer=lambda key, world: standing_offer(world),
        answer=answered,
        best=lambda key, world, horizon: best_rewards(world, horizon=horizon, beta=beta, once=once),
        once=once,
    )
