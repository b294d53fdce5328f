"""The prior of the noise: sigma, which may be bounded or known, and the scales of columns."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import scipy.special
from jax import Array, lax
from jax.scipy.special import gammaincc

from smc_jax.checks import at_least, positive
from smc_jax.model.parameters import LOG_RANGE, POSITIVE, Field, Layer, Parameters, below, field


def sigma_prior(shape: float, rate: float) -> dist.Distribution:
    """sigma where 1/sigma^2 ~ G(shape, rate)."""
    power = dist.transforms.PowerTransform(-0.5)
    return dist.TransformedDistribution(dist.Gamma(shape, rate), power)


def log_upper_tail(shape: float, least: float) -> float:
    """log P(x >= least) for x ~ G(shape, 1), in float64, also where the tail itself is 0 there."""
    tail = float(scipy.special.gammaincc(shape, least))
    if tail > 1e-290:
        return math.log(tail)
    # Gamma(a, x) = x^(a-1) e^-x (1 + (a-1)/x + ...), whose next term is of the size x^-2.
    leading = (shape - 1.0) * math.log(least) - least
    return leading - math.lgamma(shape) + math.log1p((shape - 1.0) / least)


def _upper_tail_draw(key: Array, shape: float, least: float) -> Array:
    """x ~ G(shape, 1) given that x >= least, for a least above the shape.

    An exponential excess of the rate that the density has at `least` is proposed until one is
    accepted: for shapes below one it is accepted less often than always because the density falls
    faster, for shapes above one because it falls slower at first.
    """
    rate = 1.0 - max(shape - 1.0, 0.0) / least

    def propose(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        key, _, _ = state
        key, own_key, accept_key = jax.random.split(key, 3)
        excess = jax.random.exponential(own_key) / rate
        log_ratio = (shape - 1.0) * jnp.log1p(excess / least) - (1.0 - rate) * excess
        return key, excess, jnp.log(jax.random.uniform(accept_key)) < log_ratio

    begun = propose((key, jnp.zeros(()), jnp.zeros((), bool)))
    return least + lax.while_loop(lambda state: ~state[2], propose, begun)[1]


def _sigma(shape: float, rate: float, bound: float | None) -> Field:
    """sigma with its prior, given that sigma^2 is at most the bound where there is one."""
    whole = sigma_prior(shape, rate)
    if bound is None:
        return field(POSITIVE, "sigma", lambda p: whole)
    least = rate / bound  # of rate / sigma^2 ~ G(shape, 1)
    log_inside = log_upper_tail(shape, least)

    def by_bisection(key: Array) -> Array:
        """The number whose upper tail has a uniform part of the mass inside."""
        tail = math.exp(log_inside) * jax.random.uniform(key)

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])  # of the logarithm
            heavy = gammaincc(shape, jnp.exp(middle)) > tail
            return jnp.where(heavy, middle, ends[0]), jnp.where(heavy, ends[1], middle)

        ends = jnp.asarray(math.log(least), float), jnp.asarray(LOG_RANGE, float)
        return jnp.exp(lax.fori_loop(0, 60, halve, ends)[0])

    def draw(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        # Far out the tail is a small number, which bisection cannot tell from zero.
        x = _upper_tail_draw(key, shape, least) if least > shape else by_bisection(key)
        return jnp.sqrt(rate / x)

    def log_prob(parameters: Parameters) -> Array:
        return whole.log_prob(parameters.sigma) - log_inside

    return Field(below(math.sqrt(bound)), log_prob, draw)


def noise_prior(
    *,
    noise_shape: float,
    noise_rate: float,
    fixed_noise: float | None,
    noise_bound: float | None,
    noise_spread: float,
) -> tuple[list[Layer], dict[str, Callable[[int], Array]]]:
    """The layers of the noise, and what of it is held fixed, by the settings of `gamma_process`."""
    positive("noise_shape", noise_shape)
    positive("noise_rate", noise_rate)
    positive("fixed_noise", fixed_noise, optional=True)
    positive("noise_bound", noise_bound, optional=True)
    if fixed_noise is not None and noise_bound is not None:
        raise ValueError("noise_bound: the noise is fixed already; give noise_bound or fixed_noise")
    at_least("noise_spread", noise_spread, 0.0)
    layers: list[Layer] = []
    held: dict[str, Callable[[int], Array]] = {}
    if fixed_noise is None:
        layers.append({"sigma": _sigma(noise_shape, noise_rate, noise_bound)})
    else:
        deviation = math.sqrt(fixed_noise)
        held["sigma"] = lambda rows: jnp.asarray(deviation, float)
    if noise_spread > 0.0:
        spread = dist.LogNormal(0.0, noise_spread)
        own = field(POSITIVE, "noise_scales", lambda p: spread, lambda rows, columns: (columns,))
        layers.append({"noise_scales": own})
    else:
        held["noise_scales"] = lambda rows: jnp.ones(())
    return layers, held
