"""Environments in which not everything is on offer: a function from an environment to another.

What is offered depends on the key of all offers and on the time alone, so that every policy of a
seed meets the same offers; budgets, which a policy's asks use up, are the exception. The first
wrapper is the innermost: arrivals, then what closes and opens again, then budgets. Costs go
anywhere, and `simulation.silence.silent` around all of them.
"""

from smc_jax.simulation.offers.arriving import arrivals
from smc_jax.simulation.offers.budgeting import budgets
from smc_jax.simulation.offers.closing import calendar, restricted, stock
from smc_jax.simulation.offers.pricing import costs

__all__ = ["arrivals", "budgets", "calendar", "costs", "restricted", "stock"]
