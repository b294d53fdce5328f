"""A rule on an ensemble of more columns than can be kept: bounds for all, a state for some.

The ensemble of `ensemble_policy` has S K (K + 2) numbers for every column, and finds S D N
variances at a refit. Here a refit finds bounds on the scores of all entries (`bounds.py`) and keeps
the best of each column. The column of the best bound of all is then brought into the ensemble, with
its exact scores in place of the bounds, until the best of all is in a column that was brought. No
other entry can be better by more than rounding, so that the choice is that of `ensemble_policy`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from smc_jax.beliefs.base import Belief, Diagnostics, parameter_draws
from smc_jax.checks import at_least
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.base import Best, Policy, blank, predictor
from smc_jax.policies.bounds import bounds, is_best, of_columns
from smc_jax.policies.ensemble import Ensemble
from smc_jax.policies.ensemble_policy import (
    Rule,
    by_column,
    ensemble_policy,
    summaries,
    survey,
)
from smc_jax.types import Choice, Offer, Outcome


class ScreenedState(NamedTuple):
    """The draws, the best of all N columns, and the states of P columns."""

    belief: Any
    parameters: Parameters  # leading axis S
    column: gaussian.Column  # [S, P]  of the columns that were brought
    kept: Array  # [P] int: which columns they are; N: none
    place: Array  # [N] int: where among them a column is; P: nowhere
    following: Array  # [] int: the place that is taken next
    summary: Any  # [N]  what `Rule.summarise` says, of bounds where a column was not brought
    shared: Any  # what `Rule.share` returned at the refit
    sample_key: Array

    def members(self) -> Ensemble:
        """The ensemble of the columns that were brought."""
        return Ensemble(of_columns(self.parameters, self.kept), self.column)


def brought(
    rule: Rule, state: ScreenedState, columns: Array, data: Observations, offer: Offer
) -> ScreenedState:
    """The state with some columns [B] in the ensemble, in place of those that came first.

    A column that is there already is found anew; N stands for none.
    """
    places = state.place.shape[0], state.kept.shape[0]
    seen = data.at_columns(columns)
    found = _found(state, columns, seen)
    summary = summaries(rule, found, None, offer.of(columns, seen), state.shared)
    there = columns < places[0]
    # Where they go: those that are there stay where they are.
    now = state.place.at[columns].get(mode="fill", fill_value=places[1])
    new = there & (now == places[1])
    turn = (state.following + jnp.cumsum(new) - 1) % places[1]
    to = jnp.where(new, turn, now)
    gone = jnp.where(new, state.kept[turn], places[0])
    place = state.place.at[gone].set(places[1], mode="drop").at[columns].set(to, mode="drop")
    kept = state.kept.at[to].set(columns, mode="drop")
    block = state.column.block.at[:, to].set(found.column.block, mode="drop")
    merged = jax.tree.map(
        lambda every, own: every.at[columns].set(own, mode="drop"), state.summary, summary
    )
    following = (state.following + new.sum()) % places[1]
    return state._replace(
        column=gaussian.Column(block), kept=kept, place=place, following=following, summary=merged
    )


def _found(state: ScreenedState, columns: Array, seen: Observations) -> Ensemble:
    """The ensemble of some columns, found from what was seen of them."""
    key = jax.random.wrap_key_data(state.sample_key)
    return ensemble.start(key, of_columns(state.parameters, columns), seen)


def settled(
    rule: Rule, state: ScreenedState, data: Observations, offer: Offer, several: int
) -> ScreenedState:
    """The state whose best entry is one of a column that was brought, and open.

    With it come the columns of the next best bounds, `several` in all: likely they are next.
    """
    columns, places = state.place.shape[0], state.kept.shape[0]
    assert rule.hope is not None
    hopes = rule.hope

    def best(state: ScreenedState) -> Choice:
        return rule.choose(jax.random.key(0), state.summary, state.shared, offer)

    def unsettled(carry: tuple[ScreenedState, Array]) -> Array:
        state, last = carry
        row, n = best(state)
        there = state.place.at[n].get(mode="clip") < places
        is_open = offer.is_open(row, n)
        return (n >= 0) & ~(there & is_open) & (n != last)

    def bring(carry: tuple[ScreenedState, Array]) -> tuple[ScreenedState, Array]:
        state, _ = carry
        n = best(state).column
        hope = jnp.where(state.place < places, -jnp.inf, hopes(state.summary))
        score, next_best = lax.top_k(hope.at[n].set(jnp.inf), several)
        # One that is there, but for its best entry which has closed, is found anew alone.
        alone = (state.place[n] < places) & (next_best != n)
        some = jnp.where((score > -jnp.inf) & ~alone, next_best, columns)
        return brought(rule, state, some, data, offer), n

    return lax.while_loop(unsettled, bring, (state, jnp.full((), -1)))[0]


def screened_policy(
    belief: Belief,
    rule: Rule,
    *,
    draws: int = 16,
    kept: int = 4096,
    sampled: int = 512,
    several: int = 32,
) -> Policy:
    """The policy of a rule on an ensemble, with the states of some columns only.

    Args:
      belief: where the draws come from.
      rule: how to choose; its scores must not fall with the variance of a draw.
      draws: S.
      kept: P, how many columns are kept in the ensemble between two refits; one that gave its place
        to another is found again when it is needed.
      sampled: how many columns, at random, R* and whatever else all columns are told is found from;
        it is exact where there are no more than that.
      several: how many columns are brought into the ensemble at once.
    """
    for name, value in (("draws", draws), ("kept", kept), ("sampled", sampled)):
        at_least(name, value, 1)
    at_least("several", several, 1)
    if rule.hope is None or rule.every_entry or not rule.conditioned:
        raise ValueError("kept: this rule needs the state of every column; set kept=None")

    def gather(key: Array, belief_state: Any, data: Observations, offer: Offer) -> ScreenedState:
        draw_key, sample_key, share_key = jax.random.split(key, 3)
        parameters = parameter_draws(draw_key, belief, belief_state, draws)
        if parameters.answers is not None:
            raise ValueError("kept: must be None where answers depend on values")
        state = _nothing_kept(belief_state, parameters, min(kept, data.columns), data, sample_key)
        if offer.columns is not None:
            return state
        state = _screened(rule, share_key, state, data, offer, sampled)
        return settled(rule, state, data, offer, min(several, state.kept.size))

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> ScreenedState:
        belief_state = belief.init(key, data, prior)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, data, offer)._replace(belief=belief_state)

    def refit(key: Array, state: ScreenedState, data: Observations, offer: Offer) -> ScreenedState:
        fit_key, gather_key = jax.random.split(key)
        return gather(gather_key, belief.refit(fit_key, state.belief, data), data, offer)

    def choose(key: Array, state: ScreenedState, data: Observations, offer: Offer) -> Choice:
        if offer.columns is None:
            return _open_choice(rule, key, state, data, offer, several)
        own, part = data.at_columns(offer.columns), offer.columns.size / data.columns
        members = _found(state, offer.columns, own)
        summary, shared = survey(rule, key, members, own, offer, part)
        return by_column(rule.choose(key, summary, shared, offer), offer)

    def absorb(
        key: Array, state: ScreenedState, data: Observations, outcome: Outcome, offer: Offer
    ) -> ScreenedState:
        own = jax.random.fold_in(key, draws)  # the draws have the numbers below
        state = state._replace(belief=belief.absorb(own, state.belief, data, outcome))
        if offer.columns is not None:
            return state
        state = _absorbed(rule, key, state, data, outcome, offer)
        return settled(rule, state, data, offer, min(several, state.kept.shape[0]))

    def diagnose(state: ScreenedState) -> Diagnostics:
        diagnostics = belief.diagnose(state.belief)
        told = (state.summary, state.shared)
        known = told if jax.tree.leaves(told) else state.parameters
        broken = jnp.isnan(ravel_pytree(known)[0]).any()
        return diagnostics._replace(finite=diagnostics.finite & ~broken)

    predict = predictor(belief, lambda state: state.belief)
    return Policy(init, refit, choose, absorb, diagnose, predict)


def _screened(
    rule: Rule, key: Array, state: ScreenedState, data: Observations, offer: Offer, sampled: int
) -> ScreenedState:
    """The state with bounds for all columns, and what all are told from a sample of them."""
    some, sample_key = jnp.arange(data.columns), jax.random.fold_in(key, 1)
    if sampled < some.size:
        some = jnp.sort(jax.random.choice(sample_key, some.size, (sampled,), replace=False))
    seen, part = data.at_columns(some), some.size / data.columns
    shared = rule.share(key, _found(state, some, seen), offer.of(some, seen), part)
    summary = bounds(rule, state.parameters, data, offer, shared)
    return state._replace(summary=summary, shared=shared)


def _nothing_kept(
    belief_state: Any,
    parameters: Parameters,
    places: int,
    data: Observations,
    sample_key: Array,
) -> ScreenedState:
    """The state before any column was brought."""
    factors, columns = parameters.factors(), data.columns
    draws, _, k = factors.shape
    return ScreenedState(
        belief=belief_state,
        parameters=parameters,
        column=gaussian.Column(jnp.zeros((draws, places, k, k + 2), factors.dtype)),
        kept=jnp.full(places, columns, int),
        place=jnp.full(columns, places, int),
        following=jnp.zeros((), int),
        summary=(),
        shared=(),
        sample_key=jax.random.key_data(sample_key),
    )


def _open_choice(
    rule: Rule, key: Array, state: ScreenedState, data: Observations, offer: Offer, several: int
) -> Choice:
    """The choice from a state that is settled, but that its best entry may have closed since."""
    first = rule.choose(key, state.summary, state.shared, offer)

    def anew() -> Choice:
        found = settled(rule, state, data, offer, min(several, state.kept.shape[0]))
        return rule.choose(key, found.summary, found.shared, offer)

    return lax.cond((first.row < 0) | offer.is_open(*first), lambda: first, anew)


def _absorbed(
    rule: Rule, key: Array, state: ScreenedState, data: Observations, outcome: Outcome, offer: Offer
) -> ScreenedState:
    """The state once an outcome is known. A column that is not kept is to be brought next."""
    n, places = outcome.column, state.kept.shape[0]
    place = state.place[n]
    at = jnp.minimum(place, places - 1)
    there = outcome._replace(column=at, answered=outcome.answered & (place < places))
    members, _ = ensemble.condition(key, state.members(), there)
    block = lax.dynamic_slice_in_dim(members.column.block, at, 1, 1)
    one = Ensemble(of_columns(state.parameters, n[None]), gaussian.Column(block))
    found = summaries(rule, one, None, offer.of(n[None], data.at_columns(n[None])), state.shared)

    def update(every: Best, own: Best) -> Best:
        score = jnp.where(place < places, own.score[0], jnp.inf)
        return Best(every.score.at[n].set(score), every.row.at[n].set(own.row[0]))

    summary = jax.tree.map(update, state.summary, found, is_leaf=is_best)
    return state._replace(column=members.column, summary=summary)


def on_ensemble(belief: Belief, rule: Rule, *, draws: int, kept: int | None) -> Policy:
    """The policy of a rule on an ensemble that keeps all columns, or some of them."""
    if kept is None:
        return ensemble_policy(belief, rule, draws=draws)
    return screened_policy(belief, rule, draws=draws, kept=kept)
