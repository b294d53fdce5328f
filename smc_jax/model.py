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
    log_prior: Callable[[Parameters], Array]
    sample_prior: Callable[[Array, int], Parameters]  # (key, rows)
    constrain: Callable[[Unconstrained], Parameters]
    unconstrain: Callable[[Parameters], Unconstrained]
    log_volume: Callable[[Unconstrained], Array]  # log |d constrained / d unconstrained|

    def log_joint(self, unconstrained: Unconstrained, observations: Observations) -> Array:
        """log p(Y, theta(u)) + log |d theta / d u|, the latent columns integrated out."""
        parameters = self.constrain(unconstrained)
        return (
            log_likelihood(
                parameters.loadings, parameters.intercepts, parameters.sigma**2, observations
            )
            + self.log_prior(parameters)
            + self.log_volume(unconstrained)
        )


def sigma_prior(shape: float, rate: float) -> dist.Distribution:
    """sigma where 1/sigma^2 ~ G(shape, rate)."""
    power = dist.transforms.PowerTransform(-0.5)
    return dist.TransformedDistribution(dist.Gamma(shape, rate), power)


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
) -> Model:
    """r_k ~ G(gamma0/K, c0) and gamma0, c0 ~ G(1, 1), with loadings of one of two kinds.

    Args:
      rank: K, the number of loadings columns kept.
      loadings: `gamma` (the paper): W_dk ~ G(gamma r_k, gamma), gamma ~ G(1, 1), so that no two
        rows are negatively correlated; or `signed`: W_dk ~ N(0, r_k^2).
      intercepts: whether rows have intercepts b_d ~ N(0, intercept_scale^2).
      intercept_scale: their prior standard deviation.
      noise_shape: 1/sigma^2 ~ G(noise_shape, noise_rate).
      noise_rate: see noise_shape.
      fixed_noise: a known sigma^2; sigma is then held and has no prior.
    """
    if loadings not in LOADINGS:
        raise ValueError(f"model.loadings: unknown {loadings!r}; choose from {', '.join(LOADINGS)}")
    signed = loadings == "signed"
    hyper = dist.Gamma(1.0, 1.0)
    noise = sigma_prior(noise_shape, noise_rate)
    intercept = dist.Normal(0.0, intercept_scale)
    known_sigma = jnp.sqrt(jnp.asarray(jnp.nan if fixed_noise is None else fixed_noise, float))

    def log_prior(parameters: Parameters) -> Array:
        w, r, gamma, gamma0, c0, sigma, b = parameters
        density = (
            dist.Gamma(gamma0 / rank, c0).log_prob(r).sum()
            + hyper.log_prob(gamma0)
            + hyper.log_prob(c0)
        )
        if signed:
            density += dist.Normal(0.0, r).log_prob(w).sum()
        else:
            density += dist.Gamma(gamma * r, gamma).log_prob(w).sum() + hyper.log_prob(gamma)
        if fixed_noise is None:
            density += noise.log_prob(sigma)
        if intercepts:
            density += intercept.log_prob(b).sum()
        return density

    def sample_prior(key: Array, rows: int) -> Parameters:
        w_key, r_key, hyper_key, sigma_key, b_key = jax.random.split(key, 5)
        gamma, gamma0, c0 = hyper.sample(hyper_key, (3,))
        shape = jnp.full((rank,), gamma0 / rank)
        r = _exp(_log_gamma_draw(r_key, shape, c0))
        if signed:
            gamma, w = jnp.ones(()), r * jax.random.normal(w_key, (rows, rank))
        else:
            w = _exp(_log_gamma_draw(w_key, jnp.broadcast_to(gamma * r, (rows, rank)), gamma))
        sigma = noise.sample(sigma_key) if fixed_noise is None else known_sigma
        b = intercept.sample(b_key, (rows,)) if intercepts else jnp.zeros(rows)
        return Parameters(w, r, gamma, gamma0, c0, sigma, b)

    def constrain(u: Unconstrained) -> Parameters:
        return Parameters(
            loadings=u.loadings if signed else _exp(u.loadings),
            strengths=_exp(u.strengths),
            gamma=jnp.ones(()) if u.gamma is None else _exp(u.gamma),
            gamma0=_exp(u.gamma0),
            c0=_exp(u.c0),
            sigma=known_sigma if u.sigma is None else _exp(u.sigma),
            intercepts=jnp.zeros(u.loadings.shape[0]) if u.intercepts is None else u.intercepts,
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
        )

    def log_volume(u: Unconstrained) -> Array:
        logs = (u.strengths, u.gamma, u.gamma0, u.c0, u.sigma, () if signed else u.loadings)
        clipped = (jnp.clip(value, -LOG_RANGE, LOG_RANGE) for value in jax.tree.leaves(logs))
        return sum((value.sum() for value in clipped), jnp.zeros(()))

    functions = (log_prior, sample_prior, constrain, unconstrain, log_volume)
    return Model(rank, signed, intercepts, *functions)
