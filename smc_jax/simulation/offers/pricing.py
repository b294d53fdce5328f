"""What a choice costs."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from smc_jax.checks import can_be_cost
from smc_jax.simulation.environment import Environment, World
from smc_jax.types import Offer


def costs(environment: Environment, cost: ArrayLike) -> Environment:
    """The reward of an entry is its value for its cost: value / cost.

    The factor of the offer is divided by the cost, which policies know beforehand; regret is in
    rewards too, and as exact as it was.

    Args:
      environment: what is offered.
      cost: positive numbers that broadcast against [D, N]: [D, 1] one a row, [N] one a column.
        Neither they nor 1 / cost may be beyond the numbers of 32 bits.
    """
    given = np.asarray(cost, float)
    if given.ndim > 2 or not can_be_cost(given).all():
        raise ValueError("costs: must be positive numbers, one for each entry, row or column")

    def price(world: World) -> Array:
        shape = world.open.shape
        try:
            fits = np.broadcast_shapes(given.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"costs: have the shape {given.shape}, the matrix has {shape}")
        return jnp.broadcast_to(jnp.asarray(given, world.factor.dtype), shape)

    def offer(key: Array, world: World) -> Offer:
        whole, each = environment.offer(key, world), price(world)
        if whole.columns is not None:
            each = jnp.take(each, whole.columns, axis=1)
        return whole._replace(factor=whole.factor / each)

    def best(key: Array, world: World, horizon: int) -> Array:
        priced = world._replace(factor=world.factor / price(world))
        return environment.best(key, priced, horizon)

    return environment._replace(
        offer=offer,
        best=best,
        factor=lambda world: environment.factor(world) / price(world),
    )
