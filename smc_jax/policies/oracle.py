"""The oracle: knows the covariance, and only has to find the best entries."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from smc_jax import beliefs
from smc_jax.covariance import factorise, pairs, row_means, shrunk
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.ids import information_directed
from smc_jax.policies.thompson import point_sampling
from smc_jax.types import Observations, Parameters


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

    The moment is made of the two: of products of pairs that are not all there, with means far from
    zero, many eigenvalues would be negative.
    """

    def reveal(problem: Problem) -> Parameters:
        whole = Observations.from_matrix(problem.entries, problem.available)
        mean = row_means(whole, strength=0.0)
        covariance = shrunk(pairs(whole, mean), strength=0.0)
        if centred:
            return factorise(covariance, mean, floor=1e-3)
        return factorise(covariance + jnp.outer(mean, mean), jnp.zeros_like(mean), floor=1e-3)

    return reveal


COVARIANCES = {
    "true": truth,
    "second_moment": population(centred=False),
    "population": population(centred=True),
}


def oracle(setting: Setting, *, covariance: str = "true", **settings: Any) -> Policy:
    """Picks by Thompson draws (the paper) or by IDS, under parameters that it is told.

    Args:
      setting: of the experiment.
      covariance: `true` (what the data were drawn from), or, over all columns of the matrix
        itself, `second_moment` about zero (the paper on real data) or mean and covariance
        (`population`).
      **settings: `picks`, `thompson` or `ids`; `noisy` of thompson; `draws` and `best_of` of ids.
    """
    if covariance not in COVARIANCES:
        known = ", ".join(COVARIANCES)
        raise ValueError(f"oracle.covariance: unknown {covariance!r}; choose from {known}")
    return _told(setting, "oracle", COVARIANCES[covariance], **settings)


def mean_oracle(setting: Setting, **settings: Any) -> Policy:
    """The oracle that knows mean and covariance of the matrix itself; settings are `oracle`'s."""
    return _told(setting, "mean_oracle", population(centred=True), **settings)


def _told(
    setting: Setting,
    name: str,
    reveal: Callable[[Problem], Parameters],
    *,
    picks: str = "thompson",
    noisy: bool = True,
    draws: int = 16,
    best_of: int = 1,
) -> Policy:
    belief = beliefs.known(reveal)
    if picks == "thompson":
        return point_sampling(belief, entry_noise=setting.entry_noise and noisy)
    if picks == "ids":
        return information_directed(belief, draws=draws, best_of=best_of)
    raise ValueError(f"{name}.picks: unknown {picks!r}; choose from thompson, ids")
