"""A belief whose fit was made elsewhere, and is kept as it is."""

from typing import Any

from jax import Array

from smc_jax.beliefs.base import Belief, Diagnostics, stored_belief
from smc_jax.observations import Observations


def _handed_over(key: Array, data: Observations, prior: Any = None) -> Any:
    del key, data
    if prior is None:
        raise ValueError("prior: a held belief needs the state that it holds, got None")
    return prior


def _as_it_is(key: Array, state: Any, data: Observations) -> Any:
    del key, data
    return state


def held(belief: Belief) -> Belief:
    """The belief at a state that is handed over as its prior, and that no data change.

    Any rule then chooses from one fit, without fitting again.
    """
    return belief._replace(
        init=_handed_over,
        refit=_as_it_is,
        absorb=lambda key, state, data, outcome: state,
    )


def held_draws() -> Belief:
    """Draws of the parameters, with a leading axis S, that are handed over as the prior."""
    return stored_belief(_handed_over, _as_it_is, Diagnostics.of_draws, store=lambda draws: draws)
