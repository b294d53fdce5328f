"""Environments in which not everything is on offer: users who arrive, entries that close.

A wrapper is a function from an environment to an environment. What it offers depends on the key of
all offers and on the time alone, so that every policy of a seed meets the same offers.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.checks import at_least
from smc_jax.simulation.environment import Environment, World
from smc_jax.types import Offer

# Each wrapper has randomness of its own.
ARRIVALS, CLOSED = 1, 2


def _needs_once(name: str, environment: Environment) -> None:
    if not environment.once:
        raise ValueError(f"{name}: is for entries that are chosen once; set once=True")


def arrivals(environment: Environment, *, number: int = 1) -> Environment:
    """At every step `number` of the columns, at random, are present.

    The best sequence is exact where one column arrives at a time: the a-th time that a column is
    here, its a-th largest entry. Where several arrive, the rewards are an upper bound.
    """
    at_least("arrivals", number, 1)
    _needs_once("arrivals", environment)
    if not environment.standing:
        raise ValueError("arrivals: must be the innermost wrapper, where everything is on offer")

    def who(key: Array, clock: Array, columns: int) -> Array:
        at = jax.random.fold_in(jax.random.fold_in(key, ARRIVALS), clock)
        return jax.random.choice(at, columns, (number,), replace=False)

    def offer(key: Array, world: World) -> Offer:
        whole = environment.offer(key, world)
        present = who(key, world.clock, world.open.shape[1])
        is_open, factor = (jnp.take(x, present, axis=1) for x in (whole.open, whole.factor))
        return Offer(present, is_open, factor)

    def best(key: Array, world: World, horizon: int) -> Array:
        columns = world.open.shape[1]
        if number > columns:
            raise ValueError(f"arrivals: must be at most the {columns} columns, got {number}")
        clocks = world.clock + jnp.arange(horizon)
        present = jax.vmap(lambda clock: who(key, clock, columns))(clocks)  # [horizon, number]
        value = jnp.where(world.open, world.factor * world.problem.entries, -jnp.inf)
        if number == 1:
            return _best_of_each_arrival(present[:, 0], value)
        return _bound(value.max(0)[present].max(1), value)

    return environment._replace(offer=offer, best=best, standing=False, exact=number == 1)


def _best_of_each_arrival(arriving: Array, value: Array) -> Array:
    """The reward [T] of the a-th arrival of a column: its a-th largest value, 0 beyond the last."""
    ordered = -jnp.sort(-value, axis=0)

    def one(times: Array, column: Array) -> tuple[Array, Array]:
        rank = times[column]
        there = ordered.at[rank, column].get(mode="fill", fill_value=-jnp.inf)
        return times.at[column].add(1), jnp.where(jnp.isfinite(there), there, 0.0)

    start = jnp.zeros(value.shape[1], int)
    return lax.scan(one, start, arriving)[1]


def _bound(each: Array, value: Array) -> Array:
    """Increments of the lesser of two bounds on a sum of t rewards.

    One is the sum of what each offer [T] has at the most, as if nothing were ever taken, the other
    the sum of the t largest values. Nothing counts as less than 0, which is what an offer earns
    that is empty, or has become so.
    """
    horizon = each.size
    each = jnp.maximum(each, 0.0)
    largest = lax.top_k(value.ravel(), min(horizon, value.size))[0]
    largest = jnp.pad(jnp.maximum(largest, 0.0), (0, horizon - largest.size))
    total = jnp.minimum(jnp.cumsum(each), jnp.cumsum(largest))
    return jnp.diff(total, prepend=0.0)


def restricted(environment: Environment, closed: Callable[[Array, Array], Array]) -> Environment:
    """Entries that are closed for a time.

    Args:
      environment: what is offered otherwise.
      closed: from a key, the same at all times, and the time to which entries are closed then, as
        booleans that broadcast against [D, N]: [D, 1] for rows, [N] for columns.
    """
    _needs_once("restricted", environment)

    def offer(key: Array, world: World) -> Offer:
        whole = environment.offer(key, world).everyone()
        own = jax.random.fold_in(key, CLOSED)
        shut = jnp.broadcast_to(closed(own, world.clock), world.open.shape)
        assert whole.columns is not None
        return whole._replace(open=whole.open & ~jnp.take(shut, whole.columns, axis=1))

    def best(key: Array, world: World, horizon: int) -> Array:
        value = jnp.where(world.open, world.factor * world.problem.entries, -jnp.inf)

        def largest(clock: Array) -> Array:
            own = jax.random.fold_in(key, CLOSED)
            return jnp.where(closed(own, clock), -jnp.inf, value).max()

        each = lax.map(largest, world.clock + jnp.arange(horizon))
        # Where something is closed, the offer may be empty, which earns more than a loss.
        within = jnp.cumsum(jnp.maximum(environment.best(key, world, horizon), 0.0))
        total = jnp.minimum(jnp.cumsum(_bound(each, value)), within)
        return jnp.diff(total, prepend=0.0)

    return environment._replace(offer=offer, best=best, standing=False, exact=False)
