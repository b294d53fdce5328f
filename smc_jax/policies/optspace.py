"""The best entry of OptSpace's completion, no exploration."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax import optspace as completion
from smc_jax.beliefs import Diagnostics
from smc_jax.covariance import row_means
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy, Setting, best_available
from smc_jax.types import Outcome, View


class Completed(NamedTuple):
    """The completion of what was seen at the last refit."""

    matrix: Array  # [D, N]
    rank: Array  # []


def optspace(
    setting: Setting,
    *,
    rank: int = 1,
    guess: bool = False,
    penalty: float = 0.0,
    steps: int = 50,
    centred: bool = False,
) -> Policy:
    """Greedy on the completion, which is computed anew at every refit.

    Args:
      setting: of the experiment; its belief is not used.
      rank: of the completion, or with `guess` the largest that may be guessed.
      guess: whether the rank is guessed from the singular values.
      penalty: see `smc_jax.optspace.optspace`.
      steps: of descent, at most.
      centred: whether what deviates from the row means is completed, or the values themselves.
    """
    del setting

    def init(key: Array, view: View, problem: Problem) -> Completed:
        del key, problem
        return Completed(jnp.zeros_like(view.observations.total), jnp.zeros((), int))

    def refit(key: Array, state: Completed, view: View) -> Completed:
        del key, state
        zero = jnp.zeros(view.observations.count.shape[0])
        centre = (row_means(view.observations) if centred else zero)[:, None]
        fit = completion.optspace(
            view.observations.average() - centre,
            view.observations.count > 0,
            rank=rank,
            guess=guess,
            penalty=penalty,
            steps=steps,
        )
        return Completed(centre + completion.complete(fit), fit.rank)

    def choose(key: Array, state: Completed, view: View) -> Array:
        del key
        return best_available(view.discount * state.matrix, view.available)

    def absorb(key: Array, state: Completed, view: View, outcome: Outcome) -> Completed:
        del key, view, outcome
        return state

    def diagnose(state: Completed) -> Diagnostics:
        diagnostics = Diagnostics.finite_only(state.matrix)
        return diagnostics._replace(effective_rank=1.0 * state.rank) if guess else diagnostics

    return Policy(init, refit, choose, absorb, diagnose)
