"""The interface of all beliefs, and what is reported of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Outcome


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


class Init(Protocol):
    """Starts a belief."""

    def __call__(self, key: Array, data: Observations, prior: Any = None) -> Any:
        """The state before the first refit.

        Args:
          key: randomness of the start.
          data: what was seen.
          prior: what is known beforehand, of a type that the belief names; None for nothing.
        """


def _unmoved(key: Array, state: Any, data: Observations, outcome: Outcome) -> Any:
    return state


class Belief(NamedTuple):
    """A distribution over the parameters that is refitted as data come in.

    Most beliefs wait for the refit. A filter moves with every outcome: `absorb` is then given the
    data that hold the outcome already.
    """

    init: Init  # (key, data, prior=None) -> state
    refit: Callable[[Array, Any, Observations], Any]  # (key, state, data) -> state
    draw: Callable[[Array, Any], Parameters]  # (key, state) -> one draw of the parameters
    diagnose: Callable[[Any], Diagnostics]
    absorb: Callable[[Array, Any, Observations, Outcome], Any] = _unmoved
    point: bool = False  # every draw is the same one


def earlier_or(begun: Any, prior: Any, name: str) -> Any:
    """The prior, if it is an earlier state of the kind and the shapes of the one just begun.

    Without a prior it is the state just begun. Anything else is refused.
    """
    if prior is None:
        return begun
    kind, given = type(begun).__name__, type(prior).__name__
    if not isinstance(prior, type(begun)):
        raise ValueError(f"prior: the {name} belief takes an earlier {kind}, got {given}")
    found, wanted = ([jnp.shape(x) for x in jax.tree.leaves(tree)] for tree in (prior, begun))
    if found != wanted:
        raise ValueError(f"prior: its arrays have the shapes {found}, but {wanted} are needed")
    return prior


def no_prior(name: str, prior: Any) -> None:
    """Refuses a prior that the belief has no use for."""
    if prior is not None:
        raise ValueError(f"prior: the belief {name!r} takes none, got {type(prior).__name__}")


def parameter_draws(key: Array, belief: Belief, state: Any, number: int) -> Parameters:
    """Independent draws with a leading axis S."""
    return jax.vmap(belief.draw, in_axes=(0, None))(jax.random.split(key, number), state)
