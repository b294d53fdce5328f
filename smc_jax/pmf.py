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

from smc_jax import gaussian
from smc_jax.beliefs import Belief, Diagnostics
from smc_jax.environment import Problem
from smc_jax.types import Observations, Parameters


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
    """The factor model of the other side, whose prior variance is given: W = sqrt(variance) V."""
    sigma = jnp.ones((), factors.dtype) * jnp.sqrt(noise_variance)
    return Parameters.plain(jnp.sqrt(variance) * factors, sigma)


def transposed(observations: Observations) -> Observations:
    """The same looks with users as rows."""
    return Observations(*(statistic.T for statistic in observations))


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
    _, items, noise, variance = factors
    users = sample_factors(user_key, items, variance, noise, observations)
    items = sample_factors(item_key, users, variance, noise, transposed(observations))
    return Factors(users, items, noise, variance)


def sample_noise_variance(
    key: Array, factors: Factors, observations: Observations, *, shape: float, rate: float
) -> Array:
    """A draw of s2 | U, V, data."""
    count, total, square = observations
    fitted = factors.items @ factors.users.T
    squares = (square - 2 * total * fitted + count * fitted**2).sum()
    return sample_variance(key, jnp.maximum(squares, 0.0), count.sum(), shape=shape, rate=rate)


def sample_factor_variance(key: Array, factors: Factors, *, shape: float, rate: float) -> Array:
    """A draw of the common su2 = sv2 | U, V."""
    both = jnp.concatenate([factors.users, factors.items])
    return sample_variance(key, (both**2).sum(), both.size, shape=shape, rate=rate)


def gibbs(
    *,
    rank: int,
    noise_variance: float | None,
    factor_variance: float | None,
    sweeps: int = 5,
    draws: int = 10,
    first_sweeps: int = 200,
    shape: float = 1.0,
    rate: float = 1.0,
) -> Belief:
    """The posterior over V by a chain that goes on from refit to refit.

    Args:
      rank: K.
      noise_variance: s2; learned where it is None.
      factor_variance: su2 = sv2; learned where it is None.
      sweeps: before each stored draw.
      draws: S, stored at each refit.
      first_sweeps: before the first draw of the first refit.
      shape: of the inverse gamma prior of a variance that is learned.
      rate: of the same.
    """

    def init(key: Array, observations: Observations, problem: Problem) -> Chain:
        del problem
        user_key, item_key = jax.random.split(key)
        rows, columns = observations.count.shape
        noise = jnp.ones(()) * (1.0 if noise_variance is None else noise_variance)
        variance = jnp.ones(()) * (1.0 if factor_variance is None else factor_variance)
        users = jnp.sqrt(variance) * jax.random.normal(user_key, (columns, rank))
        items = jnp.sqrt(variance) * jax.random.normal(item_key, (rows, rank))
        start = given(items, variance, noise)
        stored = jax.tree.map(lambda x: jnp.broadcast_to(x, (draws, *x.shape)), start)
        return Chain(Factors(users, items, noise, variance), stored, jnp.zeros((), int))

    def step(key: Array, factors: Factors, observations: Observations) -> Factors:
        sweep_key, noise_key, variance_key = jax.random.split(key, 3)
        factors = sweep(sweep_key, factors, observations)
        if noise_variance is None:
            noise = sample_noise_variance(noise_key, factors, observations, shape=shape, rate=rate)
            factors = factors._replace(noise_variance=noise)
        if factor_variance is None:
            variance = sample_factor_variance(variance_key, factors, shape=shape, rate=rate)
            factors = factors._replace(factor_variance=variance)
        return factors

    def refit(key: Array, chain: Chain, observations: Observations) -> Chain:
        def store(factors: Factors, inputs: tuple[Array, Array]) -> tuple[Factors, Parameters]:
            key, number = inputs

            def one(i: Array, factors: Factors) -> Factors:
                return step(jax.random.fold_in(key, i), factors, observations)

            factors = lax.fori_loop(0, number, one, factors)
            _, items, noise, variance = factors
            return factors, given(items, variance, noise)

        first = jnp.where(chain.refits == 0, first_sweeps, sweeps)
        numbers = jnp.full(draws, sweeps).at[0].set(first)
        inputs = (jax.random.split(key, draws), numbers)
        factors, stored = lax.scan(store, chain.factors, inputs)
        return Chain(factors, stored, chain.refits + 1)

    def draw(key: Array, chain: Chain) -> Parameters:
        index = jax.random.randint(key, (), 0, draws)
        return jax.tree.map(lambda x: x[index], chain.draws)

    def diagnose(chain: Chain) -> Diagnostics:
        return Diagnostics.finite_only(chain)

    return Belief(init, refit, draw, diagnose)
