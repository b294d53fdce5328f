"""Uniformly random available entries: the floor that every policy must beat."""

import jax
from jax import Array

from smc_jax.beliefs import Diagnostics
from smc_jax.policies.base import Policy, Setting, best_available
from smc_jax.types import View


def random(setting: Setting) -> Policy:
    """Chooses uniformly among the available entries."""
    del setting

    def choose(key: Array, state: tuple, view: View) -> Array:
        return best_available(jax.random.uniform(key, view.available.shape), view.available)

    return Policy(
        init=lambda key, view, problem: (),
        refit=lambda key, state, view: state,
        choose=choose,
        absorb=lambda key, state, view, outcome: state,
        diagnose=lambda state: Diagnostics.none(),
    )
