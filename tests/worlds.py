"""Environments of a matrix that is given, and how one begins."""

import jax.numpy as jnp

from smc_jax.simulation.environment import make_environment, seed_keys
from smc_jax.simulation.problem import Problem


def make(entries, *, initial=0, available=None):
    entries = jnp.asarray(entries, float)
    available = jnp.ones(entries.shape, bool) if available is None else jnp.asarray(available)
    problem = Problem(entries, jnp.zeros(()), available, None)
    return make_environment(lambda key, seed: problem, initial=initial)


def begin(environment, seed=0):
    keys = seed_keys(jnp.uint32(seed))
    return keys, environment.reset(keys, jnp.uint32(seed))
