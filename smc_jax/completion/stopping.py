"""Whether what was seen suffices to complete the matrix: the stopping rule of Algs. 2 and 4."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.checks import between, positive
from smc_jax.completion.nuclear import noise_penalty, nuclear_path
from smc_jax.observations import Observations

# Fewer held-out entries say too little of an error to end a run.
FEWEST = 20


class HeldOut(NamedTuple):
    """Root mean square errors on held-out entries; NaN where fewer than FEWEST were held out."""

    completion: Array | np.ndarray  # []  of the convex completion
    zero: Array | np.ndarray  # []  of predicting 0


def held_out_errors(
    *, fraction: float, noise_deviation: float
) -> Callable[[Array, Observations], HeldOut]:
    """A function (key, observations) -> the errors on a part of what was seen.

    Each seen entry is held out with probability `fraction`; the convex completion of the others
    predicts it.
    """
    between("held_out", fraction, 0.0, 1.0)
    positive("noise_deviation", noise_deviation)

    def errors(key: Array, observations: Observations) -> HeldOut:
        seen, values = observations.seen(), observations.average()
        held = seen & jax.random.bernoulli(key, fraction, seen.shape)
        shown = seen & ~held
        penalty = noise_penalty(shown, noise_deviation)
        misfit = nuclear_path(values, shown, penalty=penalty).matrix - values
        number = jnp.where(held.sum() < FEWEST, jnp.nan, held.sum())
        return HeldOut(*(jnp.sqrt((held * x**2).sum() / number) for x in (misfit, values)))

    return errors


def completable_at(errors: HeldOut, *, noise_deviation: float, factor: float) -> np.ndarray:
    """The first refit [seeds] at which the matrix can be completed, -1 for none.

    The completion's error is within `factor` of the noise, there is more than noise, and it
    explains at least half of that: of little but noise, predicting 0 has a small error too.
    """
    noise = noise_deviation**2
    completion, zero = (np.asarray(error, np.float64) ** 2 for error in errors)
    holds = (completion <= factor**2 * noise) & (completion - noise <= 0.5 * (zero - noise))
    holds &= zero > noise
    first = np.pad(holds, ((0, 0), (0, 1)), constant_values=True).argmax(1)  # NaN never holds
    return np.where(holds.any(1), first, -1)
