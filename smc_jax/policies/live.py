"""What ids, greedy and linucb share: an ensemble conditioned on every pick, and its summary."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from smc_jax import beliefs, ensemble, gaussian
from smc_jax.beliefs import Belief, Diagnostics
from smc_jax.blocks import each_column
from smc_jax.ensemble import Ensemble, Prediction
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy, blank
from smc_jax.types import Outcome, View

PREDICTED = 2**18  # entries of all draws that are predicted at once


class ColumnView(NamedTuple):
    """All there is to know of one column."""

    noise: Array  # [S]  standard deviation
    prediction: Prediction  # [S, D] each
    available: Array  # [D]
    discount: Array  # [D]
    fixed: Any  # what `at_refit` returned: the same for all columns


class LiveState(NamedTuple):
    """State of a live policy."""

    belief: Any
    ensemble: Ensemble
    summary: Any  # what `summarise` returns, columns on the last axis
    fixed: Any  # what `at_refit` returned at the last one


def live(
    belief: Belief,
    *,
    draws: int,
    summarise: Callable[[ColumnView], Any],
    choose: Callable[[Array, LiveState, View], Array],
    at_refit: Callable[[Ensemble, View], Any] = lambda members, view: (),
    conditioned: bool = True,
) -> Policy:
    """A policy that draws S parameter sets at each refit and chooses from a summary of them.

    Args:
      belief: where the draws come from.
      draws: S.
      summarise: the summary of one column; after a pick only that column's is made anew.
      choose: (key, state, view) -> flat index.
      at_refit: what all columns are told until the next one.
      conditioned: whether picks are absorbed, or the summary stays as it is until the refit.
    """

    def gather(key: Array, belief_state: Any, view: View) -> LiveState:
        draw_key, sample_key = jax.random.split(key)
        parameters = beliefs.draws(draw_key, belief, belief_state, draws)
        members = ensemble.start(sample_key, parameters, view.observations)
        fixed = at_refit(members, view)

        def summaries(block: Array, noise: Array, available: Array, discount: Array) -> Any:
            prediction = ensemble.predict(Ensemble(parameters, gaussian.Column(block)))
            columns = ColumnView(noise, prediction, available, discount, fixed)
            axes = ColumnView(1, 2, 1, 1, None)  # type: ignore[arg-type]
            return jax.vmap(summarise, in_axes=(axes,), out_axes=-1)(columns)

        arrays = (members.column.block, ensemble.noise(members), view.available, view.discount)
        width = max(PREDICTED // (draws * len(view.available)), 1)
        summary = each_column(summaries, arrays, axis=1, width=width)
        return LiveState(belief_state, members, summary, fixed)

    def init(key: Array, view: View, problem: Problem) -> LiveState:
        belief_state = belief.init(key, view.observations, problem)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, view)._replace(belief=belief_state)

    def refit(key: Array, state: LiveState, view: View) -> LiveState:
        fit_key, gather_key = jax.random.split(key)
        return gather(gather_key, belief.refit(fit_key, state.belief, view.observations), view)

    def absorb(key: Array, state: LiveState, view: View, outcome: Outcome) -> LiveState:
        if not conditioned:
            return state
        n = outcome.column
        members, prediction = ensemble.condition(key, state.ensemble, outcome)
        noise = jax.vmap(lambda parameters: parameters.noise_at(n))(members.parameters)
        available, discount = (
            jnp.take(x, n, axis=1, mode="clip") for x in (view.available, view.discount)
        )
        new = summarise(ColumnView(noise, prediction, available, discount, state.fixed))
        summary = jax.tree.map(lambda all, one: all.at[..., n].set(one), state.summary, new)
        return state._replace(ensemble=members, summary=summary)

    def diagnose(state: LiveState) -> Diagnostics:
        diagnostics = belief.diagnose(state.belief)
        broken = jnp.isnan(ravel_pytree((state.summary, state.fixed))[0]).any()
        return diagnostics._replace(finite=diagnostics.finite & ~broken)

    return Policy(init, refit, choose, absorb, diagnose)
