"""One matrix to be discovered. Nobody but the simulator, and who makes data for it, sees this."""

from collections.abc import Callable
from typing import NamedTuple

from jax import Array

from smc_jax.beliefs.history import History
from smc_jax.model.parameters import Parameters


class Problem(NamedTuple):
    """The truth."""

    entries: Array  # [D, N]  what an answer is, up to `noise`
    noise: Array  # []  standard deviation of an answer; 0 where the noise is part of the entry
    available: Array  # [D, N] bool: entries that exist
    truth: Parameters | None  # what the matrix was drawn from, where it was
    history: History | None = None  # other columns, which policies are told of and nobody chooses


MakeProblem = Callable[[Array, Array], Problem]  # (key, number of the seed) -> the matrix
