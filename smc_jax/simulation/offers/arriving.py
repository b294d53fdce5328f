"""Columns that come and go: users who arrive."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from smc_jax.checks import at_least
from smc_jax.simulation.environment import Environment, World
from smc_jax.simulation.offers.best import (
    ACTIVITY,
    ARRIVALS,
    at_clocks,
    best_in_groups,
    best_of_each_arrival,
    needs_once,
    open_values,
    own_key,
)
from smc_jax.types import Offer


def arrivals(
    environment: Environment,
    *,
    number: int = 1,
    activity: float = 0.0,
    weights: ArrayLike | None = None,
) -> Environment:
    """At every step `number` of the columns, at random, are present.

    The best sequence is exact where one column arrives at a time: the a-th time that a column is
    here, its a-th largest entry. Where several arrive, it is the best basis of a transversal
    matroid, and each loss in it counts as 0: it is exact where there is no loss in it, and an upper
    bound else. (A policy that empties columns on purpose can meet offers with nothing in them, and
    lose less than one that serves every offer.)

    Args:
      environment: the standing offer.
      number: how many columns are present.
      activity: how unevenly columns arrive: the standard deviation of the logarithm of their
        weights, which are drawn for every seed; 0: all arrive equally often.
      weights: [N] the weights themselves, positive: where several columns arrive, one after another
        is drawn, with probabilities in proportion to the weights of those that are left.
    """
    at_least("arrivals", number, 1)
    at_least("activity", activity, 0.0)
    needs_once("arrivals", environment)
    if not environment.standing:
        raise ValueError("arrivals: must be the innermost wrapper, where everything is on offer")
    if weights is not None:
        given = np.asarray(weights, float)
        if activity:
            raise ValueError("activity: must be 0 where weights are given")
        if given.ndim != 1 or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(f"weights: must be one positive number a column, got {weights!r}")

    def chances(key: Array, columns: int) -> Array | None:
        """Probabilities [N] of the columns; None where they are equal."""
        if weights is not None:
            if given.size != columns:
                raise ValueError(f"weights: must be one a column, {columns}, got {given.size}")
            return jnp.asarray(given / given.sum(), jnp.result_type(float))
        if not activity:
            return None
        return jax.nn.softmax(activity * jax.random.normal(own_key(key, ACTIVITY), (columns,)))

    def who(key: Array, clock: Array, columns: int) -> Array:
        at = jax.random.fold_in(own_key(key, ARRIVALS), clock)
        chance = chances(key, columns)
        return jax.random.choice(at, columns, (number,), replace=False, p=chance)

    def offer(key: Array, world: World) -> Offer:
        whole = environment.offer(key, world)
        present = who(key, world.clock, world.open.shape[1])
        return Offer(present, *(jnp.take(x, present, axis=1) for x in (whole.open, whole.factor)))

    def best(key: Array, world: World, horizon: int) -> Array:
        columns = world.open.shape[1]
        if number > columns:
            raise ValueError(f"arrivals: must be at most the {columns} columns, got {number}")
        present = at_clocks(lambda clock: who(key, clock, columns), world.clock, horizon)
        value = open_values(environment, world)
        if number == 1:
            return best_of_each_arrival(present[:, 0], value)
        here = jnp.zeros((horizon, columns), bool)
        here = here.at[jnp.arange(horizon)[:, None], present].set(True)
        return jnp.maximum(best_in_groups(here, value), 0.0)

    return environment._replace(offer=offer, best=best, standing=False, together=("column",))
