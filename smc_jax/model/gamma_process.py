"""The factor model with a gamma process on its factors: priors, density, unconstrained space."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from smc_jax.checks import at_least, one_of, positive
from smc_jax.looks import Seen
from smc_jax.model.earlier import OWN, Earlier
from smc_jax.model.features import Features
from smc_jax.model.gaussian import log_likelihood
from smc_jax.model.noise_prior import noise_prior
from smc_jax.model.parameters import (
    POSITIVE,
    REAL,
    Field,
    Layer,
    Parameters,
    field,
    log_tail,
)

LOADINGS = ("gamma", "signed")


class Model(NamedTuple):
    """A prior on the parameters: layers of fields, and the values of what is held fixed."""

    rank: int  # K
    layers: tuple[Layer, ...]
    held: dict[str, Callable[[int], Array]]  # from the number of rows to the value
    settings: Mapping[str, Any]  # what it was made with, for samplers that use its conjugacies
    features: Features = Features()  # what is known beforehand; see `informed`
    begun: Mapping[str, ArrayLike] = {}  # where the weights of features start
    earlier: Earlier | None = None  # a fit of other columns, as a part of the prior

    def free(self) -> dict[str, Field]:
        """The parameters that have a prior, by name."""
        return {name: one for layer in self.layers for name, one in layer.items()}

    @property
    def signed(self) -> bool:
        """Whether loadings may be negative."""
        return self.free()["loadings"].bijector is REAL

    def log_prior(self, parameters: Parameters) -> Array:
        """log p(theta), layer by layer."""
        each = [[one.log_prob(parameters) for one in layer.values()] for layer in self.layers]
        return functools.reduce(jnp.add, (functools.reduce(jnp.add, layer) for layer in each))

    def sample_prior(self, key: Array, rows: int, columns: int) -> Parameters:
        """A draw of theta for a matrix of that size."""
        held = {name: value(rows) for name, value in self.held.items()}
        drawn = Parameters(*(held.get(name) for name in Parameters._fields))  # type: ignore[arg-type]
        order = [item for layer in self.layers for item in reversed(layer.items())]
        for own, (name, one) in zip(jax.random.split(key, len(order)), order, strict=True):
            drawn = drawn._replace(**{name: one.sample(own, drawn, rows, columns)})
        return self._with_latent_means(drawn)

    def constrain(self, unconstrained: Parameters) -> Parameters:
        """theta(u)."""
        free, rows = self.free(), unconstrained.loadings.shape[0]
        images = {
            name: free[name].bijector.forward(value) if name in free else self.held[name](rows)
            for name, value in unconstrained._asdict().items()
            if name in free or name in self.held
        }
        return self._with_latent_means(Parameters(**images))

    def _with_latent_means(self, parameters: Parameters) -> Parameters:
        """The parameters with the means p_n = B_c'g_n that features of the columns make."""
        if parameters.column_weights is None:
            return parameters
        means = jnp.asarray(self.features.columns) @ parameters.column_weights
        return parameters._replace(latent_means=means)

    def unconstrain(self, parameters: Parameters) -> Parameters:
        """u(theta), None where the model holds a parameter fixed."""
        free = self.free()
        images: dict[str, Any] = {
            name: free[name].bijector.inverse(value) if name in free else None
            for name, value in parameters._asdict().items()
        }
        return Parameters(**images)

    def log_volume(self, unconstrained: Parameters) -> Array:
        """log |d theta / d u|, the loadings, which are the most, last."""
        free = self.free()
        volumes = {
            name: free[name].bijector.log_volume(value)
            for name, value in unconstrained._asdict().items()
            if name in free
        }
        loadings = volumes.pop("loadings")
        return sum(volumes.values(), jnp.zeros(())) + loadings

    def log_likelihood(self, parameters: Parameters, observations: Seen) -> Array:
        """log p(Y | theta), the latent columns integrated out."""
        w, b, variance = parameters.factors(), parameters.intercepts, parameters.noise() ** 2
        elsewhere = parameters.prediction_weight, parameters.prediction
        return log_likelihood(w, b, variance, observations, parameters.latent_means, *elsewhere)

    def log_density(self, unconstrained: Parameters) -> Array:
        """log p(theta(u)) + log |d theta / d u|: the prior in unconstrained space."""
        parameters = self.constrain(unconstrained)
        tails = [
            log_tail(getattr(unconstrained, name), one.shape(parameters))
            for name, one in self.free().items()
            if one.shape is not None
        ]
        inside = self.log_prior(parameters) + self.log_volume(unconstrained)
        whole = functools.reduce(jnp.add, tails, inside)
        if self.earlier is None:
            return whole
        own = self._log_density_of_own(parameters, unconstrained)
        temper, known = self.earlier.temper, self.earlier.log_density(unconstrained)
        return own + (1.0 - temper) * (whole - own) + temper * known

    def _log_density_of_own(self, parameters: Parameters, unconstrained: Parameters) -> Array:
        """The part of the log density that an earlier fit says nothing of."""
        free = self.free()
        each = [
            free[name].log_prob(parameters)
            + free[name].bijector.log_volume(getattr(unconstrained, name))
            for name in OWN
            if name in free
        ]
        return sum(each, jnp.zeros(()))

    def log_joint(self, unconstrained: Parameters, observations: Seen) -> Array:
        """log p(Y, theta(u)) + log |d theta / d u|."""
        likelihood = self.log_likelihood(self.constrain(unconstrained), observations)
        return likelihood + self.log_density(unconstrained)


