"""Covariances of what was seen against sums written out in float64, and factors that have them."""

import os
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import factor_parts, make_problem, most_likely_factors

from smc_jax.beliefs.pairwise import (
    Pairs,
    pairs,
    pairwise,
    principal_factors,
    row_means,
    shrunk,
    with_floor,
)
from smc_jax.data.download import ARCHIVES, fetch
from smc_jax.data.jester import read_jester
from smc_jax.observations import Observations


def seen_values(problem):
    """Means over the looks at each entry, NaN where there were none."""
    values = np.full((problem.observations.rows, problem.observations.columns), np.nan)
    for n, (rows, looks) in enumerate(problem.looks):
        for row in set(rows.tolist()):
            values[row, n] = looks[rows == row].mean()
    return values


def test_pairs_are_sums_over_shared_columns():
    problem = make_problem(0, rows=5, columns=9)
    values = seen_values(problem)
    centre = np.linspace(-1, 1, 5)
    found = pairs(problem.observations, jnp.asarray(centre))
    assert np.isnan(values).sum() >= 9
    for d in range(5):
        for e in range(5):
            products = (values[d] - centre[d]) * (values[e] - centre[e])
            assert found.count[d, e] == (~np.isnan(products)).sum()
            np.testing.assert_allclose(found.products[d, e], np.nansum(products), atol=1e-5)


def test_shrinkage_counts_pseudo_columns_without_correlation():
    products = np.array([[6.0, 3.0, 0.0], [3.0, 8.0, -1.0], [0.0, -1.0, 0.0]])
    count = np.array([[3, 2, 0], [2, 4, 1], [0, 1, 0]])
    found = shrunk(Pairs(jnp.asarray(products), jnp.asarray(count, float)), strength=2.0)
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
    parameters = with_floor(jnp.asarray(matrix), jnp.zeros(6), floor=1e-3)
    w, sigma = np.asarray(parameters.loadings), float(parameters.sigma)
    np.testing.assert_allclose(w @ w.T + sigma**2 * np.eye(6), matrix, atol=2e-5)
    np.testing.assert_allclose(sigma**2, 0.5, rtol=1e-4)


def test_low_eigenvalues_are_raised_and_high_ones_kept():
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    matrix = vectors @ np.diag([-2.0, 0.1, 3.0, 6.9]) @ vectors.T
    parameters = with_floor(jnp.asarray(matrix), jnp.zeros(4), floor=0.2)
    w, sigma = np.asarray(parameters.loadings), float(parameters.sigma)
    made = w @ w.T + sigma**2 * np.eye(4)
    np.testing.assert_allclose(np.linalg.eigvalsh(made), [0.4, 0.4, 3.0, 6.9], rtol=1e-4)


