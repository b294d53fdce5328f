"""Probabilistic matrix factorisation, and its posterior by Gibbs sampling.

y_dn = v_d'u_n + noise, u_n ~ N(0, su2 I_K), v_d ~ N(0, sv2 I_K), noise ~ N(0, s2).
Given V this is the factor model of `gaussian` with W = sqrt(su2) V and u_n = sqrt(su2) x_n; given
U it is that of the transposed matrix. The data identify only the product su2 sv2, so that one
common factor variance serves both sides here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or, stored_belief
from smc_jax.beliefs.history import heeding_history
from smc_jax.checks import at_least, positive
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


class Factors(NamedTuple):
    """One state of the chain."""

    users: Array  # [N, K]  U
    items: Array  # [D, K]  V
    noise_variance: Array  # []  s2
    factor_variance: Array  # []  su2 = sv2


class Chain(NamedTuple):
    """Where the chain stands, and the draws of its last refit."""

    factors: Factors
    draws: Parameters  # leading axis S
    refits: Array  # [] int


def given(factors: Array, variance: Array | float, noise_variance: Array | float) -> Parameters:
    """The factor model of the other side, whose prior variance is known: W = sqrt(variance) V."""
    sigma = jnp.ones((), factors.dtype) * jnp.sqrt(noise_variance)
    return Parameters.plain(jnp.sqrt(variance) * factors, sigma)


def sample_factors(
    key: Array,
    others: Array,
    variance: Array | float,
    noise_variance: Array | float,
    observations: Observations,
) -> Array:
    """An exact draw of u_n | V, data [N, K] for all columns of the observations."""
    parameters = given(others, variance, noise_variance)
    _, latents = gaussian.sample_columns(key, parameters, observations)
    return jnp.sqrt(variance) * latents


def sample_variance(
    key: Array, squares: Array, number: Array | int, *, shape: float, rate: float
) -> Array:
    """A draw of s2 | z_1..z_number ~ N(0, s2) under s2 ~ IG(shape, rate).

    IG(shape + number / 2, rate + sum z^2 / 2).
    """
    return (rate + squares / 2) / jax.random.gamma(key, shape + number / 2)


def sweep(key: Array, factors: Factors, observations: Observations) -> Factors:
    """U | V, data and then V | U, data."""
    user_key, item_key = jax.random.split(key)
    variances = factors.factor_variance, factors.noise_variance
    users = sample_factors(user_key, factors.items, *variances, observations)
    items = sample_factors(item_key, users, *variances, observations.transposed())
    return factors._replace(users=users, items=items)


def sample_noise_variance(
    key: Array, factors: Factors, observations: Observations, *, shape: float, rate: float
) -> Array:
    """A draw of s2 | U, V, data."""
    squares = observations.squared_error(factors.items @ factors.users.T).sum()
    number = observations.number()
    return sample_variance(key, jnp.maximum(squares, 0.0), number, shape=shape, rate=rate)


def sample_factor_variance(key: Array, factors: Factors, *, shape: float, rate: float) -> Array:
    """A draw of the common su2 = sv2 | U, V."""
    both = jnp.concatenate([factors.users, factors.items])
    return sample_variance(key, (both**2).sum(), both.size, shape=shape, rate=rate)


class Learned(NamedTuple):
    """Which variances are drawn, and their inverse gamma prior."""

    noise: bool
    factors: bool
    shape: float
    rate: float


def step(key: Array, factors: Factors, observations: Observations, learned: Learned) -> Factors:
    """A sweep, and then the variances that are learned."""
    sweep_key, noise_key, variance_key = jax.random.split(key, 3)
    prior = {"shape": learned.shape, "rate": learned.rate}
    factors = sweep(sweep_key, factors, observations)
    if learned.noise:
        noise = sample_noise_variance(noise_key, factors, observations, **prior)
        factors = factors._replace(noise_variance=noise)
    if learned.factors:
        variance = sample_factor_variance(variance_key, factors, **prior)
        factors = factors._replace(factor_variance=variance)
    return factors


def gibbs(
    *,
    rank: int = 5,
    noise_variance: float | None = None,
    factor_variance: float | None = None,
    sweeps: int = 5,
    draws: int = 10,
    first_sweeps: int = 200,
    shape: float = 1.0,
    rate: float = 1.0,
) -> Belief:
    """The posterior over V by a chain that goes on from refit to refit.

    An earlier `Chain` of a matrix of the same size may be given as the prior: it goes on.

    Args:
      rank: K.
      noise_variance: s2; learned where it is None.
      factor_variance: su2 = sv2; learned where it is None.
      sweeps: Gibbs sweeps before each stored draw.
      draws: S, the draws of V stored at each refit.
      first_sweeps: Gibbs sweeps before the first draw of the first refit.
      shape: the shape of the inverse gamma prior of a variance that is learned.
      rate: the rate of that prior.
    """
    for name, value in (("rank", rank), ("draws", draws), ("sweeps", sweeps)):
        at_least(name, value, 1)
    at_least("first_sweeps", first_sweeps, 1)
    positive("noise_variance", noise_variance, optional=True)
    positive("factor_variance", factor_variance, optional=True)
    positive("shape", shape)
    positive("rate", rate)
    learned = Learned(noise_variance is None, factor_variance is None, shape, rate)

    def init(key: Array, data: Observations, prior: Chain | None = None) -> Chain:
        user_key, item_key = jax.random.split(key)
        rows, columns = data.rows, data.columns
        noise = jnp.ones(()) * (1.0 if noise_variance is None else noise_variance)
        variance = jnp.ones(()) * (1.0 if factor_variance is None else factor_variance)
        users = jnp.sqrt(variance) * jax.random.normal(user_key, (columns, rank))
        items = jnp.sqrt(variance) * jax.random.normal(item_key, (rows, rank))
        start = given(items, variance, noise)
        stored = jax.tree.map(lambda x: jnp.broadcast_to(x, (draws, *x.shape)), start)
        begun = Chain(Factors(users, items, noise, variance), stored, jnp.zeros((), int))
        return earlier_or(begun, prior, "Gibbs")

    def refit(key: Array, chain: Chain, observations: Observations) -> Chain:
        def store(factors: Factors, inputs: tuple[Array, Array]) -> tuple[Factors, Parameters]:
            key, number = inputs

            def one(i: Array, factors: Factors) -> Factors:
                return step(jax.random.fold_in(key, i), factors, observations, learned)

            factors = lax.fori_loop(0, number, one, factors)
            variances = factors.factor_variance, factors.noise_variance
            return factors, given(factors.items, *variances)

        first = jnp.where(chain.refits == 0, first_sweeps, sweeps)
        numbers = jnp.full(draws, sweeps).at[0].set(first)
        inputs = (jax.random.split(key, draws), numbers)
        factors, stored = lax.scan(store, chain.factors, inputs)
        return Chain(factors, stored, chain.refits + 1)

    def diagnose(chain: Chain) -> Diagnostics:
        return Diagnostics.finite_only(chain)

    return heeding_history(stored_belief(init, refit, diagnose))
