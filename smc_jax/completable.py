"""Whether what was seen suffices to complete the matrix: the stopping rule of Algs. 2 and 4."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.nuclear import noise_penalty, nuclear_path
from smc_jax.types import Observations


def held_out_error(
    *, fraction: float, noise_deviation: float
) -> Callable[[Array, Observations], Array]:
    """A function (key, observations) -> root mean square error [] on held-out seen entries.

    Each seen entry is held out with probability `fraction`; the convex completion of the others
    predicts it. NaN where nothing was held out.
    """

    def error(key: Array, observations: Observations) -> Array:
        seen = observations.count > 0
        values = observations.total / jnp.maximum(observations.count, 1.0)
        held = seen & jax.random.bernoulli(key, fraction, seen.shape)
        shown = seen & ~held
        penalty = noise_penalty(shown, noise_deviation)
        misfit = nuclear_path(values, shown, penalty=penalty).matrix - values
        return jnp.sqrt(jnp.mean(misfit**2, where=held))

    return error
