"""Entries that close and open again: at random, by their row's stock, by a calendar."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.checks import at_least, between
from smc_jax.simulation.environment import Environment, World
from smc_jax.simulation.offers.best import (
    CLOSED,
    STOCK,
    at_clocks,
    best_in_groups,
    gains,
    increments,
    largest_gains,
    needs_once,
    open_values,
    own_key,
)
from smc_jax.types import Offer

Closed = Callable[[Array, Array, tuple[int, ...]], Array]  # (key, clock, shape [D, N]) -> closed


def _closing(environment: Environment, closed: Closed, kinds: tuple[int, ...] = ()) -> Environment:
    """Entries that are closed at a time, all of them a function of the key and the time.

    Args:
      environment: what is offered otherwise.
      closed: which entries are.
      kinds: of the randomness in it.
    """

    def offer(key: Array, world: World) -> Offer:
        whole = environment.offer(key, world).everyone()
        shut = jnp.broadcast_to(closed(key, world.clock, world.open.shape), world.open.shape)
        assert whole.columns is not None
        return whole._replace(open=whole.open & ~jnp.take(shut, whole.columns, axis=1))

    def best(key: Array, world: World, horizon: int) -> Array:
        value = open_values(environment, world)

        def largest(clock: Array) -> Array:
            return jnp.where(closed(key, clock, value.shape), -jnp.inf, value).max()

        each = jax.lax.map(largest, world.clock + jnp.arange(horizon))
        # Where something is closed, the offer may be empty, which earns more than a loss.
        within = gains(environment.best(key, world, horizon))
        return increments(gains(each), largest_gains(value, horizon), within)

    return environment._replace(
        offer=offer,
        best=best,
        standing=False,
        exact=False,
        together=(),
        kinds=environment.kinds + kinds,
    )


def restricted(environment: Environment, closed: Callable[[Array, Array], Array]) -> Environment:
    """Entries that are closed for a time; regret is measured from an upper bound.

    Args:
      environment: what is offered otherwise.
      closed: from a key, the same at all times, and the time to which entries are closed then, as
        booleans that broadcast against [D, N]: [D, 1] for rows, [N] for columns.
    """
    needs_once("restricted", environment)
    before = environment.kinds.count(CLOSED)

    def shut(key: Array, clock: Array, shape: tuple[int, ...]) -> Array:
        return closed(own_key(key, CLOSED, before), clock)

    return _closing(environment, shut, (CLOSED,))


def stock(environment: Environment, *, in_stock: float, duration: float = 100.0) -> Environment:
    """Rows are in stock for a while, and then not.

    The time of a row is cut into periods of duration (1 - in_stock) picks, from a phase of its
    own, and in each of them it is in stock or not, independently: a row that came stays for
    `duration` picks on average. Where nothing else is closed, the best sequence is exact as that of
    several `arrivals` is; else it is an upper bound.

    Args:
      environment: what is offered otherwise.
      in_stock: the share of the time that a row is in stock.
      duration: for how many picks on average, at least 1 / (1 - in_stock).
    """
    needs_once("stock", environment)
    between("in_stock", in_stock, 0.0, 1.0)
    shortest = 1.0 / (1.0 - in_stock)
    if not (math.isfinite(duration) and duration >= shortest):
        raise ValueError(
            f"duration: must be at least 1 / (1 - in_stock) = {shortest:g}, got {duration!r}"
        )
    period, before = duration * (1.0 - in_stock), environment.kinds.count(STOCK)

    def out(key: Array, clock: Array, shape: tuple[int, ...]) -> Array:
        """Which rows [D, 1] are out of stock."""
        row_keys = jax.random.split(own_key(key, STOCK, before), shape[0])

        def one(key: Array) -> Array:
            phase_key, period_key = jax.random.split(key)
            number = jnp.floor(clock / period + jax.random.uniform(phase_key)).astype(int)
            return jax.random.uniform(jax.random.fold_in(period_key, number)) >= in_stock

        return jax.vmap(one)(row_keys)[:, None]

    made = _closing(environment, out, (STOCK,))
    if not environment.standing:
        return made

    def best(key: Array, world: World, horizon: int) -> Array:
        value = open_values(environment, world)
        absent = at_clocks(lambda t: out(key, t, value.shape)[:, 0], world.clock, horizon)
        return jnp.maximum(best_in_groups(~absent, value.T), 0.0)

    return made._replace(best=best, exact=True, together=("row",))


Closure = tuple[int | None, int | None, int, int]
LAST_PICK = 2**31 - 1  # the clock has 32 bits


def calendar(environment: Environment, closures: Sequence[Closure]) -> Environment:
    """Entries are closed at known times; regret is measured from an upper bound.

    Args:
      environment: what is offered otherwise.
      closures: (row, column, first pick, last pick), picks counted from 0; None in place of the
        row means every row, None in place of the column every column.
    """
    needs_once("calendar", environment)
    for closure in closures:
        row, column, first, last = closure
        for name, index in (("row", row), ("column", column)):
            at_least(f"calendar: {name}", index, 0, optional=True)
        at_least("calendar: first", first, 0)
        if last < first:
            raise ValueError(f"calendar: the last pick is before the first in {tuple(closure)}")
    # A column more than there are, and a row more, stand for all of them.
    table = np.array(
        [[-1 if x is None else x for x in closure] for closure in closures], int
    ).reshape(-1, 4)
    table[:, 2:] = np.minimum(table[:, 2:], LAST_PICK)

    def closed(key: Array, clock: Array, shape: tuple[int, ...]) -> Array:
        del key
        for name, indices, size in zip(("row", "column"), table.T[:2], shape, strict=True):
            if indices.size and indices.max() >= size:
                raise ValueError(f"calendar: {name} {indices.max()} is not one of the {size}")
        row, column, first, last = table.T
        rows, columns = (np.where(x < 0, n, x) for x, n in zip((row, column), shape, strict=True))
        now = (first <= clock) & (clock <= last)
        shut = jnp.zeros((shape[0] + 1, shape[1] + 1), bool).at[rows, columns].max(now)
        every = shut[-1:, :-1] | shut[:-1, -1:] | shut[-1, -1]
        return shut[:-1, :-1] | every

    return _closing(environment, closed)
