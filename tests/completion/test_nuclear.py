"""Nuclear norm completion against closed forms, a factored float64 optimum, and its dual."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from problems import low_rank

from smc_jax.completion.nuclear import noise_penalty, nuclear_completion, nuclear_path, shrink


def objective_of(matrix, values, mask, penalty):
    misfit = np.where(mask, values - matrix, 0.0)
    return 0.5 * (misfit**2).sum() + penalty * np.linalg.svd(matrix, compute_uv=False).sum()


def factored_optimum(values, mask, penalty):
    """The least of 1/2 |P(M - AB')|^2 + penalty/2 (|A|^2 + |B|^2) with factors of full rank."""
    rows, columns = mask.shape
    rank = min(rows, columns)

    def split(x):
        return x[: rows * rank].reshape(rows, rank), x[rows * rank :].reshape(columns, rank)

    def objective(x):
        a, b = split(x)
        misfit = np.where(mask, a @ b.T - values, 0.0)
        slopes = misfit @ b + penalty * a, misfit.T @ a + penalty * b
        value = 0.5 * (misfit**2).sum() + 0.5 * penalty * (x**2).sum()
        return value, np.concatenate([slope.ravel() for slope in slopes])

    start = np.random.default_rng(0).normal(size=(rows + columns) * rank)
    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    a, b = split(found.x)
    return a @ b.T, found.fun


@pytest.mark.parametrize(("rows", "columns"), [(7, 4), (4, 7), (5, 5)])
@pytest.mark.usefixtures("x64")
def test_shrink_lowers_the_singular_values(rows, columns):
    matrix = np.random.default_rng(0).normal(size=(rows, columns))
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    left = np.maximum(s - 1.0, 0.0)
    shrunk, spectrum = shrink(matrix, 1.0)
    np.testing.assert_allclose(shrunk, (u * left) @ v, atol=1e-12)
    np.testing.assert_allclose(spectrum, left[::-1], atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_matrix_seen_in_full_is_shrunk():
    matrix = np.random.default_rng(1).normal(size=(5, 4))
    solved = nuclear_completion(matrix, np.ones((5, 4)), penalty=0.7, tolerance=1e-10)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    np.testing.assert_allclose(solved.matrix, (u * np.maximum(s - 0.7, 0)) @ v, atol=1e-9)
    assert solved.rank == (s > 0.7).sum()


@pytest.mark.parametrize("penalty", [0.1, 0.5, 2.0])
@pytest.mark.usefixtures("x64")
def test_solution_is_that_of_the_factored_problem_and_has_a_dual_certificate(penalty):
    _, values, mask = low_rank(2, 5, 4, 2, seen=0.7, sigma=0.3)
    solved = nuclear_completion(values, mask, penalty=penalty, tolerance=1e-9, steps=20_000)
    matrix = np.asarray(solved.matrix)
    expected, least = factored_optimum(values, mask, penalty)
    np.testing.assert_allclose(solved.objective, least, rtol=1e-8)
    np.testing.assert_allclose(objective_of(matrix, values, mask, penalty), least, rtol=1e-8)
    np.testing.assert_allclose(matrix, expected, atol=1e-3)
    # P(M - Z) / penalty is a subgradient of the nuclear norm: U V' and, beyond it, a contraction.
    dual = np.where(mask, values - matrix, 0.0) / penalty
    u, _, v = np.linalg.svd(matrix)
    u, v = u[:, : solved.rank], v[: solved.rank]
    np.testing.assert_allclose(dual @ v.T, u, atol=1e-5)
    np.testing.assert_allclose(u.T @ dual, v, atol=1e-5)
    assert np.linalg.norm(dual, 2) < 1 + 1e-5


@pytest.mark.usefixtures("x64")
def test_warm_start_and_path_end_where_a_cold_start_does():
    _, values, mask = low_rank(3, 20, 15, 2, seen=0.6, sigma=0.3)
    settings = {"penalty": 0.8, "tolerance": 1e-9, "steps": 20_000}
    cold = nuclear_completion(values, mask, **settings)
    near = nuclear_completion(values, mask, penalty=1.0).matrix
    warm = nuclear_completion(values, mask, start=near, **settings)
    path = nuclear_path(values, mask, **settings)
    again = nuclear_completion(values, mask, start=cold.matrix, **settings)
    assert again.steps < 3
    assert warm.steps < cold.steps
    for other in (warm, path, again):
        np.testing.assert_allclose(other.matrix, cold.matrix, atol=1e-6)
        np.testing.assert_allclose(other.objective, cold.objective, rtol=1e-12)


@pytest.mark.parametrize(("rows", "columns", "rank"), [(200, 200, 3), (1000, 100, 5)])
def test_recovers_a_matrix_without_noise_in_float32(rows, columns, rank):
    matrix, values, mask = low_rank(0, rows, columns, rank, seen=0.3)
    penalty = 1e-3 * np.linalg.norm(np.where(mask, values, 0.0), 2)
    solved = nuclear_path(values, mask, penalty=penalty, points=8, tolerance=1e-4)
    assert solved.matrix.dtype == jnp.float32
    error = np.linalg.norm(solved.matrix - matrix) / np.linalg.norm(matrix)
    assert error < 2.5e-3  # of which the penalty itself takes most


def test_a_penalty_of_the_largest_singular_value_gives_zero():
    _, values, mask = low_rank(4, 20, 15, 2, seen=0.6)
    penalty = 1.0001 * np.linalg.norm(np.where(mask, values, 0.0), 2)
    for solve in (nuclear_completion, nuclear_path):
        solved = solve(values, mask, penalty=penalty)
        assert not solved.matrix.any()
        assert solved.rank == 0


def test_noise_penalty_is_the_spectral_norm_of_the_noise_seen():
    rng = np.random.default_rng(0)
    mask = rng.random((100, 200)) < 0.3
    norms = [np.linalg.norm(0.5 * mask * rng.normal(size=mask.shape), 2) for _ in range(5)]
    np.testing.assert_allclose(noise_penalty(mask, 0.5), np.mean(norms), rtol=0.05)


def degenerate_inputs():
    rng = np.random.default_rng(0)
    values, none = rng.normal(size=(20, 15)), np.zeros((20, 15), bool)
    one, gaps = none.copy(), ~none
    one[3, 2] = True
    gaps[[0, 4]], gaps[:, 5] = False, False
    return {
        "nothing seen": (values, none),
        "one entry": (values, one),
        "rows and a column unseen": (values, gaps),
        "all zero": (0 * values, ~none),
        "constant": (0 * values + 7, ~none),
    }


@pytest.mark.parametrize("solve", [nuclear_completion, nuclear_path])
@pytest.mark.parametrize("penalty", [0.0, 0.1])
@pytest.mark.parametrize("name", degenerate_inputs())
def test_degenerate_inputs_give_finite_matrices(name, penalty, solve):
    values, mask = degenerate_inputs()[name]
    solved = solve(np.where(mask, values, np.nan), mask, penalty=penalty)
    chex.assert_tree_all_finite(solved)
    np.testing.assert_allclose(solved.matrix[~mask.any(1)], 0.0, atol=1e-5)


@pytest.mark.parametrize("solve", [nuclear_completion, nuclear_path])
def test_vmap_is_a_loop(solve):
    problems = [low_rank(seed, 20, 15, 2, seen=0.6, sigma=0.3)[1:] for seed in range(3)]
    values, mask = (jnp.stack(x) for x in zip(*problems, strict=True))
    batched = jax.vmap(functools.partial(solve, penalty=0.8))(values, mask)
    for i, problem in enumerate(problems):
        single = solve(*problem, penalty=0.8)
        np.testing.assert_allclose(batched.matrix[i], single.matrix, atol=1e-3)
        np.testing.assert_allclose(batched.objective[i], single.objective, rtol=1e-5)


def test_penalties_share_one_compiled_program():
    run = jax.jit(chex.assert_max_traces(nuclear_completion.__wrapped__, n=1))
    _, values, mask = low_rank(5, 20, 15, 2, seen=0.6)
    for penalty in (0.1, 1.0):
        run(values, mask, penalty=penalty)
