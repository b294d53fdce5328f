"""The best entry of OptSpace's completion, no exploration: a rule without draws."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs.base import Diagnostics, no_prior
from smc_jax.beliefs.history import History
from smc_jax.beliefs.pairwise import row_means
from smc_jax.checks import at_least
from smc_jax.completion import optspace as algorithm
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy, best_open
from smc_jax.policies.rewards import expected_reward
from smc_jax.types import Choice, Offer, Outcome


class Completed(NamedTuple):
    """The completion of what was seen at the last refit."""

    matrix: Array  # [D, N]
    rank: Array  # []
    history: Observations | None = None  # [D, M]  columns that are completed with the others


def completion(
    *,
    rank: int = 1,
    guess: bool = False,
    penalty: float = 0.0,
    steps: int = 50,
    centred: bool = False,
) -> Policy:
    """Greedy on the completion, which is computed anew at every refit.

    Columns of history, where it is told of some, are completed with the others.

    Args:
      rank: the rank of the completion, or with `guess` the largest that may be guessed.
      guess: whether the rank is guessed from the singular values.
      penalty: on the core; see `smc_jax.completion.optspace.optspace`.
      steps: steps of descent, at most.
      centred: whether what deviates from the row means is completed, or the values themselves.
    """
    at_least("rank", rank, 1)
    at_least("penalty", penalty, 0.0)
    at_least("steps", steps, 1)

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> Completed:
        del key, offer
        known = prior.data if isinstance(prior, History) else None
        if known is None:
            no_prior("completion", prior)
        if rank > min(data.rows, data.columns):
            raise ValueError(f"rank: must be at most {min(data.rows, data.columns)}, got {rank}")
        return Completed(jnp.zeros_like(data.average()), jnp.zeros((), int), known)

    def refit(key: Array, state: Completed, data: Observations, offer: Offer) -> Completed:
        del key, offer
        own = data.columns
        if state.history is not None:
            data = data.beside(state.history)
        centre = (row_means(data) if centred else jnp.zeros(data.rows))[:, None]
        fit = algorithm.optspace(
            data.average() - centre,
            data.seen(),
            rank=rank,
            guess=guess,
            penalty=penalty,
            steps=steps,
        )
        matrix = (centre + algorithm.complete(fit))[:, :own]
        return Completed(matrix, fit.rank, state.history)

    def choose(key: Array, state: Completed, data: Observations, offer: Offer) -> Choice:
        del key, data
        matrix = state.matrix
        if offer.columns is not None:
            matrix = jnp.take(matrix, offer.columns, axis=1, mode="clip")
        return best_open(expected_reward(offer, matrix), offer)

    def absorb(
        key: Array, state: Completed, data: Observations, outcome: Outcome, offer: Offer
    ) -> Completed:
        del key, data, outcome, offer
        return state

    def diagnose(state: Completed) -> Diagnostics:
        diagnostics = Diagnostics.finite_only(state.matrix)
        return diagnostics._replace(effective_rank=1.0 * state.rank) if guess else diagnostics

    return Policy(init, refit, choose, absorb, diagnose)