def signed_log_density(loadings: Array, strengths: Array, common: float) -> Array:
    """log p(W) with W_k ~ N(0, r_k^2 (I + common 1 1')), the column's mean v_k integrated out."""
    rows, rank = loadings.shape
    mean = loadings.mean(0)
    squares = ((loadings - mean) ** 2).sum(0) + rows * mean**2 / (1 + common * rows)
    constant = rank * (rows * jnp.log(2 * jnp.pi) + jnp.log1p(common * rows))
    return -(0.5 * squares / strengths**2 + rows * jnp.log(strengths)).sum() - 0.5 * constant


def gamma_draw(key: Array, shape: Array, rate: Array) -> Array:
    """x ~ G(shape, rate) by its logarithm, which does not underflow where the shape is small."""
    return POSITIVE.forward(jax.random.loggamma(key, shape) - jnp.log(rate))


def _process(rank: int) -> Layer:
    """r_k ~ G(gamma0 / K, c0), gamma0 and c0 ~ G(1, 1)."""

    def draw_strengths(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        return gamma_draw(key, jnp.full((rank,), others.gamma0 / rank), others.c0)

    hyper = dist.Gamma(1.0, 1.0)
    strengths = field(POSITIVE, "strengths", lambda p: dist.Gamma(p.gamma0 / rank, p.c0))
    return {
        "strengths": strengths._replace(sample=draw_strengths, shape=lambda p: p.gamma0 / rank),
        "gamma0": field(POSITIVE, "gamma0", lambda p: hyper),
        "c0": field(POSITIVE, "c0", lambda p: hyper),
    }


def _gamma_loadings(rank: int) -> Layer:
    """W_dk ~ G(gamma r_k, gamma), gamma ~ G(1, 1)."""

    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        shape = jnp.broadcast_to(others.gamma * others.strengths, (rows, rank))
        return gamma_draw(key, shape, others.gamma)

    loadings = field(POSITIVE, "loadings", lambda p: dist.Gamma(p.gamma * p.strengths, p.gamma))
    return {
        "loadings": loadings._replace(sample=draw, shape=lambda p: p.gamma * p.strengths),
        "gamma": field(POSITIVE, "gamma", lambda p: dist.Gamma(1.0, 1.0)),
    }


def _signed_loadings(rank: int, common: float) -> Layer:
    """W_dk ~ N(v_k, r_k^2), v_k ~ N(0, common r_k^2) integrated out."""

    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        own_key, common_key = jax.random.split(key)
        shared = jnp.sqrt(common) * jax.random.normal(common_key, (rank,))
        return others.strengths * (shared + jax.random.normal(own_key, (rows, rank)))

    def log_prob(parameters: Parameters) -> Array:
        return signed_log_density(parameters.loadings, parameters.strengths, common)

    return {"loadings": Field(REAL, log_prob, draw)}


def _intercepts(*, learned: bool) -> Layer:
    """b_d ~ N(0, s_b^2), and s_b half-Cauchy where it is learned."""

    def shape(rows: int, columns: int) -> tuple[int, ...]:
        return (rows,)

    own = field(REAL, "intercepts", lambda p: dist.Normal(0.0, p.intercept_scale), shape)
    if not learned:
        return {"intercepts": own}
    scale = field(POSITIVE, "intercept_scale", lambda p: dist.HalfCauchy(1.0))
    return {"intercepts": own, "intercept_scale": scale}


def _one(rows: int) -> Array:
    return jnp.ones(())


def _zero(rows: int) -> Array:
    return jnp.zeros(())


def _none(rows: int) -> Array:
    return jnp.zeros(0)


def gamma_process(
    *,
    rank: int,
    loadings: str = "gamma",
    intercepts: bool = False,
    intercept_scale: float | None = 1.0,
    offsets: bool = False,
    noise_shape: float = 1.0,
    noise_rate: float = 1.0,
    fixed_noise: float | None = None,
    noise_bound: float | None = None,
    noise_spread: float = 0.0,
    common: float = 0.0,
    residual: bool = True,
) -> Model:
    """r_k ~ G(gamma0/K, c0) and gamma0, c0 ~ G(1, 1), with loadings of one of two kinds.

    Args:
      rank: K, the number of loadings columns kept.
      loadings: `gamma` (the paper): W_dk ~ G(gamma r_k, gamma), gamma ~ G(1, 1), so that no two
        rows are negatively correlated; or `signed`: W_dk ~ N(v_k, r_k^2).
      intercepts: whether rows have intercepts b_d ~ N(0, intercept_scale^2).
      intercept_scale: the prior standard deviation of an intercept; None learns it, half-Cauchy of
        scale one a priori.
      offsets: whether columns have offsets too: a factor more, whose loading is alike in all rows
        and N(0, 1) a priori, so that how far columns lie apart is learned.
      noise_shape: 1/sigma^2 ~ G(noise_shape, noise_rate).
      noise_rate: the rate of that gamma prior.
      fixed_noise: a known sigma^2; sigma is then held and has no prior.
      noise_bound: an upper bound on sigma^2, where its prior is cut off; the paper's algorithms
        are given one. Like the prior it is in the units of the fit, which are deviations of the
        values where these are standardised.
      noise_spread: where it is positive, the noise of column n has the standard deviation
        sigma t_n with log t_n ~ N(0, noise_spread^2): some users rate more evenly than others.
        Gibbs sampling keeps log t_n within four deviations.
      common: of signed loadings, v_k ~ N(0, common r_k^2), integrated out: how much of a factor
        all rows share. At 0 rows are uncorrelated a priori.
      residual: whether rows have loadings and intercepts of their own, beside what their features
        say. Without, w_d = v + B'f_d, and b_d alike: a row that nobody ever asked for is predicted
        as well as others, and the number of parameters does not grow with the rows. It needs
        features of the rows, signed loadings and chains.
    """
    at_least("rank", rank, 1)
    one_of("loadings", loadings, LOADINGS)
    positive("intercept_scale", intercept_scale, optional=True)
    at_least("common", common, 0.0)
    if not (residual or loadings == "signed"):
        raise ValueError("residual: False needs loadings=signed")
    noise: dict[str, Any] = {
        "noise_shape": noise_shape,
        "noise_rate": noise_rate,
        "fixed_noise": fixed_noise,
    }
    noise |= {"noise_bound": noise_bound, "noise_spread": noise_spread}

    noise_layers, held = noise_prior(**noise)
    held |= {"intercepts": jnp.zeros, "latent_means": _zero, "offsets": _none}
    layers = [_process(rank)]
    if loadings == "signed":
        layers.append(_signed_loadings(rank, common))
        held["gamma"] = _one
    else:
        layers.append(_gamma_loadings(rank))
    scale = 1.0 if intercept_scale is None else intercept_scale
    held["intercept_scale"] = lambda rows: jnp.asarray(scale, float)
    if intercepts:
        layers.append(_intercepts(learned=intercept_scale is None))
    if offsets:
        normal = dist.Normal(0.0, 1.0)
        layers.append({"offsets": field(REAL, "offsets", lambda p: normal, lambda *size: (1,))})
    settings = {
        "intercepts": intercepts,
        "intercept_scale": intercept_scale,
        "offsets": offsets,
        "common": common,
        "residual": residual,
        **noise,
    }
    return Model(rank, (*layers, *noise_layers), held, settings)
