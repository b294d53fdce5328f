"""The same model as a plain numpyro program with explicit latent columns, for NUTS and friends."""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike

from smc_jax.model.features import Features
from smc_jax.model.noise_prior import log_upper_tail, sigma_prior
from smc_jax.observations import Observations

NONE = Features()


def _deviation(name: str) -> Array:
    """The root of a relevance, half-Cauchy a priori: the site of that name is its square."""
    half_cauchy = dist.HalfCauchy(1.0)
    square = dist.transforms.PowerTransform(2.0)
    return jnp.sqrt(numpyro.sample(name, dist.TransformedDistribution(half_cauchy, square)))


def _weighted(name: str, features: ArrayLike, scale: Array) -> Array:
    """F B [n, L] with weights B_ml ~ N(0, scale_l^2)."""
    features = jnp.asarray(features)
    weights = dist.Normal(0.0, scale).expand([features.shape[1], scale.size])
    return features @ numpyro.sample(name, weights.to_event(2))


def _loadings(
    rows: int,
    r: Array,
    deviation: Array,
    loadings: str,
    common: float,
    residual: bool,
    features: Features,
) -> Array:
    """W, given the strengths and the scale of what features weigh."""
    if loadings == "signed":
        centre = jnp.zeros(r.size)
        if common > 0.0:
            shared = dist.Normal(0.0, jnp.sqrt(common) * r)
            centre = numpyro.sample("loading_means", shared.to_event(1))
        if features.rows is not None:
            centre = centre + _weighted("row_weights", features.rows, deviation * r)
        loading = dist.Normal(jnp.broadcast_to(centre, (rows, r.size)), r)
    else:
        rate = gamma = numpyro.sample("gamma", dist.Gamma(1.0, 1.0))
        if features.rows is not None:
            moved = _weighted("row_weights", features.rows, deviation * jnp.ones(r.size))
            rate = gamma * jnp.exp(-moved)
        loading = dist.Gamma(gamma * r, jnp.broadcast_to(rate, (rows, r.size)))
    return numpyro.sample("loadings", loading.to_event(2)) if residual else loading.mean


def _sigma(
    noise_shape: float, noise_rate: float, fixed_noise: float | None, noise_bound: float | None
) -> Array:
    """The standard deviation of the noise."""
    if noise_bound is not None:
        limit = jnp.sqrt(noise_bound)
        sigma = numpyro.sample("sigma", dist.Uniform(0.0, limit))
        inside = sigma_prior(noise_shape, noise_rate).log_prob(sigma)
        inside -= log_upper_tail(noise_shape, noise_rate / noise_bound)
        numpyro.factor("noise_prior", inside + jnp.log(limit))
    elif fixed_noise is None:
        sigma = numpyro.sample("sigma", sigma_prior(noise_shape, noise_rate))
    else:
        sigma = jnp.sqrt(fixed_noise)
    return sigma


def _intercepts(
    rows: int, scale: float | None, deviation: Array, residual: bool, features: Features
) -> Array:
    """b, and its scale where that is learned."""
    if scale is None:
        scale = numpyro.sample("intercept_scale", dist.HalfCauchy(1.0))
    b = jnp.zeros(rows)
    if not residual:
        b = b + numpyro.sample("constant", dist.Normal(0.0, scale))
    if features.rows is not None:
        own = jnp.reshape(deviation * scale, (1,))
        b = b + _weighted("intercept_weights", features.rows, own)[:, 0]
    if residual:
        b = numpyro.sample("intercepts", dist.Normal(b, scale).to_event(1))
    return b


def numpyro_model(
    observations: Observations,
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
    features: Features = NONE,
) -> Array:
    """y_dn ~ N(b_d + w_d' x_n, sigma^2 t_n^2) where seen, x_n ~ N(0, I); see `gamma_process`.

    With features `informed` says what they move; here all weights are explicit.

    Args:
      observations: what has been seen, each entry at most once.
      rank: K.
      loadings: `gamma` or `signed`; `gamma_process` has this setting and all below too.
      intercepts: whether rows have intercepts.
      intercept_scale: the prior standard deviation of an intercept, or None to learn it.
      offsets: whether columns have offsets.
      noise_shape: the shape of the gamma prior of 1/sigma^2.
      noise_rate: the rate of that prior.
      fixed_noise: a known sigma^2.
      noise_bound: an upper bound on sigma^2.
      noise_spread: the standard deviation of log t_n.
      common: how much of a factor all rows share, for signed loadings.
      residual: whether signed loadings and intercepts have more than what features of rows say.
      features: what is known of rows, columns and entries beforehand.

    Returns:
      The noise-free matrix [D, N].
    """
    rows, columns = observations.rows, observations.columns
    hyper = dist.Gamma(1.0, 1.0)
    gamma0 = numpyro.sample("gamma0", hyper)
    c0 = numpyro.sample("c0", hyper)
    strength = dist.Gamma(gamma0 / rank, c0).expand([rank])
    r = numpyro.sample("strengths", strength.to_event(1))
    deviation = jnp.ones(())  # of what features of rows weigh
    if features.rows is not None and residual:
        deviation = _deviation("row_relevance")
    w = _loadings(rows, r, deviation, loadings, common, residual, features)
    sigma = _sigma(noise_shape, noise_rate, fixed_noise, noise_bound)
    if noise_spread > 0.0:
        scale = dist.LogNormal(0.0, noise_spread).expand([columns])
        sigma = sigma * numpyro.sample("noise_scales", scale.to_event(1))
    b = jnp.zeros(rows)
    if intercepts:
        b = _intercepts(rows, intercept_scale, deviation, residual, features)
    if offsets:
        alike = numpyro.sample("offsets", dist.Normal(0.0, 1.0).expand([1]).to_event(1))
        w = jnp.concatenate([w, jnp.broadcast_to(alike, (rows, 1))], axis=1)
    means = jnp.zeros((columns, w.shape[1]))
    if features.columns is not None:
        own = _deviation("column_relevance") * jnp.ones(w.shape[1])
        means = _weighted("column_weights", features.columns, own)
    x = numpyro.sample("latents", dist.Normal(means, 1.0).to_event(2))
    matrix = b[:, None] + w @ x.T
    if features.entries is not None:
        weight = numpyro.sample("prediction_weight", dist.Cauchy(0.0, 1.0))
        matrix = matrix + weight * jnp.asarray(features.entries)
    seen = dist.Normal(matrix, sigma).mask(observations.seen()).to_event(2)
    numpyro.sample("values", seen, obs=observations.average())
    return matrix
