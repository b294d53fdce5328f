"""Upper confidence bounds, averaged over draws of the loadings (LinUCB; Zhao et al. 2013)."""

import jax.numpy as jnp

from smc_jax.beliefs.base import Belief
from smc_jax.checks import at_least
from smc_jax.policies.base import Best, Policy
from smc_jax.policies.ensemble_policy import ColumnView
from smc_jax.policies.greedy import best_rule
from smc_jax.policies.rewards import mean_reward
from smc_jax.policies.screened import on_ensemble


def ucb(
    belief: Belief, *, draws: int = 16, exploration: float = 1.0, kept: int | None = None
) -> Policy:
    """Chooses the highest w_d'm_n + exploration sqrt(w_d'C_n w_d), averaged over the draws.

    Where answers depend on values, it is what is collected on average, with exploration
    sqrt(w_d'C_n w_d) more for each answer.

    Args:
      belief: where the draws come from.
      draws: S, the number of parameter draws.
      exploration: how many standard deviations above the mean the bound is.
      kept: how many columns have their latent posteriors kept between two refits, where there are
        too many for all; None keeps all. Choices are the same, but that pending entries are closed
        and what they will teach is not left out. See `policies/screened.py`.
    """
    at_least("exploration", exploration, 0.0)

    def summarise(column: ColumnView) -> Best:
        mean, variance, _ = column.prediction
        # Rounding can leave the variance of what is all but known just below zero.
        bonus = exploration * jnp.sqrt(jnp.maximum(variance, 0.0))
        reward = mean_reward(column, mean, variance + column.noise[:, None] ** 2, bonus)
        return Best.of_column(reward, column.open)

    return on_ensemble(belief, best_rule(summarise), draws=draws, kept=kept)
