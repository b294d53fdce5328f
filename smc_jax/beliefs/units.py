"""A belief about values that were shifted and scaled, so that priors meet data of scale one."""

from typing import Any, NamedTuple

import jax
from jax import Array
from jax.typing import ArrayLike

from smc_jax.beliefs.base import Belief
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.history import heeding_history
from smc_jax.looks import Seen
from smc_jax.model.parameters import Parameters
from smc_jax.types import Outcome


class Standardised(NamedTuple):
    """The state of the belief, and the units of its values."""

    inner: Any
    centre: Array  # []
    scale: Array  # []


def standardised(belief: Belief) -> Belief:
    """The belief on values (y - centre) / scale; its draws are in the units of the data.

    Centre and scale are the mean and the standard deviation of what was seen at the start, history
    included, and stay: the state that is refitted is in these units, and so is one that begins from
    an earlier fit. Where all values are alike, the scale is 1.
    """

    def init(key: Array, data: Seen, prior: Any = None) -> Standardised:
        if isinstance(prior, Standardised):  # an earlier state, whose units stay
            scaled = data.relative_to(prior.centre, prior.scale)
            return prior._replace(inner=belief.init(key, scaled, prior.inner))
        if isinstance(prior, EarlierFit) and isinstance(prior.fit, Standardised):
            units = prior.fit.centre, prior.fit.scale
            known = prior._replace(fit=prior.fit.inner)
            return Standardised(belief.init(key, data.relative_to(*units), known), *units)
        if prior is not None:
            raise ValueError(
                "prior: a belief on standardised values takes an earlier Standardised state,"
                f" or a History, got {type(prior).__name__}"
            )
        centre, scale = data.units()
        inner = belief.init(key, data.relative_to(centre, scale))
        return Standardised(inner, centre, scale)

    def refit(key: Array, state: Standardised, data: Seen) -> Standardised:
        scaled = data.relative_to(state.centre, state.scale)
        return state._replace(inner=belief.refit(key, state.inner, scaled))

    def draw(key: Array, state: Standardised) -> Parameters:
        return belief.draw(key, state.inner).in_units(state.centre, state.scale)

    def absorb(key: Array, state: Standardised, data: Seen, outcome: Outcome) -> Standardised:
        units = state.centre, state.scale
        scaled = data.relative_to(*units)
        return state._replace(
            inner=belief.absorb(key, state.inner, scaled, outcome.relative_to(*units))
        )

    def stored(state: Standardised) -> Parameters:
        assert belief.store is not None
        in_units = jax.vmap(lambda one: one.in_units(state.centre, state.scale))
        return in_units(belief.store(state.inner))

    def beside(table: ArrayLike | None, number: int) -> Belief:
        assert belief.beside is not None
        return standardised(belief.beside(table, number))

    made = belief._replace(
        init=init,
        refit=refit,
        draw=draw,
        store=None if belief.store is None else stored,
        diagnose=lambda state: belief.diagnose(state.inner),
        absorb=absorb,
        beside=None if belief.beside is None else beside,
    )
    return heeding_history(made)
