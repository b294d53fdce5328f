"""An earlier fit as the prior: q^temper p^(1 - temper) over what all columns share.

What belongs to a column, such as its noise, has its own prior still: the columns of the earlier fit
were others, and there may have been more or fewer of them. So have the weights of features and of a
prediction: the coordinates of a table depend on all its lines, and another table has others. The
product is not normalised, so that an ELBO, which has no meaning across priors anyway, is known up
to a constant; no gradient and no transition of a chain depends on that.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm

from smc_jax.model.parameters import OF_COLUMNS, Parameters

OF_FEATURES = (
    "prediction_weight",
    "row_weights",
    "row_relevance",
    "column_weights",
    "column_relevance",
)
OWN = OF_COLUMNS + OF_FEATURES  # what keeps its own prior


class Earlier(NamedTuple):
    """Independent normals of the unconstrained parameters that rows share, and their weight."""

    mean: Parameters  # None in the fields of `OWN`, and where the model holds a field fixed
    log_scale: Parameters
    temper: Array  # []  in (0, 1]: the power of these normals in the prior

    def log_density(self, unconstrained: Parameters) -> Array:
        """log q of what rows share."""

        def one(at: Array, mean: Array, log_scale: Array) -> Array:
            return norm.logpdf(at, mean, jnp.exp(log_scale)).sum()

        each = jax.tree.map(one, shared(unconstrained), self.mean, self.log_scale)
        return sum(jax.tree.leaves(each), jnp.zeros(()))


def shared(unconstrained: Parameters) -> Parameters:
    """The parameters without what belongs to columns, and without the weights of features."""
    return unconstrained._replace(**dict.fromkeys(OWN))  # type: ignore[arg-type]


def shapes(unconstrained: Parameters) -> dict[str, tuple[int, ...]]:
    """The shapes of what rows share, by name."""
    found = shared(unconstrained)._asdict()
    return {name: jnp.shape(value) for name, value in found.items() if value is not None}
