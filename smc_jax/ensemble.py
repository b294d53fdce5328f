"""S parameter draws, each with the latent posteriors of all columns and one sample of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax import gaussian
from smc_jax.types import Observations, Outcome, Parameters


class Ensemble(NamedTuple):
    """A live posterior: conditioning on one more entry touches one column of every draw."""

    parameters: Parameters  # leading axis S
    column: gaussian.Column  # mean [S, N, K], covariance [S, N, K, K], sample [S, N, K]


class Prediction(NamedTuple):
    """What each draw says of some entries, without noise."""

    mean: Array  # [S, ...]  b_d + w_d' m_n
    variance: Array  # [S, ...]  w_d' C_n w_d
    sample: Array  # [S, ...]  b_d + w_d' x_n


def start(key: Array, parameters: Parameters, observations: Observations) -> Ensemble:
    """Latent posteriors and samples for parameter draws with a leading axis S."""

    def one(key: Array, parameters: Parameters) -> gaussian.Column:
        columns = gaussian.latent_posterior(parameters, observations)
        sample = gaussian.sample_latents(key, parameters, observations, columns)
        return gaussian.Column(*columns, sample)

    keys = jax.random.split(key, parameters.sigma.shape[0])
    return Ensemble(parameters, jax.vmap(one)(keys, parameters))


def condition(key: Array, ensemble: Ensemble, outcome: Outcome) -> Ensemble:
    """Absorbs one more entry in every draw: O(S K^2), column `outcome.column` alone changes."""
    parameters, n = ensemble.parameters, outcome.column
    keys = jax.random.split(key, parameters.sigma.shape[0])

    def one(key: Array, parameters: Parameters, column: gaussian.Column) -> gaussian.Column:
        return gaussian.absorb(
            key,
            column,
            parameters.loadings[outcome.row],
            outcome.value - parameters.intercepts[outcome.row],
            parameters.sigma**2,
            outcome.weight,
        )

    before = jax.tree.map(lambda x: x[:, n], ensemble.column)
    after = jax.vmap(one)(keys, parameters, before)
    column = jax.tree.map(lambda x, new: x.at[:, n].set(new), ensemble.column, after)
    return Ensemble(parameters, column)


def predict_column(ensemble: Ensemble, n: Array) -> Prediction:
    """The predictions [S, D] for one column."""
    column = jax.tree.map(lambda x: x[:, n], ensemble.column)
    return _predict(ensemble.parameters, column)


def predict(ensemble: Ensemble) -> Prediction:
    """The predictions [S, D, N] for all entries."""
    return jax.vmap(_predict, in_axes=(None, 1), out_axes=2)(ensemble.parameters, ensemble.column)


def _predict(parameters: Parameters, column: gaussian.Column) -> Prediction:
    w, b = parameters.loadings, parameters.intercepts
    reach = jnp.einsum("sdk,skl->sdl", w, column.covariance)
    return Prediction(
        b + jnp.einsum("sdk,sk->sd", w, column.mean),
        (reach * w).sum(-1),
        b + jnp.einsum("sdk,sk->sd", w, column.sample),
    )
