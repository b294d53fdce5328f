"""The best posterior mean, no exploration."""

from jax import Array

from smc_jax.policies.base import Best, Policy, Setting
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.types import View


def greedy(setting: Setting, *, draws: int = 16) -> Policy:
    """Chooses the entry whose mean over the draws is highest, given everything seen so far."""

    def summarise(column: ColumnView) -> Best:
        mean = column.prediction.mean.mean(0)
        return Best.of_column(column.discount * mean, column.available)

    def choose(key: Array, state: LiveState, view: View) -> Array:
        del key, view
        return state.summary.choice()

    return live(setting.belief, draws=draws, summarise=summarise, choose=choose)
