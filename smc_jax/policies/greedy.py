"""The best posterior mean, no exploration."""

from collections.abc import Callable

from jax import Array

from smc_jax.beliefs.base import Belief
from smc_jax.policies.base import Best, Policy
from smc_jax.policies.ensemble_policy import ColumnView, Rule
from smc_jax.policies.rewards import mean_reward
from smc_jax.policies.screened import on_ensemble
from smc_jax.types import Choice, Offer


def choose_best(key: Array, summary: Best, shared: tuple, offer: Offer) -> Choice:
    """The best of the columns' best entries."""
    del key, shared, offer
    return summary.choice()


def best_rule(summarise: Callable[[ColumnView], Best]) -> Rule:
    """The rule that chooses the best of all columns."""
    return Rule(summarise, choose_best, hope=lambda best: best.score)


def greedy(belief: Belief, *, draws: int = 16, kept: int | None = None) -> Policy:
    """Chooses the entry whose mean over the draws is highest, given everything seen so far.

    Args:
      belief: where the draws come from.
      draws: S, the number of parameter draws.
      kept: how many columns have their latent posteriors kept between two refits, where there are
        too many for all; None keeps all. Choices are the same, but that pending entries are closed
        and what they will teach is not left out. See `policies/screened.py`.
    """

    def summarise(column: ColumnView) -> Best:
        mean, variance, _ = column.prediction
        reward = mean_reward(column, mean, variance + column.noise[:, None] ** 2)
        return Best.of_column(reward, column.open)

    return on_ensemble(belief, best_rule(summarise), draws=draws, kept=kept)
