"""Symmetric matrices by halves against NumPy's."""

import jax
import numpy as np
import pytest
import scipy.linalg

from smc_jax.algebra.symmetric import solve, upper_triangle


@pytest.mark.parametrize("k", [1, 2, 7])
def test_upper_triangle(k):
    matrix = np.random.default_rng(0).normal(size=(k, k))
    matrix = matrix + matrix.T
    upper, position = upper_triangle(k)
    np.testing.assert_array_equal(matrix[upper][position], matrix)


@pytest.mark.parametrize("rank", [1, 2, 7])
@pytest.mark.usefixtures("x64")
def test_solve(rank):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(11, rank, 2 * rank))
    matrices = np.eye(rank) + factors @ factors.transpose(0, 2, 1)
    vectors, normals = rng.normal(size=(2, rank, 11))
    (i, j), position = upper_triangle(rank)
    triangles = matrices[:, i, j].T
    inverse, solution, log_det, draw = jax.jit(solve)(triangles, vectors, normals)
    np.testing.assert_allclose(inverse.T[:, position], np.linalg.inv(matrices), atol=1e-12)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(matrices)[1], rtol=1e-12)
    for n, (matrix, vector, normal) in enumerate(zip(matrices, vectors.T, normals.T, strict=True)):
        np.testing.assert_allclose(solution[:, n], np.linalg.solve(matrix, vector), atol=1e-12)
        lower = np.linalg.cholesky(matrix)
        drawn = scipy.linalg.solve_triangular(lower.T, normal)
        np.testing.assert_allclose(draw[:, n], drawn, atol=1e-12)
    again = jax.jit(solve)(triangles, vectors)
    np.testing.assert_array_equal(again.inverse, inverse)
    np.testing.assert_array_equal(again.draw, np.zeros((rank, 11)))
