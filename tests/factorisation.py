"""Dense float64 references for probabilistic matrix factorisation."""

import numpy as np
from problems import one_by_one

NOISE, VARIANCE = 0.3, 0.8


def looks(seed, rows, columns, most=3):
    """Entries of a factor model of rank one, each seen 0 to `most` times."""
    rng = np.random.default_rng(seed)
    entries = np.outer(rng.normal(size=rows), rng.normal(size=columns))
    count = rng.integers(0, most + 1, (rows, columns))
    row, column = np.repeat(np.indices(count.shape).reshape(2, -1), count.ravel(), axis=1)
    values = entries[row, column] + np.sqrt(NOISE) * rng.normal(size=row.size)
    return one_by_one(rows, columns, row, column, values)


def statistics(observations):
    """How often each entry was seen [D, N], and the sum of its values [D, N], in float64."""
    count = np.asarray(observations.times_seen(), np.float64)
    return count, count * np.asarray(observations.average(), np.float64)


def dense_factors(others, variance, noise, count, total):
    """Means [..., K] and covariances [..., K, K] of one side's factor; others are [..., D, K]."""
    others = np.asarray(others, np.float64)
    eye = np.eye(others.shape[-1])
    precision = np.einsum("...dk,d,...dl->...kl", others, count, others) / noise + eye / variance
    covariance = np.linalg.inv(precision)
    field = np.einsum("...dk,d->...k", others, total) / noise
    return np.einsum("...kl,...l->...k", covariance, field), covariance


def whitened(samples, mean, covariance):
    root = np.linalg.cholesky(covariance)
    residual = np.asarray(samples, np.float64) - mean
    return np.linalg.solve(root, residual[..., None])[..., 0]


def exact_entries(observations, *, noise, item_variance, user_variances, weights, span, points):
    """Means [2, D, N] of v_d u_n and its square for K = 1, by quadrature over V in float64.

    su2 has the prior `weights` on the values `user_variances`; U is integrated out exactly.
    """
    count, total = statistics(observations)
    rows = len(count)
    grid = np.linspace(-span, span, points)
    v = np.stack(np.meshgrid(*[grid] * rows, indexing="ij"), -1).reshape(-1, rows)
    normaliser, moments = 0.0, np.zeros((2, *count.shape))
    for variance, weight in zip(user_variances, weights, strict=True):
        precision = v**2 @ count / noise + 1 / variance
        mean = v @ total / noise / precision
        log_density = 0.5 * (mean**2 * precision - np.log(precision * variance)).sum(1)
        density = weight * np.exp(log_density - 0.5 * (v**2).sum(1) / item_variance)
        normaliser += density.sum()
        moments[0] += np.einsum("g,gd,gn->dn", density, v, mean)
        moments[1] += np.einsum("g,gd,gn->dn", density, v**2, mean**2 + 1 / precision)
    return moments / normaliser


def assert_means(estimates, expected, bound=5.0):
    """Independent estimates [R, ...] have these means.

    By chance |z| < 5 fails for one of them at 6e-7 where there are many, at 2e-5 with 32.
    """
    estimates = np.asarray(estimates, np.float64)
    error = estimates.std(0, ddof=1) / np.sqrt(len(estimates))
    np.testing.assert_array_less(np.abs(estimates.mean(0) - expected) / error, bound)
