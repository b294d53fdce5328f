"""Information-Directed Sampling: least expected regret squared per bit about the best entry."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax import ensemble, information
from smc_jax.beliefs import Belief
from smc_jax.policies.base import Policy, Setting, unless_broken
from smc_jax.policies.live import ColumnView, LiveState, live
from smc_jax.types import View

SCOPES = ("matrix", "covariance")
GAINS = ("gaussian", "histogram", "variance")
SELECTIONS = ("deterministic", "two_action")


class Scores(NamedTuple):
    """Summary over the draws; for one column without the last axis."""

    mean: Array  # [D, N]  mean over draws of the entry's mean
    gain: Array  # [D, N]  its gaussian gain
    best: Array  # [S, N]  each draw's best available reward in the column


def _given_theta(scope: str, noise: Array, prediction: ensemble.Prediction) -> tuple[Array, Array]:
    """Mean and variance of an entry once theta is known; noise broadcasts against them.

    `matrix`: theta = (W, sigma, X), only noise is left. `covariance`: theta = (W, sigma).
    """
    if scope == "matrix":
        return prediction.sample, jnp.broadcast_to(noise**2, prediction.sample.shape)
    return prediction.mean, prediction.variance + noise**2


def information_directed(
    belief: Belief,
    *,
    draws: int = 16,
    scope: str = "matrix",
    gain: str = "gaussian",
    selection: str = "deterministic",
    conditioned: bool = True,
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

    def summarise(column: ColumnView) -> Scores:
        prediction, noise = column.prediction, column.noise[:, None]
        mean, variance = _given_theta(scope, noise, prediction)
        total = (prediction.variance + noise**2).mean(0) + prediction.mean.var(0)
        best = jnp.where(column.available, column.discount * mean, -jnp.inf).max(1)
        conditional = jnp.exp(jnp.log(variance).mean(0))  # geometric mean over the draws
        gained = information.gaussian_gain(total, conditional)
        return Scores(prediction.mean.mean(0), gained, best)

    def gains(state: LiveState, view: View) -> Array:
        """Information gain [D, N] of every entry."""
        if gain == "gaussian":
            return state.summary.gain
        noise = ensemble.noise(state.ensemble)[:, None, :]
        moments = _given_theta(scope, noise, ensemble.predict(state.ensemble))
        mean, variance = (moment.reshape(draws, -1) for moment in moments)
        reward = jnp.where(view.available.ravel(), view.discount.ravel() * mean, -jnp.inf)
        best = jnp.argmax(reward, axis=1)
        if gain == "variance":
            value = information.variance_gain(mean, best)
        else:
            scale = jnp.sqrt(variance)
            value = information.histogram_gain(mean, scale, best, bins=bins, chunk=chunk)
        return value.reshape(view.available.shape)

    def choose(key: Array, state: LiveState, view: View) -> Array:
        reward = view.discount * state.summary.mean
        attainable = jnp.where(view.available, reward, -jnp.inf).max()
        # In expectation no entry beats the best one of each draw; with S draws, one may.
        optimum = jnp.maximum(state.summary.best.max(1).mean(), attainable)
        regret = (optimum - reward).ravel()
        gained = gains(state, view) if conditioned else state.frozen
        gained = jnp.where(view.discount > 0, gained, 0.0).ravel()  # a hidden value says nothing
        available = view.available.ravel()
        if selection == "two_action":
            choice = information.two_action_choice(key, regret, gained, available)
        else:
            choice = information.deterministic_choice(regret, gained, available)
        return unless_broken(choice, regret + gained)

    def freeze(state: LiveState, view: View) -> Any:
        return () if conditioned else gains(state, view)

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
