"""An earlier variational fit as the prior of a matrix with the same rows and other columns."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs.history import Joined, check_temper
from smc_jax.model.earlier import Earlier, shapes, shared
from smc_jax.model.parameters import Parameters


class EarlierFit(NamedTuple):
    """A variational `Fit`, or a `Standardised` one, whose q is the prior with the power `temper`.

    The normals of a q are of one labelling of the factors. Draws that chains stored have none:
    factors may have changed places and signs between two draws. That is why a fit by Gibbs
    sampling is handed on as its `History`, which loses nothing.
    """

    fit: Any
    temper: Array | float

    @classmethod
    def of(cls, fit: Any, *, temper: float = 1.0) -> "EarlierFit":
        """The prior that a fit, or the state of a belief with history, makes.

        Args:
          fit: the state of a `variational` belief, standardised or not.
          temper: in (0, 1]; the prior is q^temper p^(1 - temper).
        """
        check_temper(temper)
        return cls(fit.inner if isinstance(fit, Joined) else fit, temper)


def earlier_of(q: Any, temper: Array | float, begun: Parameters) -> Earlier:
    """The prior that q makes for unconstrained parameters like those begun; else it is refused.

    Args:
      q: a `Variational`.
      temper: its power.
      begun: unconstrained parameters of the model.
    """
    found, wanted = shapes(q.mean), shapes(begun)
    if found != wanted:
        name = next(n for n in {**found, **wanted} if found.get(n) != wanted.get(n))
        raise ValueError(
            f"prior: {name} of the earlier fit has the shape {found.get(name)}, but"
            f" {wanted.get(name)} is needed; it must be of the same rows, rank and model"
        )
    return Earlier(shared(q.mean), shared(q.log_scale), jnp.asarray(temper, float))


def continued(begun: Parameters, earlier: Parameters) -> Parameters:
    """What was begun, with what rows share from an earlier fit."""
    own = {n: value for n, value in earlier._asdict().items() if value is not None}
    return begun._replace(**own)
