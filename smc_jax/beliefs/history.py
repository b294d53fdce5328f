"""A table of history: other columns of the same rows, seen before the first choice.

The columns of the model are exchangeable, so that history is nothing but more columns: a belief is
fitted to the data with the columns of history beside them, and its draws are then restricted to the
columns of the data. Nobody chooses, or is told of, the columns of history.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs.base import Belief
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Outcome


class History(NamedTuple):
    """What was seen of M other columns; it is a prior of every belief that is fitted to data."""

    data: Observations  # [D, M]  each observation with the weight that it counts with
    features: Array | None = None  # [M, Q]  of its columns, in the coordinates of the belief's

    @classmethod
    def of(
        cls, data: Observations, *, temper: float = 1.0, features: Array | None = None
    ) -> "History":
        """History of which each observation counts as `temper` observations.

        Args:
          data: what was seen, of the rows of the data in their order.
          temper: in (0, 1]; below one, p(y | x, theta) of history is raised to this power, which
            is how much old data are trusted.
          features: what is known of its columns, where the belief has features of columns: the
            lines below those of the data in one table of coordinates. None is the average.
        """
        check_temper(temper)
        if features is not None and len(features) != data.columns:
            raise ValueError(
                f"features: {len(features)} lines, but history has {data.columns} columns"
            )
        return cls(data if temper == 1.0 else data.tempered(temper), features)


class Joined(NamedTuple):
    """The state of a belief that is fitted to the data with history beside them."""

    inner: Any  # of all N + M columns
    history: History
    own: Array  # [N] int: which of these are the columns of the data


def check_temper(temper: float) -> None:
    """Refuses a weight that is not in (0, 1]."""
    if not (0.0 < temper <= 1.0 and math.isfinite(temper)):
        raise ValueError(f"temper: must be above 0 and at most 1, got {temper!r}")


def heeding_history(belief: Belief) -> Belief:
    """The belief, which then takes a `History`, or an earlier state with one, as its prior too."""

    def of(history: History) -> Belief:
        if belief.beside is not None:
            return belief.beside(history.features, history.data.columns)
        if history.features is not None:
            raise ValueError("features: the belief knows no features of columns")
        return belief

    def init(key: Array, data: Observations, prior: Any = None) -> Any:
        if not isinstance(prior, History | Joined):
            return belief.init(key, data, prior)
        history: Any = prior
        earlier = None
        if isinstance(prior, Joined):
            history, earlier = prior.history, prior.inner
        inner = of(history).init(key, data.beside(history.data), earlier)
        return Joined(inner, history, jnp.arange(data.columns))

    def refit(key: Array, state: Any, data: Observations) -> Any:
        if not isinstance(state, Joined):
            return belief.refit(key, state, data)
        joined = data.beside(state.history.data)
        return state._replace(inner=of(state.history).refit(key, state.inner, joined))

    def draw(key: Array, state: Any) -> Parameters:
        if not isinstance(state, Joined):
            return belief.draw(key, state)
        return belief.draw(key, state.inner).at_columns(state.own)

    def absorb(key: Array, state: Any, data: Observations, outcome: Outcome) -> Any:
        if not isinstance(state, Joined):
            return belief.absorb(key, state, data, outcome)
        joined = data.beside(state.history.data)
        return state._replace(inner=belief.absorb(key, state.inner, joined, outcome))

    def stored(state: Any) -> Parameters:
        assert belief.store is not None
        if not isinstance(state, Joined):
            return belief.store(state)
        return jax.vmap(lambda one: one.at_columns(state.own))(belief.store(state.inner))

    return belief._replace(
        init=init,
        refit=refit,
        draw=draw,
        diagnose=lambda state: belief.diagnose(state.inner if isinstance(state, Joined) else state),
        absorb=absorb,
        store=None if belief.store is None else stored,
    )


def with_history(belief: Belief, history: Observations | History, temper: float = 1.0) -> Belief:
    """The belief that starts from history, without being handed it as a prior each time.

    Args:
      belief: any that is fitted to data; where values are standardised, the standardised one.
      history: other columns of the same rows, or a `History`, which has its weight already.
      temper: the weight of an observation; see `History.of`.
    """
    if isinstance(history, History):
        known = history._replace(data=History.of(history.data, temper=temper).data)
    else:
        known = History.of(history, temper=temper)

    def init(key: Array, data: Observations, prior: Any = None) -> Any:
        if prior is not None and not isinstance(prior, Joined):
            raise ValueError(
                "prior: a belief with history takes an earlier state with history, got"
                f" {type(prior).__name__}"
            )
        return belief.init(key, data, known if prior is None else prior)

    return belief._replace(init=init)
