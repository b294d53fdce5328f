"""Covariances of what was seen against sums written out in float64, and who uses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import assert_gaussian, make_problem

from smc_jax import covariance, gaussian
from smc_jax.environment import Problem
from smc_jax.policies import POLICIES, Setting
from smc_jax.policies.empirical import pairwise
from smc_jax.policies.thompson import point_sampling
from smc_jax.types import Observations, Outcome, View


def seen_values(problem):
    """Means over the looks at each entry, NaN where there were none."""
    values = np.full(problem.observations.count.shape, np.nan)
    for n, (rows, looks) in enumerate(problem.looks):
        for row in set(rows.tolist()):
            values[row, n] = looks[rows == row].mean()
    return values


def test_pairs_are_sums_over_shared_columns():
    problem = make_problem(0, rows=5, columns=9)
    values = seen_values(problem)
    centre = np.linspace(-1, 1, 5)
    found = covariance.pairs(problem.observations, jnp.asarray(centre))
    assert np.isnan(values).sum() >= 9
    for d in range(5):
        for e in range(5):
            products = (values[d] - centre[d]) * (values[e] - centre[e])
            assert found.count[d, e] == (~np.isnan(products)).sum()
            np.testing.assert_allclose(found.products[d, e], np.nansum(products), atol=1e-5)


def test_shrinkage_counts_pseudo_columns_without_correlation():
    products = np.array([[6.0, 3.0, 0.0], [3.0, 8.0, -1.0], [0.0, -1.0, 0.0]])
    count = np.array([[3, 2, 0], [2, 4, 1], [0, 1, 0]])
    found = covariance.shrunk(
        covariance.Pairs(jnp.asarray(products), jnp.asarray(count, float)), strength=2.0
    )
    average = 14 / 7
    expected = [
        [(6 + 2 * average) / 5, 3 / 4, 0],
        [3 / 4, (8 + 2 * average) / 6, -1 / 3],
        [0, -1 / 3, average],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_factors_give_the_covariance_back():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 4))
    matrix = root @ root.T + 0.5 * np.eye(6)
    parameters = covariance.factorise(jnp.asarray(matrix), jnp.zeros(6), floor=1e-3)
    w, sigma = np.asarray(parameters.loadings), float(parameters.sigma)
    np.testing.assert_allclose(w @ w.T + sigma**2 * np.eye(6), matrix, atol=2e-5)
    np.testing.assert_allclose(sigma**2, 0.5, rtol=1e-4)


def test_low_eigenvalues_are_raised_and_high_ones_kept():
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    matrix = vectors @ np.diag([-2.0, 0.1, 3.0, 6.9]) @ vectors.T
    parameters = covariance.factorise(jnp.asarray(matrix), jnp.zeros(4), floor=0.2)
    w, sigma = np.asarray(parameters.loadings), float(parameters.sigma)
    made = w @ w.T + sigma**2 * np.eye(4)
    np.testing.assert_allclose(np.linalg.eigvalsh(made), [0.4, 0.4, 3.0, 6.9], rtol=1e-4)


@pytest.mark.parametrize("seen", ["nothing", "one entry", "all alike"])
def test_empirical_starts_from_almost_nothing(seen):
    count = {"nothing": jnp.zeros((4, 5)), "all alike": jnp.ones((4, 5))}.get(seen)
    count = jnp.zeros((4, 5)).at[1, 2].set(1.0) if count is None else count
    view = View(Observations.from_matrix(count, count), jnp.ones((4, 5), bool), jnp.ones((4, 5)))
    policy = POLICIES["empirical"](Setting(None, entry_noise=True))
    state = policy.refit(jax.random.key(1), policy.init(jax.random.key(0), view, None), view)
    assert policy.diagnose(state).finite
    assert 0 <= policy.choose(jax.random.key(2), state, view) < 20


@pytest.mark.parametrize("entry_noise", [True, False])
def test_conditioning_on_each_pick_equals_solving_anew(entry_noise):
    """Four columns of at most 27 moments at |z| < 5: fails by chance with probability 6e-5."""
    problem = make_problem(2, rows=6, columns=4, repeats=False)
    view = View(problem.observations, jnp.ones((6, 4), bool), jnp.ones((6, 4)))
    belief = pairwise(strength=2.0, floor=0.5, centred=True)
    policy = point_sampling(belief, entry_noise=entry_noise, at_once=20_000)
    state = policy.refit(jax.random.key(1), policy.init(jax.random.key(0), view, None), view)
    for row, column, value, weight in [(1, 0, 1.5, 1), (4, 0, -0.5, 1), (2, 3, 9.0, 0)]:
        view = view._replace(observations=view.observations.add(row, column, value, weight))
        outcome = Outcome(*map(jnp.asarray, (row, column, value, float(weight))))
        state = jax.jit(policy.absorb)(jax.random.key(row), state, view, outcome)
    anew = gaussian.latent_posterior(state.parameters, view.observations)
    np.testing.assert_allclose(state.covariance, anew.covariance, rtol=1e-3, atol=1e-4)
    w, noise = np.asarray(state.parameters.loadings), float(state.parameters.sigma) ** 2
    b, seen = np.asarray(state.parameters.intercepts), np.asarray(view.observations.count) > 0
    assert (~seen).any(0).sum() >= 3
    for n in range(4):
        drawn, free = np.asarray(state.matrices[n]), ~seen[:, n] | (not entry_noise)
        mean = b + w @ anew.mean[n]
        spread = w @ anew.covariance[n] @ w.T + (noise * np.eye(6) if entry_noise else 0.0)
        compared = np.flatnonzero(free)
        if not entry_noise:  # W W' lacks the least eigenvalue: the last row follows from the others
            compared = compared[:-1]
        block = spread[np.ix_(compared, compared)]
        if compared.size:
            assert np.linalg.matrix_rank(block) == compared.size
            assert_gaussian(drawn[:, compared], mean[compared], block)
        if entry_noise:
            known = np.asarray(view.observations.total)[~free, n]
            np.testing.assert_allclose(
                drawn[:, ~free], np.broadcast_to(known, (20_000, known.size)), atol=1e-4
            )


@pytest.mark.parametrize("kind", ["second_moment", "population"])
def test_the_oracle_of_a_population_knows_its_moments(kind):
    rng = np.random.default_rng(3)
    entries = rng.normal(size=(5, 400)) + 3 * rng.normal(size=400) + np.arange(5)[:, None]
    problem = Problem(jnp.asarray(entries), jnp.zeros(()), jnp.ones((5, 400), bool), None)
    view = View(Observations.empty(5, 400), problem.available, jnp.ones((5, 400)))
    policy = POLICIES["oracle"](Setting(None, entry_noise=True), covariance=kind)
    state = policy.refit(jax.random.key(1), policy.init(jax.random.key(0), view, problem), view)
    w, sigma = np.asarray(state.parameters.loadings), float(state.parameters.sigma)
    made = w @ w.T + sigma**2 * np.eye(5)
    mean = entries.mean(1) if kind == "population" else np.zeros(5)
    centred = entries - mean[:, None]
    np.testing.assert_allclose(made, centred @ centred.T / 400, rtol=1e-3)
    np.testing.assert_allclose(state.parameters.intercepts, mean, rtol=1e-3, atol=1e-5)


def test_the_oracle_of_a_population_leaves_out_what_does_not_exist():
    rng = np.random.default_rng(4)
    entries, available = 9.0 + rng.normal(size=(3, 50)), rng.uniform(size=(3, 50)) < 0.7
    problem = Problem(
        jnp.asarray(np.where(available, entries, np.nan)),
        jnp.zeros(()),
        jnp.asarray(available),
        None,
    )
    view = View(Observations.empty(3, 50), problem.available, jnp.ones((3, 50)))
    policy = POLICIES["oracle"](Setting(None, entry_noise=True), covariance="second_moment")
    state = policy.refit(jax.random.key(1), policy.init(jax.random.key(0), view, problem), view)
    w, sigma = np.asarray(state.parameters.loadings), float(state.parameters.sigma)
    mean = np.array([row[there].mean() for row, there in zip(entries, available, strict=True)])
    kept = np.where(available, entries - mean[:, None], 0.0)
    expected = kept @ kept.T / (1.0 * available @ available.T) + np.outer(mean, mean)
    np.testing.assert_allclose(w @ w.T + sigma**2 * np.eye(3), expected, rtol=1e-4)


def test_an_unknown_covariance_is_named():
    with pytest.raises(ValueError, match=r"oracle\.covariance: unknown 'nonsense'"):
        POLICIES["oracle"](Setting(None, entry_noise=True), covariance="nonsense")