def drawn(seed, *, rows, columns, factors, sigma):
    """W [D, K] and a population [D, N] drawn from the model with it."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(rows, factors))
    latents, noise = rng.normal(size=(factors, columns)), rng.normal(size=(rows, columns))
    return w, w @ latents + sigma * noise + rng.normal(size=(rows, 1))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("columns", [3, 8, 40, 5000])
@pytest.mark.parametrize("seed", range(3))
def test_the_factors_are_the_most_likely_ones(seed, columns):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(7, 7)) * 2.0 ** -np.arange(7)
    matrix = root @ root.T + 0.05 * np.eye(7)
    intercepts = jnp.asarray(rng.normal(size=7))
    found = principal_factors(jnp.asarray(matrix), intercepts, columns=columns)
    shared, noise, number = most_likely_factors(matrix, columns)
    made = factor_parts(found)
    np.testing.assert_allclose(made[0], shared, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(made[1], noise, rtol=1e-10)
    assert made[2] == number
    np.testing.assert_allclose(np.trace(made[0]) + 7 * made[1], np.trace(matrix), rtol=1e-10)
    np.testing.assert_array_equal(found.intercepts, intercepts)


@pytest.mark.parametrize(
    ("rows", "columns", "factors"), [(30, 20_000, 3), (100, 1000, 4), (100, 150, 4), (20, 500, 0)]
)
def test_noise_and_factors_of_a_population_are_found(rows, columns, factors):
    """W W' is within 6 and sigma^2 within 4 standard errors of a sample.

    Of N degrees of freedom, the factors and the mean take K + 1. What is left of sigma^2 has the
    error of the variance of (D - K) N normals: |z| > 4 for 6e-5 of the seeds; |z| > 6 for one of
    the 5050 entries of W W' for 1e-5 of them.
    """
    sigma = 1.5
    w, entries = drawn(5, rows=rows, columns=columns, factors=factors, sigma=sigma)
    matrix = np.cov(entries, bias=True)
    found = principal_factors(jnp.asarray(matrix), jnp.zeros(rows), columns=columns)
    shared, noise, number = factor_parts(found)
    assert number == factors
    error = sigma**2 * np.sqrt(2 / ((rows - factors) * columns))
    left = 1 - (factors + 1) / columns
    assert abs(noise / left - sigma**2) < 4 * error
    true = w @ w.T
    variance = np.diag(true) + sigma**2
    errors = np.sqrt((np.outer(variance, variance) + true**2) / columns)
    assert (np.abs(shared - true) < 6 * errors).all()


@pytest.mark.parametrize("kind", ["more rows than columns", "constant rows", "negative"])
def test_singular_covariances_have_noise(kind):
    _, entries = drawn(6, rows=40, columns=25, factors=2, sigma=1.0)
    if kind == "constant rows":
        entries[:30] = 3.0
    matrix = np.cov(entries, bias=True)
    if kind == "negative":  # as where pairs are not all there
        matrix -= 0.2 * np.eye(40)
    found = principal_factors(jnp.asarray(matrix), jnp.zeros(40), columns=25)
    _, noise, number = factor_parts(found)
    assert noise >= 0.9e-3 * np.trace(matrix) / 40
    assert 1 <= number <= 12
    if kind == "more rows than columns":
        assert number == 2
        np.testing.assert_allclose(noise, 1.0, rtol=0.2)  # K + 1 of 25 degrees of freedom are lost


def test_the_noise_of_jester_is_not_its_least_eigenvalue():
    """Of the 7,200 users who rated all jokes: least eigenvalue 7.7, conditional variance 14.5.

    The noise of the factor model is 12.7 with 23 factors; of 24.7, the mean variance of a joke.
    """
    folder = os.environ.get("SMC_DATA_DIR")
    names = [ARCHIVES["jester"].name, *(name for name, _ in ARCHIVES["jester"].copies)]
    if not folder or not any((Path(folder) / name).exists() for name in names):
        pytest.skip("SMC_DATA_DIR names no folder with Jester")
    ratings = read_jester(fetch("jester", progress=False))
    complete = ratings.select(columns=np.flatnonzero(ratings.column_counts() == 100))
    values, _ = complete.dense()
    matrix = np.cov(values, bias=True)
    found = principal_factors(jnp.asarray(matrix), jnp.zeros(100), columns=7200)
    shared, noise, number = factor_parts(found)
    expected = most_likely_factors(matrix, 7200)
    np.testing.assert_allclose(shared, expected[0], atol=1e-2)
    np.testing.assert_allclose(noise, expected[1], rtol=1e-3)
    assert number == expected[2] == 23
    conditional = np.mean(1 / np.diag(np.linalg.inv(matrix)))
    assert 0.85 < noise / conditional < 1.0
    assert np.linalg.eigvalsh(matrix)[0] < 0.55 * conditional


@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_row_means_shrink_towards_the_mean_of_all_values(strength):
    problem = make_problem(1, rows=5, columns=4)
    values = [[] for _ in range(5)]
    for rows, looks in problem.looks:
        for row, value in zip(rows, looks, strict=True):
            values[row].append(value)
    overall = np.mean(np.concatenate(values))
    expected = [(sum(own) + strength * overall) / (len(own) + strength) for own in values]
    found = row_means(problem.observations, strength=strength)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("centred", [False, True])
def test_the_belief_is_the_estimate_from_what_was_seen(centred):
    """At the start and after every refit, whatever was seen before, and every draw is it."""
    first, second = (make_problem(seed).observations for seed in (1, 2))
    belief = pairwise(strength=1.5, floor=0.3, centred=centred)
    state = belief.refit(jax.random.key(1), belief.init(jax.random.key(0), first), second)
    centre = row_means(second) if centred else jnp.zeros(6)
    expected = with_floor(shrunk(pairs(second, centre), strength=1.5), centre, floor=0.3)
    chex.assert_trees_all_equal(state, expected)
    chex.assert_trees_all_equal(belief.draw(jax.random.key(2), state), expected)
    chex.assert_trees_all_equal(belief.init(jax.random.key(3), second), expected)
    assert belief.point
    assert belief.diagnose(state).finite


@pytest.mark.parametrize("seen", ["nothing", "one entry", "all alike"])
def test_almost_nothing_makes_finite_parameters(seen):
    mask = {"nothing": jnp.zeros((4, 5)), "all alike": jnp.ones((4, 5))}.get(seen)
    mask = jnp.zeros((4, 5)).at[1, 2].set(1.0) if mask is None else mask
    belief = pairwise()
    state = belief.init(jax.random.key(0), Observations.from_matrix(mask, mask))
    assert belief.diagnose(state).finite
    assert state.sigma > 0


def test_a_broken_estimate_is_reported():
    belief = pairwise()
    state = belief.init(jax.random.key(0), make_problem(0).observations)
    assert not belief.diagnose(state._replace(sigma=jnp.asarray(jnp.nan))).finite


def test_a_prior_is_refused():
    with pytest.raises(ValueError, match=r"^prior: the belief 'pairwise' takes none, got tuple$"):
        pairwise().init(jax.random.key(0), make_problem(0).observations, ())
