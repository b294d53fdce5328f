"""The factor model with a gamma process on its factors: priors, density, unconstrained space."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from smc_jax.gaussian import log_likelihood
from smc_jax.types import Observations, Parameters, Unconstrained

# On this range products of two exponentials (w^2, sigma^2, gamma r) stay normal float32 numbers.
LOG_RANGE = 40.0
LOADINGS = ("gamma", "signed")


class Model(NamedTuple):
    """A prior on the parameters, as pure functions."""

    rank: int  # K
    signed: bool  # whether loadings may be negative
    intercepts: bool  # whether rows have intercepts
    column_noise: bool  # whether the noise differs from column to column
    log_prior: Callable[[Parameters], Array]
    sample_prior: Callable[[Array, int, int], Parameters]  # (key, rows, columns)
    constrain: Callable[[Unconstrained], Parameters]
    unconstrain: Callable[[Parameters], Unconstrained]
    log_volume: Callable[[Unconstrained], Array]  # log |d constrained / d unconstrained|

    def log_likelihood(self, parameters: Parameters, observations: Observations) -> Array:
        """log p(Y | theta), the latent columns integrated out."""
        w, b, variance = parameters.loadings, parameters.intercepts, parameters.noise() ** 2
        return log_likelihood(w, b, variance, observations)

    def log_density(self, unconstrained: Unconstrained) -> Array:
        """log p(theta(u)) + log |d theta / d u|: the prior in unconstrained space."""
        return self.log_prior(self.constrain(unconstrained)) + self.log_volume(unconstrained)

    def log_joint(self, unconstrained: Unconstrained, observations: Observations) -> Array:
        """log p(Y, theta(u)) + log |d theta / d u|."""
        likelihood = self.log_likelihood(self.constrain(unconstrained), observations)
        return likelihood + self.log_density(unconstrained)


def sigma_prior(shape: float, rate: float) -> dist.Distribution:
    """sigma where 1/sigma^2 ~ G(shape, rate)."""
    power = dist.transforms.PowerTransform(-0.5)
    return dist.TransformedDistribution(dist.Gamma(shape, rate), power)


def signed_log_density(loadings: Array, strengths: Array, common: float) -> Array:
    """log p(W) with W_k ~ N(0, r_k^2 (I + common 1 1')), the column's mean v_k integrated out."""
    rows, rank = loadings.shape
    mean = loadings.mean(0)
    squares = ((loadings - mean) ** 2).sum(0) + rows * mean**2 / (1 + common * rows)
    constant = rank * (rows * jnp.log(2 * jnp.pi) + jnp.log1p(common * rows))
    return -(0.5 * squares / strengths**2 + rows * jnp.log(strengths)).sum() - 0.5 * constant


def _log_gamma_draw(key: Array, shape: Array, rate: Array) -> Array:
    """log x, x ~ G(shape, rate), which does not underflow where the shape is small."""
    return jax.random.loggamma(key, shape) - jnp.log(rate)


def _exp(log_value: Array) -> Array:
    return jnp.exp(jnp.clip(log_value, -LOG_RANGE, LOG_RANGE))


def _log(value: Array) -> Array:
    return jnp.log(jnp.maximum(value, jnp.exp(-LOG_RANGE)))


def gamma_process(
    *,
    rank: int,
    loadings: str = "gamma",
    intercepts: bool = False,
    intercept_scale: float = 1.0,
    noise_shape: float = 1.0,
    noise_rate: float = 1.0,
    fixed_noise: float | None = None,
    noise_spread: float = 0.0,
    common: float = 0.0,
) -> Model:
    """r_k ~ G(gamma0/K, c0) and gamma0, c0 ~ G(1, 1), with loadings of one of two kinds.

    Args:
      rank: K, the number of loadings columns kept.
      loadings: `gamma` (the paper): W_dk ~ G(gamma r_k, gamma), gamma ~ G(1, 1), so that no two
        rows are negatively correlated; or `signed`: W_dk ~ N(v_k, r_k^2).
      intercepts: whether rows have intercepts b_d ~ N(0, intercept_scale^2).
      intercept_scale: their prior standard deviation.
      noise_shape: 1/sigma^2 ~ G(noise_shape, noise_rate).
      noise_rate: see noise_shape.
      fixed_noise: a known sigma^2; sigma is then held and has no prior.
      noise_spread: where it is positive, the noise of column n has the standard deviation
        sigma t_n with log t_n ~ N(0, noise_spread^2): some users rate more evenly than others.
      common: of signed loadings, v_k ~ N(0, common r_k^2), integrated out: how much of a factor
        all rows share. At 0 rows are uncorrelated a priori.
    """
    if loadings not in LOADINGS:
        raise ValueError(f"model.loadings: unknown {loadings!r}; choose from {', '.join(LOADINGS)}")
    signed = loadings == "signed"
    hyper = dist.Gamma(1.0, 1.0)
    noise = sigma_prior(noise_shape, noise_rate)
    intercept = dist.Normal(0.0, intercept_scale)
    scale_of_noise = dist.LogNormal(0.0, noise_spread or 1.0)
    column_noise = noise_spread > 0.0
    known_sigma = jnp.sqrt(jnp.asarray(jnp.nan if fixed_noise is None else fixed_noise, float))

    def log_prior(parameters: Parameters) -> Array:
        w, r, gamma, gamma0, c0, sigma, b, noise_scales = parameters
        density = (
            dist.Gamma(gamma0 / rank, c0).log_prob(r).sum()
            + hyper.log_prob(gamma0)
            + hyper.log_prob(c0)
        )
        if signed:
            density += signed_log_density(w, r, common)
        else:
            density += dist.Gamma(gamma * r, gamma).log_prob(w).sum() + hyper.log_prob(gamma)
        if fixed_noise is None:
            density += noise.log_prob(sigma)
        if intercepts:
            density += intercept.log_prob(b).sum()
        if column_noise:
            density += scale_of_noise.log_prob(noise_scales).sum()
        return density

    def sample_prior(key: Array, rows: int, columns: int) -> Parameters:
        keys = jax.random.split(key, 7)
        w_key, r_key, hyper_key, sigma_key, b_key, common_key, scale_key = keys
        gamma, gamma0, c0 = hyper.sample(hyper_key, (3,))
        shape = jnp.full((rank,), gamma0 / rank)
        r = _exp(_log_gamma_draw(r_key, shape, c0))
        if signed:
            shared = jnp.sqrt(common) * jax.random.normal(common_key, (rank,))
            gamma, w = jnp.ones(()), r * (shared + jax.random.normal(w_key, (rows, rank)))
        else:
            w = _exp(_log_gamma_draw(w_key, jnp.broadcast_to(gamma * r, (rows, rank)), gamma))
        sigma = noise.sample(sigma_key) if fixed_noise is None else known_sigma
        b = intercept.sample(b_key, (rows,)) if intercepts else jnp.zeros(rows)
        scales = scale_of_noise.sample(scale_key, (columns,)) if column_noise else jnp.ones(())
        return Parameters(w, r, gamma, gamma0, c0, sigma, b, scales)

    def constrain(u: Unconstrained) -> Parameters:
        return Parameters(
            loadings=u.loadings if signed else _exp(u.loadings),
            strengths=_exp(u.strengths),
            gamma=jnp.ones(()) if u.gamma is None else _exp(u.gamma),
            gamma0=_exp(u.gamma0),
            c0=_exp(u.c0),
            sigma=known_sigma if u.sigma is None else _exp(u.sigma),
            intercepts=jnp.zeros(u.loadings.shape[0]) if u.intercepts is None else u.intercepts,
            noise_scales=jnp.ones(()) if u.noise_scales is None else _exp(u.noise_scales),
        )

    def unconstrain(parameters: Parameters) -> Unconstrained:
        return Unconstrained(
            loadings=parameters.loadings if signed else _log(parameters.loadings),
            strengths=_log(parameters.strengths),
            gamma=None if signed else _log(parameters.gamma),
            gamma0=_log(parameters.gamma0),
            c0=_log(parameters.c0),
            sigma=_log(parameters.sigma) if fixed_noise is None else None,
            intercepts=parameters.intercepts if intercepts else None,
            noise_scales=_log(parameters.noise_scales) if column_noise else None,
        )

    def log_volume(u: Unconstrained) -> Array:
        positive = (u.strengths, u.gamma, u.gamma0, u.c0, u.sigma, u.noise_scales)
        logs = (*positive, None if signed else u.loadings)
        clipped = (jnp.clip(value, -LOG_RANGE, LOG_RANGE) for value in jax.tree.leaves(logs))
        return sum((value.sum() for value in clipped), jnp.zeros(()))

    functions = (log_prior, sample_prior, constrain, unconstrain, log_volume)
    return Model(rank, signed, intercepts, column_noise, *functions)
