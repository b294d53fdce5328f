"""Every column with the same average: whom a policy serves does not depend on who rates high."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from smc_jax.covariance import row_means
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy
from smc_jax.types import Observations, Outcome, View


class Equalised(NamedTuple):
    """The state of the policy, and by how much each column was above the others at the refit."""

    inner: Any
    offsets: Array  # [N]


def column_offsets(observations: Observations, *, strength: float) -> Array:
    """How much the looks at a column are above their rows' means, on average [N].

    Shrunk as `strength` more looks at 0 would. Rows' means are taken out, so that a column that was
    shown good rows does not pass for one that rates high.
    """
    count, total, _ = observations
    above = total - count * row_means(observations, strength=0.0)[:, None]
    return above.sum(0) / jnp.maximum(count.sum(0) + strength, 1e-6)


def equalised(policy: Policy, *, strength: float = 2.0) -> Policy:
    """The policy on values from which each column's offset is taken, learned at every refit.

    What it is paid, and so its regret, is as without. It is meant for entries that are chosen once:
    a discounted reward would be that of the shifted value. The offsets are those of what was seen:
    a column that was served its best entries counts as one that rates high, which spreads the picks
    further. An oracle of the matrix itself is told it without its true offsets, and sees values
    without the estimated ones.
    """

    def shift(view: View, offsets: Array) -> View:
        return view._replace(observations=view.observations.relative_to(offsets))

    def init(key: Array, view: View, problem: Problem) -> Equalised:
        offsets = column_offsets(view.observations, strength=strength)
        whole = Observations.from_matrix(problem.entries, problem.available)
        true_offsets = column_offsets(whole, strength=strength)
        told = problem._replace(entries=problem.entries - true_offsets)  # to oracles
        return Equalised(policy.init(key, shift(view, offsets), told), offsets)

    def refit(key: Array, state: Equalised, view: View) -> Equalised:
        offsets = column_offsets(view.observations, strength=strength)
        return Equalised(policy.refit(key, state.inner, shift(view, offsets)), offsets)

    def choose(key: Array, state: Equalised, view: View) -> Array:
        return policy.choose(key, state.inner, shift(view, state.offsets))

    def absorb(key: Array, state: Equalised, view: View, outcome: Outcome) -> Equalised:
        outcome = outcome.relative_to(state.offsets[outcome.column])
        inner = policy.absorb(key, state.inner, shift(view, state.offsets), outcome)
        return state._replace(inner=inner)

    return Policy(init, refit, choose, absorb, lambda state: policy.diagnose(state.inner))
