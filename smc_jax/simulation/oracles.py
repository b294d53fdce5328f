"""What a policy is told before the first choice.

An oracle is told of the matrix: the parameters it was drawn from, or its own moments. Others are
told what the experiment knows beforehand.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from smc_jax.beliefs.pairwise import pairs, principal_factors, row_means, shrunk
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.simulation.problem import Problem


def truth(problem: Problem) -> Parameters:
    """The parameters that the matrix was drawn from."""
    if problem.truth is None:
        raise ValueError(
            "oracle.covariance: these data have no true parameters;"
            " choose second_moment or population"
        )
    return problem.truth


def population(*, centred: bool) -> Callable[[Problem], Parameters]:
    """Mean and covariance over all columns of the matrix itself, or the moment about zero.

    What rows share is told from the noise of an entry, which no other entry says anything about.
    The moment is made of mean and covariance: of products of pairs that are not all there, with
    means far from zero, many eigenvalues would be negative.
    """

    def reveal(problem: Problem) -> Parameters:
        whole = Observations.from_matrix(problem.entries, problem.available)
        mean = row_means(whole, strength=0.0)
        shared = pairs(whole, mean)
        covariance, centre = shrunk(shared, strength=0.0), mean
        if not centred:
            covariance, centre = covariance + jnp.outer(mean, mean), jnp.zeros_like(mean)
        return principal_factors(covariance, centre, columns=shared.count.mean())

    return reveal


def nothing(problem: Problem) -> None:
    """For a policy that is told of no history, where others are."""
    del problem


REVEALED: dict[str, Callable[[Problem], Parameters | None]] = {
    "nothing": nothing,
    "true": truth,
    "second_moment": population(centred=False),
    "population": population(centred=True),
}


def prior_of(told: str | None, problem: Problem, prior: Any = None) -> Any:
    """The prior of a policy: what an oracle is told, the history of the problem, or a prior.

    Args:
      told: `Policy.told`.
      problem: of the seed.
      prior: of all seeds, for the policies that are no oracles.
    """
    if told is not None:
        return REVEALED[told](problem)
    return prior if problem.history is None else problem.history
