"""The interface of all beliefs, and what is reported of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from smc_jax.checks import at_least
from smc_jax.looks import Seen
from smc_jax.model.parameters import Parameters
from smc_jax.model.rank import ranks_of_draws
from smc_jax.types import Outcome


class Diagnostics(NamedTuple):
    """Reported at each refit; NaN where a figure has no meaning."""

    elbo: Array | np.ndarray  # []
    effective_rank: Array | np.ndarray  # []  see `model.rank`
    signal_rank: Array | np.ndarray  # []  see `model.rank`
    finite: Array | np.ndarray  # [] bool: the posterior is made of numbers

    @classmethod
    def none(cls) -> "Diagnostics":
        """For what fits no model."""
        nan = jnp.full((), jnp.nan)
        return cls(nan, nan, nan, jnp.ones((), bool))

    @classmethod
    def finite_only(cls, state: Any) -> "Diagnostics":
        """For a state that has neither bound nor rank, but must be made of numbers."""
        return cls.none()._replace(finite=jnp.isfinite(ravel_pytree(state)[0]).all())

    @classmethod
    def of_draws(cls, draws: Parameters) -> "Diagnostics":
        """For stored draws, which have ranks and no bound."""
        found = ranks_of_draws(draws)
        ranks = {"effective_rank": found.effective, "signal_rank": found.signal}
        return cls.finite_only(draws)._replace(**ranks)


class Init(Protocol):
    """Starts a belief."""

    def __call__(self, key: Array, data: Seen, prior: Any = None) -> Any:
        """The state before the first refit.

        Args:
          key: randomness of the start.
          data: what was seen.
          prior: what is known beforehand, of a type that the belief names; None for nothing.
        """


def _unmoved(key: Array, state: Any, data: Seen, outcome: Outcome) -> Any:
    return state


class Belief(NamedTuple):
    """A distribution over the parameters that is refitted as data come in.

    Most beliefs wait for the refit. A filter moves with every outcome: `absorb` is then given the
    data that hold the outcome already. A chain stores draws at each refit, and `draw` takes one of
    them: `store` gives them all.
    """

    init: Init  # (key, data, prior=None) -> state
    refit: Callable[[Array, Any, Seen], Any]  # (key, state, data) -> state
    draw: Callable[[Array, Any], Parameters]  # (key, state) -> one draw of the parameters
    diagnose: Callable[[Any], Diagnostics]
    absorb: Callable[[Array, Any, Seen, Outcome], Any] = _unmoved
    point: bool = False  # every draw is the same one
    store: Callable[[Any], Parameters] | None = None  # state -> stored draws, leading axis S
    # The same belief for a number of columns more, with their features [M, Q] or None; None where
    # the belief does not depend on which columns there are.
    beside: Callable[[ArrayLike | None, int], "Belief"] | None = None
    learns_answers: bool = False  # draws say who answers; see `model.answers`


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
    """Draws with a leading axis S: independent ones, or stored ones, each as often as any other.

    Where more are wanted than the belief stores, some stand there once more than others.
    """
    if belief.store is not None:
        stored = belief.store(state)
        order = jax.random.permutation(key, stored.sigma.shape[0])
        index = order[jnp.arange(number) % order.size]
        return jax.tree.map(lambda x: x[index], stored)
    return jax.vmap(belief.draw, in_axes=(0, None))(jax.random.split(key, number), state)


def several_of(draws: int, chains: int) -> None:
    """Refuses a number of stored draws that the chains do not share evenly."""
    at_least("draws", draws, 1)
    if draws % chains:
        raise ValueError(f"draws: must be a multiple of chains = {chains}, got {draws}")


def stored_belief(
    init: Init,
    refit: Callable[[Array, Any, Seen], Any],
    diagnose: Callable[[Any], Diagnostics],
    store: Callable[[Any], Parameters] = lambda state: state.draws,
) -> Belief:
    """A belief whose state has draws, with a leading axis S, that each refit stores."""

    def draw(key: Array, state: Any) -> Parameters:
        stored = store(state)
        index = jax.random.randint(key, (), 0, stored.sigma.shape[0])
        return jax.tree.map(lambda x: x[index], stored)

    return Belief(init, refit, draw, diagnose, store=store)
