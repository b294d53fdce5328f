"""A rule on an ensemble: S draws of a belief, conditioned on every pick, and a summary of them."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from smc_jax.algebra.batching import at_once
from smc_jax.algebra.columns import each_column
from smc_jax.beliefs.base import Belief, Diagnostics, parameter_draws
from smc_jax.checks import at_least
from smc_jax.model import gaussian
from smc_jax.model.answers import Answering
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.base import Policy, blank, keys_of, predictor
from smc_jax.policies.ensemble import Ensemble, Prediction
from smc_jax.types import Choice, Offer, Outcome

PREDICTED = 2**18  # entries of all draws that are predicted at once on a CPU


class ColumnView(NamedTuple):
    """Everything that a rule knows of one column."""

    column: Array  # [] int: which one it is
    noise: Array  # [S]  standard deviation
    prediction: Prediction  # [S, D] each
    data: Observations  # [D]  what was seen of it
    open: Array  # [D]
    factor: Array  # [D]
    shared: Any  # what `Rule.share` returned: the same for all columns
    chance: Array | None = None  # [D]  as in the offer
    answers: Answering | None = None  # [S, D] each; None where answers do not depend on values
    log_weights: Array | None = None  # [S]  of the draws, by who answered; None as above


class Rule(NamedTuple):
    """How to choose from an ensemble.

    `share` finds what all columns are told, `summarise` what is kept of each column, and `choose`
    the row and the position in the offer. `freeze` completes the summary of a rule that stays as it
    is until the refit.
    """

    summarise: Callable[[ColumnView], Any]
    choose: Callable[[Array, Any, Any, Offer], Choice]  # (key, summary, shared, offer)
    # (key, ensemble, offer, the offer's part of all columns) -> what all columns are told
    share: Callable[[Array, Ensemble, Offer, float], Any] = lambda key, members, offer, part: ()
    freeze: Callable[[Any, Offer], Any] = lambda summary, offer: summary
    conditioned: bool = True  # whether picks are absorbed, or the draws stay until the refit
    every_entry: bool = False  # the summary has every entry, and `choose` heeds which are open
    # Scores [N] that say which columns are likely to be chosen next. It promises that summaries are
    # made of `Best`s, that no score falls with the variance of a draw where factors are not
    # negative, and that `choose` needs no key. None: nothing is promised.
    hope: Callable[[Any], Array] | None = None


class EnsembleState(NamedTuple):
    """The belief, its draws, and what was found of them for a standing offer."""

    belief: Any
    ensemble: Ensemble
    share_key: Array
    summary: Any  # what `summarise` returns, columns on the last axis; () if offers name columns
    shared: Any  # what `share` returned at the refit; () if offers name columns


def summaries(
    rule: Rule, members: Ensemble, data: Observations | None, offer: Offer, shared: Any
) -> Any:
    """The summary of every column of an offer, whose columns alone the ensemble has.

    The data are None for rules that have no use for them.
    """
    draws, columns = members.column.block.shape[:2]
    index = jnp.arange(columns) if offer.columns is None else offer.columns
    # Of chances, predictions from elsewhere and answers there may be none: then there is no array.
    elsewhere = members.parameters.prediction  # [S, N, D]
    answers, weights = members.parameters.answers, members.log_weights
    own = None if answers is None else answers.of_columns()
    more, structure = jax.tree.flatten((data, offer.chance, elsewhere, own, weights))

    def of_block(
        index: Array, block: Array, noise: Array, available: Array, factor: Array, *rest: Array
    ) -> Any:
        of_columns, chance, elsewhere, own, weights = jax.tree.unflatten(structure, rest)
        parameters = members.parameters._replace(prediction=elsewhere)
        if own is not None:
            parameters = parameters._replace(answers=parameters.answers.with_own(*own))
        some = Ensemble(parameters, gaussian.Column(block), weights)
        told = chance, ensemble.answering(some), weights
        known = (ensemble.predict(some), of_columns, available, factor, shared, *told)
        view = ColumnView(index[0], noise, *known)
        axes = ColumnView(0, 1, 2, 1, 1, 1, None, 1, 1, 1)  # type: ignore[arg-type]
        return jax.vmap(rule.summarise, in_axes=(axes,), out_axes=-1)(view)

    first = (members.column.block, ensemble.noise(members), offer.open, offer.factor)
    on_cpu = max(PREDICTED // (draws * len(offer.open)), 1)
    width = at_once(on_cpu, columns)
    return each_column(of_block, (index[None], *first, *more), axis=1, width=width)


def survey(
    rule: Rule, key: Array, members: Ensemble, data: Observations, offer: Offer, part: float
) -> tuple[Any, Any]:
    """The summary of an offer, and what all its columns are told."""
    shared = rule.share(key, members, offer, part)
    summary = summaries(rule, members, data, offer, shared)
    return (summary if rule.conditioned else rule.freeze(summary, offer)), shared


def _focus(
    rule: Rule, state: EnsembleState, data: Observations, offer: Offer, pending: Array | None = None
) -> tuple[EnsembleState, Observations]:
    """State and data of the matrix that an offer names, summarised with nothing that was kept.

    Its columns are the positions of the offer. Pending entries [D, N] count as known where that
    matters: in the covariances.
    """
    assert offer.columns is not None
    members = ensemble.at_columns(state.ensemble, offer.columns)
    data, part = data.at_columns(offer.columns), offer.columns.size / data.columns
    if pending is not None and rule.conditioned:
        waiting = jnp.take(pending, offer.columns, axis=1, mode="clip")
        members = _expecting(members, data, waiting)
    share_key = jax.random.wrap_key_data(state.share_key)
    summary, shared = survey(rule, share_key, members, data, offer, part)
    return state._replace(ensemble=members, summary=summary, shared=shared), data


def _expecting(members: Ensemble, data: Observations, pending: Array) -> Ensemble:
    """The ensemble with the covariances that it has once the pending entries are known."""
    return lax.cond(
        pending.any(),
        lambda members: ensemble.expect_all(members, data, pending),
        lambda members: members,
        members,
    )


def _choose_anew(
    rule: Rule, key: Array, state: EnsembleState, data: Observations, offer: Offer
) -> Choice:
    """The choice from the columns that an offer names, with nothing that was kept."""
    state, _ = _focus(rule, state, data, offer)
    return by_column(rule.choose(key, state.summary, state.shared, offer), offer)


def by_column(choice: Choice, offer: Offer) -> Choice:
    """The choice with the column that stands at its position in the offer."""
    row, position = choice
    return Choice(row, jnp.where(position < 0, position, offer.column_of(position)))


def _with_column(
    rule: Rule, state: EnsembleState, data: Observations, offer: Offer, n: Array, new: Prediction
) -> Any:
    """The summary of an offer with that of the column at position n made anew."""
    parameters = state.ensemble.parameters
    noise = jax.vmap(lambda parameters: parameters.noise_at(n))(parameters)
    seen = jax.tree.map(lambda x: x[:, 0], data.column(n))
    available = jnp.take(offer.open, n, axis=1, mode="clip")
    factor = jnp.take(offer.factor, n, axis=1, mode="clip")
    chance = None if offer.chance is None else jnp.take(offer.chance, n, axis=1, mode="clip")
    answers, weights = ensemble.answering_of(state.ensemble, n), state.ensemble.log_weights
    weights = None if weights is None else jnp.take(weights, n, axis=1, mode="clip")
    known = (new, seen, available, factor, state.shared, chance, answers, weights)
    view = ColumnView(offer.column_of(n), noise, *known)
    one = rule.summarise(view)
    return jax.tree.map(lambda all, one: all.at[..., n].set(one), state.summary, one)


def _choose_kept(
    rule: Rule, key: Array, state: EnsembleState, data: Observations, offer: Offer
) -> Choice:
    """The choice, by its position, from the kept summary of an offer.

    Where the best entry of a column has closed since its summary was made, which a standing offer
    does not do, the summary is made anew and the choice too. Closed entries only lower scores, so
    that nothing else needs a new summary: the choice is that among all open entries.
    """

    class Attempt(NamedTuple):
        summary: Any
        choice: Choice
        last: Array  # the column whose summary was made anew, -1 for none

    def closed(attempt: Attempt) -> Array:
        row, column = attempt.choice
        is_open = offer.open.at[row[None], column[None]].get(mode="fill", fill_value=False)[0]
        nothing_left = column == attempt.last
        return ~is_open & (row >= 0) & ~nothing_left

    def again(attempt: Attempt) -> Attempt:
        n = attempt.choice.column
        prediction = ensemble.predict_column(state.ensemble, n)
        kept = state._replace(summary=attempt.summary)
        summary = _with_column(rule, kept, data, offer, n, prediction)
        return Attempt(summary, rule.choose(key, summary, state.shared, offer), n)

    first = rule.choose(key, state.summary, state.shared, offer)
    none = jnp.full_like(first.column, -1)
    return lax.while_loop(closed, again, Attempt(state.summary, first, none)).choice


def _choose_several(
    rule: Rule,
    key: Array,
    state: EnsembleState,
    data: Observations,
    offer: Offer,
    pending: Array,
    number: int,
) -> Choice:
    """Distinct entries, each chosen as if those before it, and the pending ones, were known."""
    if offer.columns is not None:
        state, data = _focus(rule, state, data, offer, pending)
    elif rule.conditioned:

        def remake(state: EnsembleState) -> EnsembleState:
            members = ensemble.expect_all(state.ensemble, data, pending)
            summary = summaries(rule, members, data, offer, state.shared)
            return state._replace(ensemble=members, summary=summary)

        state = lax.cond(pending.any(), remake, lambda state: state, state)

    def pick(carry: tuple[Ensemble, Any, Array], key: Array) -> tuple[tuple, Choice]:
        members, summary, is_open = carry
        now, left = state._replace(ensemble=members, summary=summary), offer._replace(open=is_open)
        choice = _choose_from(rule, key, now, data, left)
        left = left._replace(open=Offer(None, is_open, offer.factor).without(choice).open)
        if rule.conditioned:
            row, n = (jnp.maximum(index, 0) for index in choice)
            members, prediction = ensemble.expect(members, row, n)
            summary = _with_column(rule, now, data, left, n, prediction)
        return (members, summary, left.open), by_column(choice, offer)

    start = (state.ensemble, state.summary, offer.open)
    return lax.scan(pick, start, keys_of(key, number))[1]


def _choose_from(
    rule: Rule, key: Array, state: EnsembleState, data: Observations, offer: Offer
) -> Choice:
    """The choice, by its position, from a state that has the summary of the offer."""
    if rule.every_entry:
        return rule.choose(key, state.summary, state.shared, offer)
    return _choose_kept(rule, key, state, data, offer)


def ensemble_policy(belief: Belief, rule: Rule, *, draws: int = 16) -> Policy:
    """Draws S parameter sets at each refit, and chooses by the rule from a summary of them.

    For a standing offer the summary is kept, and after a pick only that column's is made anew. For
    an offer of some columns it is made of these columns when they are offered.

    Args:
      belief: where the draws come from.
      rule: how to choose.
      draws: S.
    """
    at_least("draws", draws, 1)

    def gather(key: Array, belief_state: Any, data: Observations, offer: Offer) -> EnsembleState:
        draw_key, sample_key, share_key = jax.random.split(key, 3)
        parameters = parameter_draws(draw_key, belief, belief_state, draws)
        members = ensemble.start(sample_key, parameters, data)
        state = EnsembleState(belief_state, members, jax.random.key_data(share_key), (), ())
        if offer.columns is not None:
            return state
        summary, shared = survey(rule, share_key, members, data, offer, 1.0)
        return state._replace(summary=summary, shared=shared)

    def init(key: Array, data: Observations, offer: Offer, prior: Any = None) -> EnsembleState:
        belief_state = belief.init(key, data, prior)
        # A refit precedes every choice, so that the rest of the state needs only its shapes.
        return blank(gather, key, belief_state, data, offer)._replace(belief=belief_state)

    def refit(key: Array, state: EnsembleState, data: Observations, offer: Offer) -> EnsembleState:
        fit_key, gather_key = jax.random.split(key)
        return gather(gather_key, belief.refit(fit_key, state.belief, data), data, offer)

    def choose(key: Array, state: EnsembleState, data: Observations, offer: Offer) -> Choice:
        if offer.columns is not None:
            return _choose_anew(rule, key, state, data, offer)
        return _choose_from(rule, key, state, data, offer)

    def absorb(
        key: Array, state: EnsembleState, data: Observations, outcome: Outcome, offer: Offer
    ) -> EnsembleState:
        own = jax.random.fold_in(key, draws)  # the draws have the numbers below
        state = state._replace(belief=belief.absorb(own, state.belief, data, outcome))
        if not rule.conditioned:
            return state
        members, prediction = ensemble.condition(key, state.ensemble, outcome)
        state = state._replace(ensemble=members)
        if offer.columns is not None:
            return state
        return state._replace(
            summary=_with_column(rule, state, data, offer, outcome.column, prediction)
        )

    def diagnose(state: EnsembleState) -> Diagnostics:
        diagnostics = belief.diagnose(state.belief)
        # Offers of some columns leave no summary: then the columns themselves must be numbers.
        summarised = jax.tree.leaves(state.summary)
        kept = (state.summary, state.shared) if summarised else state.ensemble.column
        broken = jnp.isnan(ravel_pytree(kept)[0]).any()
        return diagnostics._replace(finite=diagnostics.finite & ~broken)

    predict = predictor(belief, lambda state: state.belief)
    several = functools.partial(_choose_several, rule)
    made = Policy(init, refit, choose, absorb, diagnose, predict, several)
    return made._replace(learns_answers=belief.learns_answers)
