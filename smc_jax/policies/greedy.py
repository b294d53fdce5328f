"""The best posterior mean, no exploration."""

from jax import Array

from smc_jax.policies.base import Policy, Setting, best_available
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.types import View


def greedy(setting: Setting, *, draws: int = 16) -> Policy:
    """Chooses the entry whose mean over the draws is highest, given everything seen so far."""

    def summarise(column: ColumnView) -> Array:
        return column.prediction.mean.mean(0)

    def choose(key: Array, state: LiveState, view: View) -> Array:
        del key
        return best_available(view.discount * state.summary, view.available)

    return live(setting.belief, draws=draws, summarise=summarise, choose=choose)
