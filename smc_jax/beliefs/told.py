"""Parameters that somebody told: what an oracle knows."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs.base import Belief, Diagnostics
from smc_jax.model.parameters import OF_COLUMNS, Parameters
from smc_jax.observations import Observations


def told() -> Belief:
    """The prior, which must be `Parameters`, is the belief, and no data change it."""

    def init(key: Array, data: Observations, prior: Any = None) -> Parameters:
        del key
        if not isinstance(prior, Parameters):
            raise ValueError(
                "prior: an oracle must be told the parameters of the matrix;"
                f" give a Parameters, got {type(prior).__name__}"
            )
        if prior.answers is not None:
            raise ValueError(
                "prior: an oracle is not told who answers; give prior._replace(answers=None)"
            )
        rows = len(prior.loadings), len(prior.intercepts)
        own = (getattr(prior, name) for name in OF_COLUMNS)
        each = [jnp.shape(x)[:1] for x in own if x is not None]
        columns = [shape for shape in each if shape not in ((), (data.columns,))]
        if rows != (data.rows, data.rows) or columns:
            found = columns[0] if columns else each[0]
            raise ValueError(
                f"prior: the parameters are of {rows[0]} rows and columns {found}, the data have"
                f" {data.rows} rows and {data.columns} columns"
            )
        return prior

    return Belief(
        init=init,
        refit=lambda key, parameters, data: parameters,
        draw=lambda key, parameters: parameters,
        diagnose=lambda parameters: Diagnostics.none(),
        point=True,
    )
