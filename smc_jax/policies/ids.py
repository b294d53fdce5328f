"""Information-Directed Sampling: least expected regret squared per bit about the best entry."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax import ensemble, information
from smc_jax.beliefs import Belief
from smc_jax.extremes import argmax
from smc_jax.policies.base import Policy, Setting, unless_broken
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.types import View

SCOPES = ("matrix", "covariance")
GAINS = ("gaussian", "histogram", "variance")
SELECTIONS = ("deterministic", "two_action")


class Frozen(NamedTuple):
    """What stays as it was at the refit; nothing where it is made anew for every pick."""

    gain: Array | tuple  # [D, N]
    optimum: Array | tuple  # []  R*


class Moments(NamedTuple):
    """What is left to know of an entry once theta is known."""

    mean: Array  # [S, D, N]
    variance: Array  # [S, D, N]


class Scores(NamedTuple):
    """Summary over the draws; for one column without the last axis."""

    mean: Array  # [D, N]  mean over draws of the entry's mean
    gain: Array  # [D, N]  its gaussian gain; an upper bound where the gain is another
    best: Array  # [S, N]  each draw's best available reward in the column
    given_theta: Moments | tuple  # nothing where the gain is gaussian


def _given_theta(scope: str, noise: Array, prediction: ensemble.Prediction) -> Moments:
    """Mean and variance of an entry once theta is known; noise broadcasts against them.

    `matrix`: theta = (W, sigma, X), only noise is left. `covariance`: theta = (W, sigma).
    """
    if scope == "matrix":
        return Moments(prediction.sample, jnp.broadcast_to(noise**2, prediction.sample.shape))
    return Moments(prediction.mean, prediction.variance + noise**2)


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
        average of each draw's so many best available entries. One is for a best action that can be
        taken again and again; where each entry is taken once, the picks to come share out the best
        ones, and the more of these are averaged, the less is explored. With more than one, R* is
        found at the refit, and a pick whose mean is above it is greedy.
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

    def rewards(view: View, mean: Array) -> Array:
        """Rewards [S, D N] of the entries under each draw, -inf where not available."""
        return jnp.where(view.available, view.discount * mean, -jnp.inf).reshape(draws, -1)

    def summarise(column: ColumnView) -> Scores:
        prediction, noise = column.prediction, column.noise[:, None]
        given_theta = _given_theta(scope, noise, prediction)
        mean, variance = given_theta
        best = jnp.where(column.available, column.discount * mean, -jnp.inf).max(1)
        conditional = jnp.exp(jnp.log(variance).mean(0))  # geometric mean over the draws
        if gain == "gaussian":
            total = (prediction.variance + noise**2).mean(0) + prediction.mean.var(0)
            kept: Moments | tuple = ()
        else:  # the variance of the mixture of the draws, whose other gains it bounds
            total, kept = variance.mean(0) + mean.var(0), given_theta
        gained = information.gaussian_gain(total, conditional)
        return Scores(prediction.mean.mean(0), gained, best, kept)

    def best_entries(state: LiveState, view: View) -> Array:
        """Each draw's best available entry [S]."""
        return jax.vmap(argmax)(rewards(view, state.summary.given_theta.mean))

    def gains(state: LiveState, view: View) -> Array:
        """Information gain [D, N] of every entry."""
        if gain == "gaussian":
            return state.summary.gain
        best = best_entries(state, view)
        mean, variance = (moment.reshape(draws, -1) for moment in state.summary.given_theta)
        if gain == "variance":
            value = information.variance_gain(mean, best)
        else:
            scale = jnp.sqrt(variance)
            value = information.histogram_gain(mean, scale, best, bins=bins, chunk=chunk)
        return value.reshape(view.available.shape)

    def pruned_histogram(state: LiveState, view: View, regret: Array) -> Array:
        """The least ratio of histogram gains, which are made only where they can be it."""
        best = best_entries(state, view)
        bound = jnp.minimum(state.summary.gain, information.entropy_of_best(best))
        bound = jnp.where(view.discount > 0, bound, 0.0).ravel()
        moments = Moments(*(x.reshape(draws, -1) for x in state.summary.given_theta))

        def gains_at(index: Array) -> Array:
            mean, variance = (moment[:, index] for moment in moments)
            scale = jnp.sqrt(variance)
            return information.histogram_gain(mean, scale, best, bins=bins, chunk=chunk)

        return information.pruned_choice(regret, bound, view.available.ravel(), gains_at).choice

    def choose(key: Array, state: LiveState, view: View) -> Array:
        reward = view.discount * state.summary.mean
        attainable = jnp.where(view.available, reward, -jnp.inf).max()
        optimum = state.summary.best.max(1).mean() if best_of == 1 else state.frozen.optimum
        # An entry may beat the best one of S draws on average, or the average of the best ones: it
        # is then without regret, and picked.
        optimum = jnp.maximum(optimum, attainable)
        regret = (optimum - reward).ravel()
        if gain == "histogram" and conditioned and selection == "deterministic":
            choice = pruned_histogram(state, view, regret)
            return unless_broken(choice, regret + state.summary.gain.ravel())
        gained = gains(state, view) if conditioned else state.frozen.gain
        gained = jnp.where(view.discount > 0, gained, 0.0).ravel()  # a hidden value says nothing
        available = view.available.ravel()
        if selection == "two_action":
            choice = information.two_action_choice(key, regret, gained, available)
        else:
            choice = information.deterministic_choice(regret, gained, available)
        return unless_broken(choice, regret + gained)

    def best_rewards(state: LiveState, view: View) -> Array:
        """The mean over draws of the average of the `best_of` best entries."""
        noise = ensemble.noise(state.ensemble)[:, None, :]
        mean = _given_theta(scope, noise, ensemble.predict(state.ensemble)).mean
        reward = rewards(view, mean)
        best = lax.top_k(reward, min(best_of, reward.shape[1]))[0]
        return best.mean(where=best > -jnp.inf)

    def freeze(state: LiveState, view: View) -> Frozen:
        return Frozen(
            () if conditioned else gains(state, view),
            () if best_of == 1 else best_rewards(state, view),
        )

    return live(
        belief,
        draws=draws,
        summarise=summarise,
        choose=choose,
        freeze=freeze,
        conditioned=conditioned,
    )


def ids(setting: Setting, **settings: Any) -> Policy:
    """IDS under the fitted model; see `information_directed` for the settings."""
    return information_directed(setting.belief, **settings)
