"""The policies by name. To add one: a file with its factory, and a line here."""

from collections.abc import Callable

from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.empirical import empirical
from smc_jax.policies.greedy import greedy
from smc_jax.policies.icf import icf
from smc_jax.policies.ids import ids
from smc_jax.policies.optspace import optspace
from smc_jax.policies.oracle import mean_oracle, oracle
from smc_jax.policies.particle import particle
from smc_jax.policies.random import random
from smc_jax.policies.thompson import thompson

POLICIES: dict[str, Callable[..., Policy]] = {
    "ids": ids,
    "thompson": thompson,
    "oracle": oracle,
    "mean_oracle": mean_oracle,
    "empirical": empirical,
    "optspace": optspace,
    "particle": particle,
    "icf": icf,
    "greedy": greedy,
    "random": random,
}

__all__ = ["POLICIES", "Policy", "Setting"]
