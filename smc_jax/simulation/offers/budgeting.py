"""Rows and columns that bear a number of choices in all."""

import jax.numpy as jnp
from jax import Array

from smc_jax.checks import at_least
from smc_jax.simulation.environment import Environment, Step, World
from smc_jax.simulation.offers.best import (
    gains,
    increments,
    largest_gains,
    needs_once,
    open_values,
)
from smc_jax.types import Choice, Offer, Outcome


def budgets(
    environment: Environment, *, row: int | None = None, column: int | None = None
) -> Environment:
    """The entries of a row, or of a column, close when it was chosen as often as it can bear.

    Every ask counts, also one that was refused (see `simulation.silence`) and those of the initial
    design, in which an answered entry counts once, however often it was drawn. A budget of one
    side is part of the best sequence as it is where the entries of that side are on offer together:
    without other wrappers, a column's among arrivals, a row's where rows are in stock. Else the
    best sequence is an upper bound.

    Args:
      environment: what is offered otherwise.
      row: choices that a row bears; None: as many as may be.
      column: choices that a column bears.
    """
    needs_once("budgets", environment)
    limits = {"row": row, "column": column}
    for side, budget in limits.items():
        at_least(side, budget, 1, optional=True)
    sides = {side: budget for side, budget in limits.items() if budget is not None}
    if not sides:
        raise ValueError("row: give a budget of rows, of columns, or of both")
    across = {"row": 1, "column": 0}  # the axis along which a side is summed

    def left(world: World, side: str) -> Array:
        """The choices that rows [D, 1], or columns [1, N], still bear."""
        asks = jnp.minimum(world.times, 1) + world.data.times_refused().astype(world.times.dtype)
        used = asks.sum(across[side], keepdims=True)
        return jnp.maximum(sides[side] - used, 0)

    def offer(key: Array, world: World) -> Offer:
        whole = environment.offer(key, world)
        bearing = jnp.ones_like(world.open)
        for side in sides:
            bearing &= left(world, side) > 0
        if whole.columns is not None:
            bearing = jnp.take(bearing, whole.columns, axis=1)
        return whole._replace(open=whole.open & bearing)

    def answer(
        key: Array, world: World, offer: Offer, choice: Choice
    ) -> tuple[World, Outcome, Step]:
        # Budgets may leave nothing on offer; then time passes, as where an offer names columns.
        return environment.answer(key, world, offer.everyone(), choice)

    def within(world: World, side: str) -> World:
        """The world in which of each row, or column, only the best entries that it bears exist."""
        value, axis = open_values(environment, world), across[side]
        rank = jnp.argsort(jnp.argsort(-value, axis=axis), axis=axis)
        return world._replace(open=world.open & (rank < left(world, side)))

    exact = environment.exact and len(sides) == 1 and set(sides) <= set(environment.together)

    def best(key: Array, world: World, horizon: int) -> Array:
        if exact:
            (side,) = sides
            rewards = environment.best(key, within(world, side), horizon)
            return jnp.where(jnp.isfinite(rewards), rewards, 0.0)
        totals = [gains(environment.best(key, world, horizon))]
        for side in sides:
            limited = within(world, side)
            if side in environment.together:
                totals.append(gains(environment.best(key, limited, horizon)))
            else:
                totals.append(largest_gains(open_values(environment, limited), horizon))
        return increments(*totals)

    together = tuple(sides) if exact else ()
    return environment._replace(
        offer=offer, answer=answer, best=best, standing=False, exact=exact, together=together
    )
