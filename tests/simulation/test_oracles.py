"""What oracles are told of a matrix against factors of most likelihood, written out in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import factor_parts, most_likely_factors

from smc_jax.data.synthetic import synthetic
from smc_jax.observations import Observations
from smc_jax.policies.base import Setting
from smc_jax.policies.registry import make_policy
from smc_jax.simulation.oracles import REVEALED
from smc_jax.simulation.problem import Problem
from smc_jax.types import Offer, Outcome


def matrix_of(entries, available=None):
    """A problem without true parameters."""
    entries = jnp.asarray(entries)
    available = jnp.ones(entries.shape, bool) if available is None else jnp.asarray(available)
    return Problem(entries, jnp.zeros(()), available, None)


def told(entries, available=None, name="oracle", **settings):
    """The policy, its state once refitted, the data, which are none, and the offer."""
    problem = matrix_of(entries, available)
    data = Observations.empty(*problem.entries.shape)
    offer = Offer(None, problem.available, jnp.ones(problem.entries.shape))
    policy = make_policy(name, Setting(None, entry_noise=True), **settings)
    revealed = REVEALED[policy.told](problem)
    state = policy.init(jax.random.key(0), data, offer, revealed)
    return policy, policy.refit(jax.random.key(1), state, data, offer), data, offer


@pytest.mark.parametrize("kind", ["second_moment", "population"])
def test_the_oracle_of_a_population_knows_its_moments(kind):
    rng = np.random.default_rng(3)
    entries = rng.normal(size=(5, 400)) + 3 * rng.normal(size=400) + np.arange(5)[:, None]
    _, state, _, _ = told(entries, covariance=kind)
    mean = entries.mean(1) if kind == "population" else np.zeros(5)
    centred = entries - mean[:, None]
    moment = centred @ centred.T / 400
    shared, noise, number = most_likely_factors(moment, 400)
    made = factor_parts(state.parameters)
    np.testing.assert_allclose(made[0], shared, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(made[1], noise, rtol=1e-3)
    assert made[2] == number == (1 if kind == "population" else 2)
    np.testing.assert_allclose(np.trace(made[0]) + 5 * made[1], np.trace(moment), rtol=1e-3)
    np.testing.assert_allclose(state.parameters.intercepts, mean, rtol=1e-3, atol=1e-5)


def test_the_oracle_of_a_population_leaves_out_what_does_not_exist():
    rng = np.random.default_rng(4)
    entries, available = 9.0 + rng.normal(size=(3, 50)), rng.uniform(size=(3, 50)) < 0.7
    _, state, _, _ = told(
        np.where(available, entries, np.nan), available, covariance="second_moment"
    )
    mean = np.array([row[there].mean() for row, there in zip(entries, available, strict=True)])
    kept = np.where(available, entries - mean[:, None], 0.0)
    count = 1.0 * available @ available.T
    shared, noise, _ = most_likely_factors(
        kept @ kept.T / count + np.outer(mean, mean), count.mean()
    )
    made = factor_parts(state.parameters)
    np.testing.assert_allclose(made[0], shared, rtol=1e-4)
    np.testing.assert_allclose(made[1], noise, rtol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e4])
@pytest.mark.parametrize("picks", ["thompson", "ids"])
@pytest.mark.parametrize("name", ["mean_oracle", "oracle"])
def test_a_matrix_without_variance_has_entries_to_choose(name, picks, value):
    settings = {"covariance": "second_moment"} if name == "oracle" else {}
    available = np.random.default_rng(7).uniform(size=(6, 30)) < 0.5
    entries = np.full((6, 30), value)
    policy, state, data, offer = told(entries, available, name, picks=picks, **settings)
    for step in range(3):
        row, column = map(int, policy.choose(jax.random.key(step), state, data, offer))
        assert 0 <= row < 6
        assert 0 <= column < 30
        assert offer.open[row, column]
        outcome = Outcome(*map(jnp.asarray, (row, column, value, True)))
        data = data.add(row, column, outcome.value, outcome.weight)
        offer = offer._replace(open=offer.open.at[row, column].set(False))
        state = policy.absorb(jax.random.key(step), state, data, outcome, offer)


def test_the_truth_is_what_the_matrix_was_drawn_from_where_it_was():
    problem = synthetic(rows=3, columns=4, true_rank=2)(jax.random.key(0))
    assert REVEALED["true"](problem) is problem.truth
    with pytest.raises(ValueError, match=r"^oracle\.covariance: these data have no true param"):
        REVEALED["true"](problem._replace(truth=None))
