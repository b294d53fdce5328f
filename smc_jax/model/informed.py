"""The prior of the parameters with what is known beforehand of rows, columns and entries.

For methods that move all parameters together, along gradients. Signed loadings have their weights
integrated out: W_k ~ N(0, r_k^2 (I + common 1 1' + relevance F F')), and intercepts alike. Gamma
loadings keep them: W_dk ~ G(gamma r_k, gamma exp(-f_d'B_k)), whose mean is r_k exp(f_d'B_k). Latent
columns have the means B_c'g_n. The variance of the weights of a side is learned; its root is
half-Cauchy a priori.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from smc_jax.model.features import Features
from smc_jax.model.gamma_process import Model, gamma_draw
from smc_jax.model.parameters import POSITIVE, REAL, Field, Layer, Parameters, field

STARTING = 0.1  # the variance of a weight where fits start
FARTHEST = 20.0  # of f_d'B_k, on which loadings depend by its exponential


def log_relevance(variance: Array) -> Array:
    """The log density of a variance whose root is half-Cauchy."""
    return -jnp.log(jnp.pi) - 0.5 * jnp.log(variance) - jnp.log1p(variance)


def _relevance(name: str) -> Field:
    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        return dist.HalfCauchy(1.0).sample(key) ** 2

    return Field(POSITIVE, lambda p: log_relevance(getattr(p, name)), draw)


def integrated_log_density(
    values: Array, scale: Array, common: float, features: ArrayLike, relevance: Array
) -> Array:
    """log p of columns [D, L] ~ N(0, scale_l^2 (I + common 1 1' + relevance F F')).

    The constant and the columns of F [D, M] are orthogonal, so that the density costs O(D M).
    """
    f = jnp.asarray(features, values.dtype)
    rows, number = values.shape
    sizes = (f**2).sum(0)
    grown = relevance * sizes  # what the features add to the variance along each
    mean = values.mean(0)
    centred = values - mean
    moved = f.T @ centred
    residual = centred - f @ (moved / sizes[:, None])
    along = moved**2 / (sizes * (1.0 + grown))[:, None]
    squares = (residual**2).sum(0) + rows * mean**2 / (1.0 + common * rows) + along.sum(0)
    determinant = jnp.log1p(common * rows) + jnp.log1p(grown).sum()
    constant = rows * jnp.log(2 * jnp.pi) + determinant
    return -(0.5 * squares / scale**2 + rows * jnp.log(scale)).sum() - 0.5 * number * constant


def _integrated(base: Field, name: str, common: float, features: ArrayLike) -> Field:
    """Signed loadings or intercepts, whose prior `base` has no features."""
    f = jnp.asarray(features, float)
    scale_of = {"loadings": "strengths", "intercepts": "intercept_scale"}[name]

    def log_prob(p: Parameters) -> Array:
        values = getattr(p, name).reshape(len(f), -1)
        scale = jnp.broadcast_to(getattr(p, scale_of), values.shape[1:])
        return integrated_log_density(values, scale, common, f, p.row_relevance)

    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        own_key, weight_key = jax.random.split(key)
        own = base.sample(own_key, others, rows, columns)
        scale = jnp.sqrt(others.row_relevance) * getattr(others, scale_of)
        return own + f @ (scale * jax.random.normal(weight_key, (f.shape[1], *own.shape[1:])))

    return base._replace(log_prob=log_prob, sample=draw)


def _log_linear(base: Field, rank: int, features: ArrayLike) -> Layer:
    """Gamma loadings whose rates the features move, and the weights of these."""
    f = jnp.asarray(features, float)

    def rate(p: Parameters) -> Array:
        return p.gamma * jnp.exp(-jnp.clip(f @ p.row_weights, -FARTHEST, FARTHEST))

    def log_prob(p: Parameters) -> Array:
        return dist.Gamma(p.gamma * p.strengths, rate(p)).log_prob(p.loadings).sum()

    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        shape = jnp.broadcast_to(others.gamma * others.strengths, (rows, rank))
        return gamma_draw(key, shape, rate(others))

    weights = field(
        REAL,
        "row_weights",
        lambda p: dist.Normal(0.0, jnp.sqrt(p.row_relevance)),
        lambda *size: (f.shape[1], rank),
    )
    return {"loadings": base._replace(log_prob=log_prob, sample=draw), "row_weights": weights}


def _with_rows(layer: Layer, model: Model, features: ArrayLike) -> Layer:
    """A layer of the model with what features of the rows move in it."""
    made = dict(layer)
    if "loadings" in layer and model.signed:
        common = model.settings["common"]
        made["loadings"] = _integrated(layer["loadings"], "loadings", common, features)
    elif "loadings" in layer:
        made |= _log_linear(layer["loadings"], model.rank, features)
    if "intercepts" in layer:
        made["intercepts"] = _integrated(layer["intercepts"], "intercepts", 0.0, features)
    return made


def informed(model: Model, features: Features) -> Model:
    """The model with what is known beforehand; without anything it is the model itself."""
    if not features.known():
        return model
    if not model.settings["residual"]:
        raise ValueError("model.residual: False needs chains of signed loadings")
    rank = model.rank
    layers, begun, held = list(model.layers), {}, dict(model.held)
    if features.rows is not None:
        layers = [_with_rows(layer, model, features.rows) for layer in layers]
        layers.insert(0, {"row_relevance": _relevance("row_relevance")})
        begun["row_relevance"] = np.asarray(STARTING)
        if not model.signed:
            begun["row_weights"] = np.zeros((np.shape(features.rows)[1], rank))
    if features.columns is not None:
        size = np.shape(features.columns)[1], rank + model.settings["offsets"]
        weights = field(
            REAL,
            "column_weights",
            lambda p: dist.Normal(0.0, jnp.sqrt(p.column_relevance)),
            lambda rows, columns: size,
        )
        relevance = _relevance("column_relevance")
        layers.append({"column_weights": weights, "column_relevance": relevance})
        begun |= {"column_weights": np.zeros(size), "column_relevance": np.asarray(STARTING)}
    if features.entries is not None:
        prediction = jnp.asarray(features.entries, float).T
        held["prediction"] = lambda rows: prediction
        weight = field(REAL, "prediction_weight", lambda p: dist.Cauchy(0.0, 1.0))
        layers.append({"prediction_weight": weight})
        begun["prediction_weight"] = np.asarray(0.0)
    return model._replace(layers=tuple(layers), held=held, features=features, begun=begun)
