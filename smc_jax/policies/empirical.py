"""Conditional normal draws under the covariance of what has been seen."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs import Belief, Diagnostics
from smc_jax.covariance import factorise, pairs, row_means, shrunk
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.thompson import point_sampling
from smc_jax.types import Observations, Parameters


def pairwise(*, strength: float, floor: float, centred: bool) -> Belief:
    """The shrunk pairwise-complete covariance as a belief without uncertainty."""

    def estimate(observations: Observations) -> Parameters:
        zero = jnp.zeros(observations.total.shape[0], observations.total.dtype)
        centre = row_means(observations) if centred else zero
        return factorise(
            shrunk(pairs(observations, centre), strength=strength), centre, floor=floor
        )

    def init(key: Array, observations: Observations, problem: Problem) -> Parameters:
        del key, problem
        return estimate(observations)

    def refit(key: Array, state: Any, observations: Observations) -> Parameters:
        del key, state
        return estimate(observations)

    return Belief(init, refit, lambda key, parameters: parameters, Diagnostics.finite_only)


def empirical(
    setting: Setting,
    *,
    strength: float = 2.0,
    floor: float = 0.5,
    centred: bool = False,
    noisy: bool = True,
) -> Policy:
    """Thompson draws from N(mean, covariance) of what was seen, conditioned on every pick.

    Args:
      setting: of the experiment.
      strength: each pair of rows is taken as seen so many more times, uncorrelated.
      floor: the least eigenvalue, as a fraction of their mean. Shrinkage alone does not make a
        pairwise-complete estimate positive definite; raising eigenvalues does, and leaves the
        leading ones, which say where the good entries are, alone.
      centred: whether rows have means, or the second moment about zero is taken.
      noisy: see `thompson`; the noise has the least eigenvalue for its variance.
    """
    belief = pairwise(strength=strength, floor=floor, centred=centred)
    return point_sampling(belief, entry_noise=setting.entry_noise and noisy)
