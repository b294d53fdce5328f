"""Synthetic matrices of the paper: columns from N(0, W W' + s2 I), W uniform or Beta(2, 5)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

from smc_jax.checks import at_least, one_of, positive
from smc_jax.model.parameters import Parameters
from smc_jax.simulation.problem import Problem

LOADINGS = ("uniform", "beta", "mixed")


def synthetic(
    *,
    rows: int = 50,
    columns: int = 100,
    true_rank: int = 5,
    loadings: str = "uniform",
    noise_variance: float = 0.1,
    entry_noise: bool = True,
) -> Callable[..., Problem]:
    """A function (key, seed=0) -> a matrix.

    Args:
      rows: D.
      columns: N.
      true_rank: K*.
      loadings: `uniform` on [0, 1], `beta` for Beta(2, 5), `mixed` for uniform
        at even seeds and Beta(2, 5) at odd ones.
      noise_variance: s2.
      entry_noise: whether the noise is part of the entry, or drawn anew for each answer.
    """
    one_of("loadings", loadings, LOADINGS)
    for name, value in (("rows", rows), ("columns", columns), ("true_rank", true_rank)):
        at_least(name, value, 1)
    if true_rank > rows:
        raise ValueError(f"true_rank: must be at most rows = {rows}, got {true_rank}")
    positive("noise_variance", noise_variance)
    uniform, beta = dist.Uniform(0.0, 1.0), dist.Beta(2.0, 5.0)

    def make(key: Array, seed: Array | int = 0) -> Problem:
        w_key, _, x_key, noise_key = jax.random.split(key, 4)
        shape = (rows, true_rank)
        if loadings == "uniform":
            w = uniform.sample(w_key, shape)
        elif loadings == "beta":
            w = beta.sample(w_key, shape)
        else:
            even = jnp.asarray(seed) % 2 == 0
            w = jnp.where(even, uniform.sample(w_key, shape), beta.sample(w_key, shape))
        sigma = jnp.sqrt(jnp.asarray(noise_variance, w.dtype))
        entries = w @ jax.random.normal(x_key, (true_rank, columns))
        noise = sigma * jax.random.normal(noise_key, (rows, columns))
        truth = Parameters.plain(w, sigma)._replace(strengths=w.mean(0))
        return Problem(
            entries=entries + noise if entry_noise else entries,
            noise=jnp.zeros(()) if entry_noise else sigma,
            available=jnp.ones((rows, columns), bool),
            truth=truth,
        )

    return make
