"""A belief whose fit was made elsewhere, and is kept as it is."""

from typing import Any

from jax import Array

from smc_jax.beliefs.base import Belief
from smc_jax.observations import Observations


def held(belief: Belief) -> Belief:
    """The belief at a state that is handed over as its prior, and that no data change.

    Any rule then chooses from one fit, without fitting again.
    """

    def init(key: Array, data: Observations, prior: Any = None) -> Any:
        del key, data
        if prior is None:
            raise ValueError("prior: a held belief needs the state that it holds, got None")
        return prior

    return belief._replace(
        init=init,
        refit=lambda key, state, data: state,
        absorb=lambda key, state, data, outcome: state,
    )
