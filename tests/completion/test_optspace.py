"""OptSpace against dense least squares, automatic gradients, and matrices of known low rank."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import low_rank

from smc_jax.completion.optspace import (
    complete,
    gradient,
    guess_rank,
    line_search,
    optspace,
    solve_core,
    trim,
)


def root_mean_square(x):
    return np.sqrt(np.mean(np.asarray(x, np.float64) ** 2))


def relative_error(completion, matrix):
    return root_mean_square(complete(completion) - matrix) / root_mean_square(matrix)


def design(left, right, mask):
    """Row e of the dense least squares: the products x_a y_b at the seen entry e."""
    rows, columns = np.nonzero(mask)
    outer = left[rows][:, :, None] * right[columns][:, None, :]
    return outer.reshape(len(rows), -1)


def dense_objective(frames, values, mask, penalty):
    """F of the spans of two frames, orthonormal or not."""
    left, right = (jnp.linalg.qr(frame)[0] for frame in frames)
    x, y = design(left, right, mask), values[np.nonzero(mask)]
    core = jnp.linalg.solve(x.T @ x + penalty * jnp.eye(x.shape[1]), x.T @ y)
    return 0.5 * ((y - x @ core) ** 2).sum() + 0.5 * penalty * (core**2).sum()


@pytest.mark.parametrize(("rows", "columns", "rank"), [(200, 200, 3), (1000, 100, 5)])
def test_recovers_a_matrix_without_noise_in_float32(rows, columns, rank):
    matrix, values, mask = low_rank(0, rows, columns, rank, seen=0.3)
    completion = optspace(values, mask, rank=rank)
    assert completion.core.dtype == jnp.float32
    assert relative_error(completion, matrix) < 1e-5
    for frame in (completion.left, completion.right):
        np.testing.assert_allclose(frame.T @ frame, np.eye(rank), atol=1e-5)


def test_error_under_noise_is_that_of_an_oracle_that_knows_the_tangent_space():
    ratios = []
    for seed in range(4):
        matrix, values, mask = low_rank(seed, 200, 200, 3, seen=0.3, sigma=0.5)
        error = root_mean_square(complete(optspace(values, mask, rank=3)) - matrix)
        ratios.append(error / (0.5 * np.sqrt(3 * (200 + 200 - 3) / mask.sum())))
    assert min(ratios) > 0.9
    assert max(ratios) < 1.1


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.usefixtures("x64")
def test_core_is_that_of_dense_least_squares_from_any_other(penalty):
    _, values, mask = low_rank(1, 12, 9, 5, seen=0.6)
    values = np.where(mask, values, 0.0)
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (12, 9))
    start = rng.normal(size=(3, 3))
    residual = mask * (values - left @ start @ right.T)
    core = solve_core(left, start, right, residual, mask.astype(float), penalty)
    x = np.concatenate([design(left, right, mask), np.sqrt(penalty) * np.eye(9)])
    y = np.concatenate([values[mask], np.zeros(9)])
    expected = np.linalg.lstsq(x, y, rcond=None)[0].reshape(3, 3)
    np.testing.assert_allclose(core, expected, atol=1e-10)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.usefixtures("x64")
def test_gradient_is_tangent_and_that_of_the_dense_objective(penalty):
    _, values, mask = low_rank(1, 12, 9, 5, seen=0.7)
    values = np.where(mask, values, 0.0)
    rng = np.random.default_rng(0)
    frames = [np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (12, 9)]
    core = solve_core(frames[0], np.zeros((3, 3)), frames[1], values, mask.astype(float), penalty)
    residual = mask * (values - frames[0] @ core @ frames[1].T)
    slopes = gradient(frames[0], core, frames[1], residual)
    expected = jax.grad(dense_objective)(frames, values, mask, penalty)
    for frame, slope, reference in zip(frames, slopes, expected, strict=True):
        np.testing.assert_allclose(frame.T @ slope, 0.0, atol=1e-12)
        np.testing.assert_allclose(slope, reference, atol=1e-10)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.usefixtures("x64")
def test_the_line_search_halves_until_the_dense_objective_has_fallen_enough(penalty):
    halvings = set()
    for seed in range(8):
        _, values, mask = low_rank(seed, 12, 9, 5, seen=0.6)
        values, rng = np.where(mask, values, 0.0), np.random.default_rng(seed)
        frames = [np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (12, 9)]
        core = 0.5 * rng.normal(size=(3, 3))
        residual = mask * (values - frames[0] @ core @ frames[1].T)
        tangents = [rng.normal(size=frame.shape) for frame in frames]
        tangents = [t - frame @ (frame.T @ t) for frame, t in zip(frames, tangents, strict=True)]
        linear = mask * (tangents[0] @ core @ frames[1].T + frames[0] @ core @ tangents[1].T)
        if (residual * linear).sum() < 0:
            tangents, linear = [-t for t in tangents], -linear

        def objective(t, frames=frames, tangents=tangents, core=core, values=values, mask=mask):
            moved = [frame + t * tangent for frame, tangent in zip(frames, tangents, strict=True)]
            made = moved[0] @ core @ moved[1].T
            misfit = np.where(mask, values - made, 0.0)
            return 0.5 * ((misfit**2).sum() + penalty * (made**2).sum())

        fall = (residual * linear).sum()
        whole = tangents[0] @ core @ frames[1].T + frames[0] @ core @ tangents[1].T
        curvature = (linear**2).sum() + penalty * (whole**2).sum()
        t = min(fall / curvature, sum((x**2).sum() for x in tangents) ** -0.5)
        number = 0
        while objective(t) - objective(0.0) > -0.25 * t * fall:
            t, number = t / 2, number + 1
        halvings.add(number)
        found, after = line_search(
            frames[0], core, frames[1], residual, tuple(tangents), mask.astype(float), penalty
        )
        np.testing.assert_allclose(found, t, rtol=1e-8)
        moved = [frame + t * tangent for frame, tangent in zip(frames, tangents, strict=True)]
        expected = mask * (values - moved[0] @ core @ moved[1].T)
        np.testing.assert_allclose(after, expected, atol=1e-10)
    assert len(halvings) > 1


@pytest.mark.parametrize("penalty", [0.0, 0.02])
def test_no_step_raises_the_objective(penalty):
    _, values, mask = low_rank(2, 40, 30, 5, seen=0.3, sigma=0.5)
    objectives = []
    for steps in range(12):
        completion = optspace(values, mask, rank=3, steps=steps, penalty=penalty)
        assert completion.steps == steps
        misfit = completion.fit**2 * mask.sum()
        objectives.append(0.5 * (misfit + penalty * (completion.core**2).sum()))
    assert (np.diff(objectives) < 1e-6 * objectives[0]).all()
    assert objectives[-1] < 0.9 * objectives[0]


@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_guesses_the_rank_of_a_matrix_with_equal_singular_values(rank):
    rng = np.random.default_rng(rank)
    left, right = (np.linalg.qr(rng.normal(size=(n, rank)))[0] for n in (300, 200))
    mask = rng.random((300, 200)) < 0.5
    values = np.where(mask, left @ right.T + 1e-3 * rng.normal(size=mask.shape), np.nan)
    assert jax.jit(functools.partial(guess_rank, largest=20))(values, mask) == rank


def test_guessed_rank_is_the_rank_used_and_further_columns_are_zero():
    matrix, values, mask = low_rank(3, 40, 30, 2, seen=0.7)
    completion = optspace(values, mask, rank=3, guess=True)
    assert completion.rank == 2
    assert relative_error(completion, matrix) < 1e-5
    assert not completion.left[:, 2:].any()
    assert not completion.right[:, 2:].any()
    assert not completion.core[2:].any()
    assert not completion.core[:, 2:].any()


def test_a_row_seen_too_often_is_trimmed_from_the_start_and_fitted_all_the_same():
    matrix, values, mask = low_rank(4, 200, 200, 3, seen=0.2)
    mask[0], values[0] = True, matrix[0]
    seen = np.where(mask, values, 0.0).astype(np.float32)
    trimmed = trim(seen, mask)
    np.testing.assert_array_equal(trimmed[0], 0.0)
    np.testing.assert_array_equal(trimmed[1:], seen[1:])
    start = optspace(values, mask, rank=3, steps=0)
    assert np.abs(start.left[0]).max() < 1e-6
    completion = optspace(values, mask, rank=3)
    np.testing.assert_allclose(complete(completion)[0], matrix[0], atol=1e-3)


def test_vmap_is_a_loop():
    problems = [low_rank(seed, 40, 30, 3, seen=0.5, sigma=0.1)[1:] for seed in range(3)]
    values, mask = (jnp.stack(x) for x in zip(*problems, strict=True))
    batched = jax.vmap(functools.partial(optspace, rank=3))(values, mask)
    for i, problem in enumerate(problems):
        single = optspace(*problem, rank=3)
        np.testing.assert_allclose(
            complete(jax.tree.map(lambda x: x[i], batched)), complete(single), atol=2e-3
        )
        np.testing.assert_allclose(batched.fit[i], single.fit, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e3, 1e-3])
def test_scale_of_the_values_does_not_matter(scale):
    _, values, mask = low_rank(5, 40, 30, 3, seen=0.5, sigma=0.1)
    one = optspace(values, mask, rank=3)
    other = optspace(scale * values, mask, rank=3)
    np.testing.assert_allclose(complete(other) / scale, complete(one), atol=2e-3)
    np.testing.assert_allclose(other.fit / scale, one.fit, rtol=1e-4)


def test_order_of_the_rows_does_not_matter():
    _, values, mask = low_rank(5, 40, 30, 3, seen=0.5, sigma=0.1)
    order = np.random.default_rng(0).permutation(40)
    one = optspace(values, mask, rank=3)
    other = optspace(values[order], mask[order], rank=3)
    np.testing.assert_allclose(complete(other), complete(one)[order], atol=2e-3)


def degenerate_inputs():
    rng = np.random.default_rng(0)
    values, none = rng.normal(size=(40, 30)), np.zeros((40, 30), bool)
    one, few, gaps = none.copy(), none.copy(), ~none
    one[3, 2] = True
    few.flat[rng.permutation(1200)[:5]] = True
    gaps[[0, 4]], gaps[:, 5] = False, False
    return {
        "nothing seen": (values, none),
        "one entry": (values, one),
        "fewer than the core": (values, few),
        "rows and a column unseen": (values, gaps),
        "all zero": (0 * values, ~none),
        "constant": (0 * values + 7, ~none),
        "constant, few seen": (0 * values + 7, few),
        "one entry huge": (values * np.where(one, 1e8, 1.0), ~none),
    }


@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.02])
@pytest.mark.parametrize("name", degenerate_inputs())
def test_degenerate_inputs_give_finite_matrices(name, penalty, guess):
    values, mask = degenerate_inputs()[name]
    values = np.where(mask, values, np.nan)
    completion = optspace(values, mask, rank=3, penalty=penalty, guess=guess)
    chex.assert_tree_all_finite((completion, complete(completion)))
    assert completion.fit <= 1.01 * root_mean_square(values[mask]) if mask.any() else True
    unseen = complete(completion)[~mask.any(1)]
    np.testing.assert_allclose(unseen, 0.0, atol=1e-3 * np.abs(np.nan_to_num(values)).max() + 1e-9)


def test_penalty_keeps_a_hardly_seen_matrix_to_its_scale():
    matrix, values, mask = low_rank(1000, 40, 30, 3, seen=0.05, sigma=0.1**0.5)
    penalised = complete(optspace(values, mask, rank=3, penalty=0.03))
    interpolating = complete(optspace(values, mask, rank=3))
    zero, small, large = (
        root_mean_square((matrix - guess)[~mask]) for guess in (0.0, penalised, interpolating)
    )
    assert small < 1.2 * zero
    assert small < 0.8 * large < np.inf


def test_compiles_once_for_a_shape():
    traced = chex.assert_max_traces(optspace.__wrapped__, n=1)
    run = jax.jit(traced, static_argnames=("rank", "guess"))
    for seed in range(2):
        _, values, mask = low_rank(seed, 40, 30, 3, seen=0.5)
        run(values, mask, rank=3, steps=5 + seed, tolerance=10.0**-seed, penalty=0.1 * seed)
