"""Where parameter draws come from: the interface, a variational posterior, and an oracle's."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from smc_jax.environment import Problem
from smc_jax.inference import Fit, Inference, draw, effective_rank
from smc_jax.model import Model
from smc_jax.start import Start
from smc_jax.types import Observations, Parameters


class Diagnostics(NamedTuple):
    """Reported at each refit; NaN where a figure has no meaning."""

    elbo: Array | np.ndarray  # []
    effective_rank: Array | np.ndarray  # []
    finite: Array | np.ndarray  # [] bool: the posterior is made of numbers

    @classmethod
    def none(cls) -> "Diagnostics":
        """For what fits no model."""
        return cls(jnp.full((), jnp.nan), jnp.full((), jnp.nan), jnp.ones((), bool))

    @classmethod
    def finite_only(cls, state: Any) -> "Diagnostics":
        """For a state that has neither bound nor rank, but must be made of numbers."""
        return cls.none()._replace(finite=jnp.isfinite(ravel_pytree(state)[0]).all())


class Belief(NamedTuple):
    """A distribution over the parameters that is refitted as data come in."""

    init: Callable[[Array, Observations, Problem], Any]  # (key, data, problem: for oracles alone)
    refit: Callable[[Array, Any, Observations], Any]  # (key, state, data)
    draw: Callable[[Array, Any], Parameters]  # (key, state)
    diagnose: Callable[[Any], Diagnostics]


def draws(key: Array, belief: Belief, state: Any, number: int) -> Parameters:
    """Independent draws with a leading axis S."""
    return jax.vmap(belief.draw, in_axes=(0, None))(jax.random.split(key, number), state)


def variational(
    model: Model,
    start: Start,
    inference: Inference,
    *,
    first_steps: int = 1000,
    steps: int = 100,
) -> Belief:
    """q fitted from `start`, then warm-started at every refit.

    Args:
      model: the prior.
      start: where q is centred before the first refit.
      inference: made by `inference.svi`.
      first_steps: gradient steps of the first refit.
      steps: gradient steps of every other.
    """

    def init(key: Array, observations: Observations, problem: Problem) -> Fit:
        del problem
        return inference.init(start(key, observations))

    def refit(key: Array, fit: Fit, observations: Observations) -> Fit:
        return inference.run(key, fit, observations, jnp.where(fit.steps == 0, first_steps, steps))

    def diagnose(fit: Fit) -> Diagnostics:
        finite = jnp.isfinite(ravel_pytree(fit.q)[0]).all() & jnp.isfinite(fit.elbo)
        return Diagnostics(fit.elbo, 1.0 * effective_rank(fit.q, signed=model.signed), finite)

    return Belief(
        init=init,
        refit=refit,
        draw=lambda key, fit: model.constrain(draw(key, fit.q)),
        diagnose=diagnose,
    )


def known(reveal: Callable[[Problem], Parameters]) -> Belief:
    """Parameters that are read off the problem itself: only oracles may look."""

    def init(key: Array, observations: Observations, problem: Problem) -> Parameters:
        del key, observations
        return reveal(problem)

    return Belief(
        init=init,
        refit=lambda key, truth, observations: truth,
        draw=lambda key, truth: truth,
        diagnose=lambda truth: Diagnostics.none(),
    )


class Standardised(NamedTuple):
    """A belief about values that were shifted and scaled."""

    inner: Any
    centre: Array  # []
    scale: Array  # []


def standardised(belief: Belief) -> Belief:
    """The belief on values (y - centre) / scale; its draws are in the units of the data.

    Mean and standard deviation are those of what has been seen at the start, and stay: the
    state that is refitted is in their units. Where all of it is alike, the deviation is 1.
    """

    def init(key: Array, observations: Observations, problem: Problem) -> Standardised:
        looks = jnp.maximum(observations.count.sum(), 1.0)
        centre, square = observations.total.sum() / looks, observations.square.sum() / looks
        variance = square - centre**2
        varies = variance > 1e-5 * square  # more than rounding does
        scale = jnp.sqrt(jnp.where(varies, variance, 1.0))
        scaled = observations.relative_to(centre, scale)
        return Standardised(belief.init(key, scaled, problem), centre, scale)

    def refit(key: Array, state: Standardised, observations: Observations) -> Standardised:
        scaled = observations.relative_to(state.centre, state.scale)
        return state._replace(inner=belief.refit(key, state.inner, scaled))

    def draw_in_units(key: Array, state: Standardised) -> Parameters:
        parameters = belief.draw(key, state.inner)
        return parameters._replace(
            loadings=state.scale * parameters.loadings,
            strengths=state.scale * parameters.strengths,
            sigma=state.scale * parameters.sigma,
            intercepts=state.centre + state.scale * parameters.intercepts,
        )

    return Belief(init, refit, draw_in_units, lambda state: belief.diagnose(state.inner))
