"""The highest of many values: as few passes over a large matrix as there can be on a CPU."""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.batching import mapped
from smc_jax.algebra.extremes import mean_of_largest
from smc_jax.policies import ensemble
from smc_jax.policies.rewards import expected_reward
from smc_jax.types import Offer

FEW = 512  # values that are found one by one faster than by a bisection over all


def largest(values: Array, number: int) -> Array:
    """The `number` largest of values [D, C], the largest first; all of them where there are fewer.

    `lax.top_k` of many values is slow on CPUs. Here each column is cut into pieces: the largest
    values are in the pieces that have the largest maxima, of which no more than `number` matter.
    """
    rows, columns = values.shape
    number = min(number, values.size)
    # As many maxima of pieces as values in the pieces that matter.
    height = -(-rows // max(round(math.sqrt(rows * number / columns)), 1))
    if 2 * number * height >= values.size:
        return lax.top_k(values.ravel(), number)[0]
    pieces = -(-rows // height)
    padded = jnp.pad(values, ((0, pieces * height - rows), (0, 0)), constant_values=-jnp.inf)
    cut = padded.reshape(pieces, height, columns)
    piece, column = jnp.divmod(lax.top_k(cut.max(1).ravel(), number)[1], columns)
    return lax.top_k(cut[piece, :, column].ravel(), number)[0]


def average_of_largest(values: Array, is_open: Array, number: int) -> Array:
    """`mean_of_largest` of the open values [D, C] to the last bit, which must all be finite.

    The bisection asks twenty times how many values are as large as some bound. It gets the same
    answers from the number-th largest value, which is found once.
    """
    masked = jnp.where(is_open, values, -jnp.inf)
    if number > FEW:
        return mean_of_largest(masked, number)
    there = jnp.minimum(number, is_open.sum())
    found = largest(masked, number)
    least = jnp.take(found, jnp.maximum(there, 1) - 1, mode="clip")  # the last of the largest

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        enough = least >= middle
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    ends = (jnp.where(is_open, values, jnp.inf).min(), found.max())
    last = lax.fori_loop(0, 20, halve, ends)[1]
    mean = last + jnp.maximum(masked - last, 0.0).sum() / jnp.maximum(there, 1)
    return jnp.where(there > 0, mean, 0.0)


def optimum_of(best_of: int) -> Callable[[Array, ensemble.Ensemble, Offer, float], Array]:
    """R* [] of the standing offer, as `ids.optimum_rule` has it for a known matrix."""

    def optimum(key: Array, members: ensemble.Ensemble, offer: Offer, part: float) -> Array:
        del key, part

        def one(draw: ensemble.Ensemble) -> Array:
            sample = ensemble.predict_one(draw).sample
            return average_of_largest(expected_reward(offer, sample), offer.open, best_of)

        return mapped(one, members, on_cpu=1).mean()

    return optimum
