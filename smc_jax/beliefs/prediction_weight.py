"""What a prediction from elsewhere is worth: its weight, drawn with the latents left out."""

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


def sample_prediction_weight(key: Array, given: Parameters, data: Observations) -> Parameters:
    """An exact draw of a in y_n = b + a q_n + W x_n + noise, given all but a and the latents.

    With Sigma_n the covariance of column n, a is normal with precision sum_n q_n' Sigma_n^-1 q_n
    plus that of its prior. Given the latents too it would hardly move where factors can make up the
    prediction. Its Cauchy prior is a mixture: a ~ N(0, t) with 1/t ~ G(1/2, 1/2).

    With m_v = C W'v / s2, u' Sigma^-1 v is (u - W m_u)'(v - W m_v) / s2 + m_u'm_v, in which nothing
    cancels.

    Args:
      key: randomness.
      given: the parameters, with a prediction.
      data: what was seen, the prediction included.
    """
    scale_key, weight_key = jax.random.split(key)
    w, variance, q = given.factors(), given.noise() ** 2, given.prediction.T
    bare = given._replace(prediction=None, prediction_weight=None)
    latents = gaussian.latent_posterior(bare, data)
    of_values = data.residual(w, given.intercepts, latents.mean.T)

    nothing = jnp.zeros_like(given.intercepts)
    as_values = data.relative_to(data.average() - q)
    field = as_values.field(w, nothing, variance)
    mean = jnp.einsum("nkl,ln->kn", latents.covariance, field)
    of_prediction = as_values.residual(w, nothing, mean)
    times = data.times_seen()  # fractions of one in tempered history
    weighed = of_prediction / jnp.where(times > 0.0, times, 1.0) / variance
    moved = (latents.mean - given.latent_means).T

    rate = 0.5 * (1.0 + given.prediction_weight**2)
    inverse_t = jax.random.exponential(scale_key, dtype=rate.dtype) / rate
    precision = (weighed * of_prediction).sum() + (mean**2).sum() + inverse_t
    z = jax.random.normal(weight_key, dtype=rate.dtype)
    pull = (weighed * of_values).sum() + (mean * moved).sum()
    return given._replace(prediction_weight=pull / precision + z / jnp.sqrt(precision))
