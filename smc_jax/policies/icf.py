"""Interactive collaborative filtering (Zhao, Zhang & Wang 2013): bandits on PMF by Gibbs."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs import standardised
from smc_jax.pmf import gibbs
from smc_jax.policies.base import Best, Policy, Setting
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.policies.thompson import sampling
from smc_jax.types import View

RULES = ("thompson", "linucb")


def icf(
    setting: Setting,
    *,
    rule: str = "thompson",
    rank: int = 5,
    noise_variance: float | None = None,
    factor_variance: float | None = None,
    draws: int = 10,
    exploration: float = 1.0,
    noisy: bool = False,
    **settings: Any,
) -> Policy:
    """Draws of the item factors from a chain, and the user factors exactly given each of them.

    Args:
      setting: of the experiment; its belief is not used.
      rule: `thompson`, the best entry of one draw of both factors, or `linucb`, the highest
        v_d'm_n + exploration sqrt(v_d'C_n v_d), averaged over as many of the draws of V, taken
        with replacement.
      rank: K.
      noise_variance: s2; learned where it is None.
      factor_variance: su2 = sv2; learned where it is None.
      draws: of V at each refit.
      exploration: of `linucb`.
      noisy: see `policies.thompson.thompson`; its authors draw factors, not ratings.
      **settings: `sweeps` and others of `pmf.gibbs`.
    """
    if rule not in RULES:
        raise ValueError(f"icf.rule: unknown {rule!r}; choose from {', '.join(RULES)}")
    belief = gibbs(
        rank=rank,
        noise_variance=noise_variance,
        factor_variance=factor_variance,
        draws=draws,
        **settings,
    )
    if setting.standardise:
        belief = standardised(belief)
    if rule == "thompson":
        return sampling(belief, entry_noise=setting.entry_noise and noisy)

    def summarise(column: ColumnView) -> Best:
        mean, variance, _ = column.prediction
        # Rounding can leave the variance of what is all but known just below zero.
        bound = (mean + exploration * jnp.sqrt(jnp.maximum(variance, 0.0))).mean(0)
        return Best.of_column(column.discount * bound, column.available)

    def choose(key: Array, state: LiveState, view: View) -> Array:
        del key, view
        return state.summary.choice()

    return live(belief, draws=draws, summarise=summarise, choose=choose)
