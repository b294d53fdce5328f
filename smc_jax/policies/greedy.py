"""The best posterior mean, no exploration."""

from jax import Array

from smc_jax.beliefs.base import Belief
from smc_jax.policies.base import Best, Policy
from smc_jax.policies.ensemble_policy import ColumnView, Rule, ensemble_policy
from smc_jax.policies.rewards import mean_reward
from smc_jax.types import Choice, Offer


def choose_best(key: Array, summary: Best, shared: tuple, offer: Offer) -> Choice:
    """The best of the columns' best entries."""
    del key, shared, offer
    return summary.choice()


def greedy(belief: Belief, *, draws: int = 16) -> Policy:
    """Chooses the entry whose mean over the draws is highest, given everything seen so far.

    Args:
      belief: where the draws come from.
      draws: S, the number of parameter draws.
    """

    def summarise(column: ColumnView) -> Best:
        mean, variance, _ = column.prediction
        reward = mean_reward(column, mean, variance + column.noise[:, None] ** 2)
        return Best.of_column(reward, column.open)

    return ensemble_policy(belief, Rule(summarise, choose_best), draws=draws)
