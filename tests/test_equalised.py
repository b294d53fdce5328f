"""Columns with the same average: what the inner policy is shown, and whom it then serves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax import environment
from smc_jax.beliefs import Diagnostics
from smc_jax.environment import Problem
from smc_jax.policies import Policy
from smc_jax.policies.base import best_available
from smc_jax.policies.equalised import column_offsets, equalised
from smc_jax.types import Observations, Outcome, View


def rating_problem(seed=0, rows=6, columns=8):
    """Rows with means, columns of which some are far above the others."""
    rng = np.random.default_rng(seed)
    offsets = rng.normal(size=columns) * 5.0
    entries = rng.normal(size=(rows, 1)) + offsets + rng.normal(size=(rows, columns))
    exists = np.ones((rows, columns), bool)
    return Problem(jnp.asarray(entries), jnp.zeros(()), jnp.asarray(exists), None), offsets


def knower():
    """Knows the problem it is told, and keeps all that it is shown."""

    def init(key, view, problem):
        return problem.entries, view.observations, jnp.zeros(())

    return Policy(
        init,
        refit=lambda key, state, view: (state[0], view.observations, state[2]),
        choose=lambda key, state, view: best_available(state[0], view.available),
        absorb=lambda key, state, view, outcome: (state[0], view.observations, outcome.value),
        diagnose=lambda state: Diagnostics.none(),
    )


@pytest.mark.usefixtures("x64")
def test_offsets_are_what_is_left_above_the_rows():
    rng = np.random.default_rng(1)
    values, mask = rng.normal(size=(5, 4)) + 2.0, rng.random((5, 4)) < 0.6
    mask[:, 0], mask[:, 3] = True, False
    offsets = column_offsets(Observations.from_matrix(values, mask), strength=1.5)
    means = [values[d, mask[d]].mean() for d in range(5)]
    expected = [
        sum(values[d, n] - means[d] for d in range(5) if mask[d, n]) / (mask[:, n].sum() + 1.5)
        for n in range(4)
    ]
    np.testing.assert_allclose(offsets, expected, rtol=1e-12)
    assert offsets[3] == 0.0


@pytest.mark.usefixtures("x64")
def test_the_inner_policy_sees_columns_without_their_offsets():
    problem, _ = rating_problem()
    policy = equalised(knower(), strength=0.5)
    mask = jnp.asarray(np.random.default_rng(2).random((6, 8)) < 0.7)
    observations = Observations.from_matrix(problem.entries, mask)
    view = View(observations, problem.available & ~mask, jnp.where(mask, 0.0, 1.0))
    key = jax.random.key(0)
    state = policy.refit(key, policy.init(key, view, problem), view)
    offsets = np.asarray(column_offsets(view.observations, strength=0.5))
    shown = np.asarray(mask) * (np.asarray(problem.entries) - offsets)
    np.testing.assert_allclose(state.inner[1].total, shown, atol=1e-12)
    np.testing.assert_allclose(state.inner[1].square, shown**2, atol=1e-10)
    outcome = Outcome(*map(jnp.asarray, (1, 2, 9.0, 1.0)))
    after = policy.absorb(key, state, view, outcome)
    np.testing.assert_allclose(after.inner[2], 9.0 - offsets[2])


def test_nobody_is_served_for_rating_high():
    """Who knows the matrix gives the best entries to high raters; equalised, it does not."""
    problem, offsets = rating_problem(3, rows=20, columns=30)

    def picks(policy):
        world = environment.untouched(problem)
        key = jax.random.key(0)
        state = policy.init(key, world.view, problem)
        columns = []
        for _ in range(60):
            choice = policy.choose(key, state, world.view)
            world, outcome, *_ = environment.look(key, problem, world, choice, beta=0.0, once=True)
            columns.append(int(outcome.column))
        return np.bincount(columns, minlength=30)

    plain, fair = picks(knower()), picks(equalised(knower(), strength=0.1))
    assert np.corrcoef(plain, offsets)[0, 1] > 0.5
    assert abs(np.corrcoef(fair, offsets)[0, 1]) < 0.3
    assert (fair > 0).sum() > 2 * (plain > 0).sum()
