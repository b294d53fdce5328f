"""Matrices that are drawn: their covariance, their noise, and the kinds of loadings."""

import jax
import numpy as np
from scipy import stats

from smc_jax.data.synthetic import synthetic


def test_columns_have_the_stated_covariance():
    problem = synthetic(rows=4, columns=40_000, true_rank=2, noise_variance=0.3)(jax.random.key(0))
    w = np.asarray(problem.truth.loadings, np.float64)
    expected = w @ w.T + 0.3 * np.eye(4)
    entries = np.asarray(problem.entries, np.float64)
    variances = np.outer(np.diag(expected), np.diag(expected)) + expected**2
    z = (entries @ entries.T / 40_000 - expected) / np.sqrt(variances / 40_000)
    assert np.abs(z).max() < 5  # ten moments: fails for 6e-6 of the seeds
    np.testing.assert_allclose(problem.truth.sigma**2, 0.3, rtol=1e-6)


def test_noise_of_the_look_leaves_a_matrix_of_the_true_rank():
    sizes = {"rows": 8, "columns": 12, "true_rank": 3}
    problem = synthetic(entry_noise=False, **sizes)(jax.random.key(0))
    assert np.linalg.matrix_rank(np.asarray(problem.entries), tol=1e-3) == 3
    np.testing.assert_allclose(problem.noise**2, 0.1, rtol=1e-6)
    noisy = synthetic(**sizes)(jax.random.key(0))
    assert noisy.noise == 0
    assert np.linalg.matrix_rank(np.asarray(noisy.entries), tol=1e-3) == 8


def test_kinds_of_loadings():
    def loadings(kind, seed, **sizes):
        return np.asarray(
            synthetic(loadings=kind, **sizes)(jax.random.key(seed)).truth.loadings, np.float64
        )

    sizes = {"rows": 400, "columns": 1, "true_rank": 5}
    # Kolmogorov-Smirnov at 0.001 each: fails for 0.2 % of the seeds.
    assert stats.kstest(loadings("uniform", 0, **sizes).ravel(), stats.uniform.cdf).pvalue > 1e-3
    assert stats.kstest(loadings("beta", 0, **sizes).ravel(), stats.beta(2, 5).cdf).pvalue > 1e-3
    sizes["rows"] = 40
    mixed = synthetic(loadings="mixed", **sizes)
    make = jax.jit(lambda key, seed: mixed(key, seed).truth.loadings)
    means = [make(jax.random.key(seed), seed).mean() for seed in range(6)]
    # Means are 1/2 or 2/7, with deviations below 0.021: five of them are 0.105.
    np.testing.assert_allclose(means, 3 * [1 / 2, 2 / 7], atol=0.1)
