"""Information-Directed Sampling: least expected regret squared per bit about the best entry."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax import ensemble, information
from smc_jax.beliefs import Belief
from smc_jax.extremes import mean_of_largest
from smc_jax.policies.base import Best, Policy, Setting, unless_broken
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.types import View

SCOPES = ("matrix", "covariance")
GAINS = ("gaussian", "histogram", "variance")
SELECTIONS = ("deterministic", "two_action")


class Moments(NamedTuple):
    """What is left to know of an entry once theta is known."""

    mean: Array  # [S, D, N]
    variance: Array | tuple  # [S, D, N]; nothing where the gain is that of the means


class Scores(NamedTuple):
    """Summary over the draws; for one column without the last axis."""

    mean: Array  # [D, N]  mean over draws of the entry's mean
    gain: Array  # [D, N]  its gain if that is gaussian, else an upper bound
    given_theta: Moments | tuple  # nothing where the gain is gaussian
    favourite: Best | tuple  # [S, N]  each draw's best of the column; likewise


class Champions(NamedTuple):
    """The two entries of each column that can be the choice over all of them."""

    directed: Best  # of minus the information ratio
    greedy: Best  # of the reward

    @classmethod
    def of_column(cls, reward: Array, gain: Array, available: Array, optimum: Array) -> "Champions":
        """Of the rewards and gains [D] of one column, with regret measured from R*."""
        ratio = information.information_ratio(optimum - reward, gain)
        ratio = jnp.where(jnp.isnan(gain), jnp.nan, ratio)
        return cls(Best.of_column(-ratio, available), Best.of_column(reward, available))

    def choice(self, optimum: Array) -> Array:
        """What `information.deterministic_choice` is of all entries, as a flat index.

        An entry whose reward is above R* is without regret, and picked; so is the best one where
        nothing at a loss teaches anything.
        """
        directed, greedy = self
        sure = (greedy.score.max() >= optimum) | jnp.isneginf(directed.score.max())
        choice = jnp.where(sure, greedy.choice(), directed.choice())
        return unless_broken(choice, directed.score + greedy.score + optimum)


def _known(scope: str, prediction: ensemble.Prediction) -> Array:
    """Mean of an entry once theta is known.

    `matrix`: theta = (W, sigma, X). `covariance`: theta = (W, sigma).
    """
    return prediction.sample if scope == "matrix" else prediction.mean


def _left(scope: str, noise: Array, prediction: ensemble.Prediction) -> Array:
    """Variance of an entry once theta is known: of a known matrix, the noise [S, 1] alone."""
    return noise**2 if scope == "matrix" else noise**2 + prediction.variance


def information_directed(
    belief: Belief,
    *,
    draws: int = 16,
    scope: str = "matrix",
    gain: str = "gaussian",
    selection: str = "deterministic",
    conditioned: bool = True,
    best_of: int = 1,
    bins: int = 32,
    chunk: int = 1024,
) -> Policy:
    """IDS over S parameter draws.

    Args:
      belief: where the draws come from.
      draws: S, taken anew at each refit.
      scope: what theta is: `matrix` (W, sigma, X), or `covariance` (W, sigma) as in the paper.
      gain: `gaussian`, `histogram` (Alg. 3) or `variance`.
      selection: `deterministic` (the paper) or `two_action` (Russo & Van Roy).
      conditioned: condition on every pick; if not, the ratio is frozen for the batch (the paper).
      best_of: R*, which the regret of an entry is measured from, is the mean over draws of the
        average of each draw's so many best available entries, found at the refit. One is for a best
        action that can be taken again and again; where each entry is taken once, the picks to come
        share out the best ones, and the more of these are averaged, the less is explored. An entry
        whose mean is above R* is without regret, and picked.
      bins: of the histogram gain.
      chunk: entries whose histograms are held at once.
    """
    for name, value, choices in (
        ("scope", scope, SCOPES),
        ("gain", gain, GAINS),
        ("selection", selection, SELECTIONS),
    ):
        if value not in choices:
            raise ValueError(f"ids.{name}: unknown {value!r}; choose from {', '.join(choices)}")

    def optimum(members: ensemble.Ensemble, view: View) -> Array:
        """R* []: the mean over draws of the average of the `best_of` best entries."""

        def one(draw: ensemble.Ensemble) -> Array:
            reward = view.discount * _known(scope, ensemble.predict_one(*draw))
            return mean_of_largest(jnp.where(view.available, reward, -jnp.inf), best_of)

        return lax.map(one, members).mean()  # one after another: each is a matrix

    def scores(column: ColumnView) -> Scores:
        prediction, noise = column.prediction, column.noise[:, None]
        left = _left(scope, noise, prediction)
        conditional = jnp.exp(jnp.log(left).mean(0))  # geometric mean over the draws
        mean = prediction.mean.mean(0)
        if gain == "gaussian":
            total = (prediction.variance + noise**2).mean(0) + prediction.mean.var(0)
            return Scores(mean, information.gaussian_gain(total, conditional), (), ())
        known = _known(scope, prediction)
        between = known.var(0)
        if gain == "variance":  # that of the means given A* is a part of it
            bound, moments = between, Moments(known, ())
        else:  # the gaussian gain of the mixture of the draws
            bound = information.gaussian_gain(left.mean(0) + between, conditional)
            moments = Moments(known, jnp.broadcast_to(left, known.shape))
        best_of_column = jax.vmap(Best.of_column, in_axes=(0, None))
        favourite = best_of_column(column.discount * known, column.available)
        return Scores(mean, bound, moments, favourite)

    def champions(column: ColumnView) -> Champions:
        mean, gained, *_ = scores(column)
        gained = jnp.where(column.discount > 0, gained, 0.0)  # a hidden value says nothing
        reward = column.discount * mean
        return Champions.of_column(reward, gained, column.available, column.fixed)

    def choose_champion(key: Array, state: LiveState, view: View) -> Array:
        del key, view
        return state.summary.choice(state.fixed)

    def best_entries(state: LiveState) -> Array:
        """Each draw's best available entry [S], as a flat index."""
        return jax.vmap(Best.choice)(state.summary.favourite)

    def gains_at(state: LiveState, best: Array, index: Array | slice) -> Array:
        """Information gains of some entries, by flat index."""

        def at(moment: Array) -> Array:
            return moment.reshape(draws, -1)[:, index]

        mean, variance = state.summary.given_theta
        if gain == "variance":
            return information.variance_gain(at(mean), best)
        scale = jnp.sqrt(at(variance))
        return information.histogram_gain(at(mean), scale, best, bins=bins, chunk=chunk)

    def gains(state: LiveState, view: View) -> Array:
        """Information gain [D, N] of every entry."""
        if gain == "gaussian":
            return state.summary.gain
        return gains_at(state, best_entries(state), slice(None)).reshape(view.available.shape)

    def pruned(state: LiveState, view: View, regret: Array) -> Array:
        """The least ratio of gains, which are found only where they can be it."""
        best = best_entries(state)
        entropy = information.entropy_of_best(best)
        bound = jnp.where((view.discount > 0) & (entropy > 0), state.summary.gain, 0.0).ravel()
        if gain == "histogram":
            bound = jnp.minimum(bound, entropy)
        unit = bound.max() if gain == "variance" else 1.0  # that of the data, or nats
        return information.pruned_choice(
            regret,
            bound,
            view.available.ravel(),
            functools.partial(gains_at, state, best),
            rounding=1e-5 * unit,
        ).choice

    def choose_of_all(key: Array, state: LiveState, view: View) -> Array:
        reward = view.discount * state.summary.mean
        attainable = jnp.where(view.available, reward, -jnp.inf).max()
        # An entry may beat the average of the best ones: it is then without regret, and picked.
        regret = (jnp.maximum(state.fixed, attainable) - reward).ravel()
        if gain != "gaussian" and conditioned and selection == "deterministic":
            choice = pruned(state, view, regret)
            return unless_broken(choice, regret + state.summary.gain.ravel())
        gained = gains(state, view) if conditioned else state.summary.gain
        gained = jnp.where(view.discount > 0, gained, 0.0).ravel()
        available = view.available.ravel()
        if selection == "two_action":
            choice = information.two_action_choice(key, regret, gained, available)
        else:
            choice = information.deterministic_choice(regret, gained, available)
        return unless_broken(choice, regret + gained)

    if gain == "gaussian" and selection == "deterministic" and conditioned:
        return live(
            belief, draws=draws, at_refit=optimum, summarise=champions, choose=choose_champion
        )
    policy = live(
        belief,
        draws=draws,
        at_refit=optimum,
        summarise=scores,
        choose=choose_of_all,
        conditioned=conditioned,
    )
    if conditioned:
        return policy

    def refit(key: Array, state: LiveState, view: View) -> LiveState:
        state = policy.refit(key, state, view)
        return state._replace(summary=state.summary._replace(gain=gains(state, view)))

    return policy._replace(refit=refit)


def ids(setting: Setting, **settings: Any) -> Policy:
    """IDS under the fitted model; see `information_directed` for the settings."""
    return information_directed(setting.belief, **settings)
