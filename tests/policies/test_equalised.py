"""Columns with the same average: what the inner policy is shown, and whom it then serves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.beliefs.base import Diagnostics
from smc_jax.observations import Observations
from smc_jax.policies import Policy
from smc_jax.policies.base import Mixture, best_open
from smc_jax.policies.equalised import column_offsets, equalised
from smc_jax.simulation import environment
from smc_jax.simulation.problem import Problem
from smc_jax.types import Offer, Outcome


def rating_problem(seed=0, rows=6, columns=8):
    """Rows with means, columns of which some are far above the others."""
    rng = np.random.default_rng(seed)
    offsets = rng.normal(size=columns) * 5.0
    entries = rng.normal(size=(rows, 1)) + offsets + rng.normal(size=(rows, columns))
    exists = np.ones((rows, columns), bool)
    return Problem(jnp.asarray(entries), jnp.zeros(()), jnp.asarray(exists), None), offsets


def knower(entries):
    """Knows row effects and residuals, but not who rates high; keeps all that it is shown."""

    def init(key, data, offer, prior=None):
        return data, jnp.zeros(())

    def predict(key, state, data, rows, columns, number):
        mean = data.average()[rows, columns][None]
        return Mixture(mean, jnp.ones_like(mean), jnp.ones_like(mean))

    def choose(key, state, data, offer):
        return best_open(entries + (state[0].by_column() > 0) * offsets_seen(state[0]), offer)

    return Policy(
        init,
        refit=lambda key, state, data, offer: (data, state[1]),
        choose=choose,
        absorb=lambda key, state, data, outcome, offer: (data, outcome.value),
        diagnose=lambda state: Diagnostics.none(),
        predict=predict,
    )


def offsets_seen(data):
    """How high the columns rate in the data that the policy is shown."""
    return column_offsets(data, strength=0.1)


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
    policy = equalised(knower(problem.entries), strength=0.5)
    mask = jnp.asarray(np.random.default_rng(2).random((6, 8)) < 0.7)
    data = Observations.from_matrix(problem.entries, mask)
    offer = Offer(None, problem.available & ~mask, jnp.where(mask, 0.0, 1.0))
    key = jax.random.key(0)
    state = policy.refit(key, policy.init(key, data, offer), data, offer)
    offsets = np.asarray(column_offsets(data, strength=0.5))
    shown = np.asarray(mask) * (np.asarray(problem.entries) - offsets)
    np.testing.assert_allclose(state.inner[0].average(), shown, atol=1e-12)
    np.testing.assert_allclose(state.inner[0].squared_error(0.0), shown**2, atol=1e-10)
    outcome = Outcome(*map(jnp.asarray, (1, 2, 9.0, True)))
    after = policy.absorb(key, state, data, outcome, offer)
    np.testing.assert_allclose(after.inner[1], 9.0 - offsets[2])
    rows, columns = np.nonzero(mask)
    found = policy.predict(key, state, data, rows, columns, 1)
    np.testing.assert_allclose(found.mean[0], np.asarray(problem.entries)[rows, columns])


def test_nobody_is_served_for_rating_high():
    """Who sees how high a column rates gives the best entries to high raters; equalised, not."""
    rng = np.random.default_rng(3)
    offsets = 5.0 * rng.normal(size=30)
    residuals = jnp.asarray(rng.normal(size=(20, 30)))
    exists = jnp.ones((20, 30), bool)
    problem = Problem(residuals + offsets, jnp.zeros(()), exists, None)
    made = environment.make_environment(lambda key, seed: problem, initial=300)

    def picks(policy):
        keys = environment.seed_keys(jnp.uint32(0))
        world = made.reset(keys, jnp.uint32(0))
        offer = made.offer(keys.offers, world)
        state = policy.init(keys.init, world.data, offer)
        state = policy.refit(keys.init, state, world.data, offer)
        columns = []
        for _ in range(60):
            choice = policy.choose(keys.policy, state, world.data, offer)
            world, outcome, _ = made.answer(keys.noise, world, offer, choice)
            offer = made.offer(keys.offers, world)
            columns.append(int(outcome.column))
        return np.bincount(columns, minlength=30)

    plain = picks(knower(residuals))
    fair = picks(equalised(knower(residuals), strength=0.1))
    high = offsets > np.median(offsets)
    assert plain[high].sum() == 60
    assert 10 < fair[high].sum() < 50
    assert (fair > 0).sum() > 2 * (plain > 0).sum()
