"""Policies: rules that choose entries from draws of a belief."""

from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.registry import POLICIES, make_policy

__all__ = ["POLICIES", "Policy", "Setting", "make_policy"]
