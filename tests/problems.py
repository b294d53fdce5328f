"""Small random problems, their dense float64 references, and tests of Gaussian samples."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax import lax
from jax.flatten_util import ravel_pytree

from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


class Problem(NamedTuple):
    parameters: Parameters
    observations: Observations
    looks: list  # for each column, the rows [looks] seen, repeats included, and their values


def make_problem(seed, *, rows=6, columns=5, rank=3, intercepts=True, repeats=True):
    """Column 0 has nothing seen, column 1 everything; arrays in the precision now in force."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.1, 1.2, (rows, rank))
    bias = rng.normal(size=rows) if intercepts else np.zeros(rows)
    sigma = 0.6
    count = rng.integers(0, 4 if repeats else 2, (rows, columns))
    count[:, 0], count[:, 1] = 0, np.maximum(count[:, 1], 1)
    latents = rng.normal(size=(columns, rank))
    looks = []
    for n in range(columns):
        seen = np.repeat(np.arange(rows), count[:, n])
        values = bias[seen] + loadings[seen] @ latents[n] + sigma * rng.normal(size=seen.size)
        looks.append((seen, values))
    parameters = Parameters(
        *(
            jnp.asarray(np.asarray(x))
            for x in (loadings, loadings.mean(0), 2.0, 1.5, 0.8, sigma, bias, 1.0, 0.0, 1.0, [])
        )
    )
    return Problem(parameters, observed(rows, looks), looks)


def observed(rows, looks):
    """Observations of the rows and values seen in each column."""
    seen, values = (np.concatenate([look[i] for look in looks]) for i in (0, 1))
    column = np.repeat(np.arange(len(looks)), [len(look[0]) for look in looks])
    return one_by_one(rows, len(looks), seen, column, values)


def one_by_one(rows, columns, row, column, values, weights=None):
    """Values added in their order: entries that are there twice need the mean before each."""
    weights = np.ones(len(values)) if weights is None else weights
    return _added(rows, columns, *map(jnp.asarray, (row, column, 1.0 * values, 1.0 * weights)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _added(rows, columns, *answers):
    def add(data, answer):
        return data.add(*answer), None

    return lax.scan(add, Observations.empty(rows, columns), answers)[0]


def low_rank_data(seed, *, rows, columns, rank, seen=0.5, noise=0.3):
    """A table from uniform loadings, and what a random mask shows of it."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    table += noise * rng.normal(size=table.shape)
    return Observations.from_matrix(jnp.asarray(table), rng.uniform(size=table.shape) < seen)


def as_float64(parameters):
    return jax.tree.map(lambda value: np.asarray(value, np.float64), parameters)


def float64_of(parameters):
    """W, b and sigma."""
    parameters = as_float64(parameters)
    return parameters.loadings, parameters.intercepts, parameters.sigma


def draws_of(seed, number):
    """Parameters with a leading axis S, and observations of a problem."""
    parameters, observations, _ = make_problem(seed)
    size = np.linspace(0.5, 1.5, number)
    draws = jax.tree.map(lambda x: jnp.asarray(np.multiply.outer(size, x)), parameters)
    return draws, observations


def with_column_noise(parameters, columns, seed=0):
    """The same with a noise of its own in each column."""
    scales = np.random.default_rng(seed).uniform(0.4, 2.0, columns)
    return parameters._replace(noise_scales=jnp.asarray(scales))


def with_latent_means(parameters, columns, seed=0):
    """The same with a prior mean of its own for the latents of each column."""
    means = np.random.default_rng(seed).normal(size=(columns, parameters.factors().shape[1]))
    return parameters._replace(latent_means=jnp.asarray(means))


def with_offsets(parameters, loading=0.4):
    """The same with a factor more, on which all rows load alike."""
    return parameters._replace(offsets=jnp.asarray([loading]))


def in_column(parameters, n):
    """The parameters that column n sees: the dense references know one noise, and no means.

    Latents with a mean p are latents without one around the intercepts b + W p. Of offsets the
    references know that they are a factor like the others.
    """
    one = jnp.ones_like(parameters.sigma)
    own = parameters._replace(sigma=parameters.noise_at(n), noise_scales=one)
    alike = np.broadcast_to(own.offsets, (len(own.loadings), len(own.offsets)))
    own = own._replace(loadings=jnp.hstack([own.loadings, alike]), offsets=jnp.zeros(0))
    if not parameters.latent_means.ndim:
        return own
    moved = own.intercepts + own.loadings @ own.latent_means[n]
    return own._replace(intercepts=moved, latent_means=jnp.zeros_like(one))


def dense_latents(parameters, seen, values):
    """Mean [K] and covariance [K, K] of x given looks at one column, by the joint Gaussian."""
    w, b, sigma = float64_of(parameters)
    covariance = w[seen] @ w[seen].T + sigma**2 * np.eye(len(seen))
    gain = np.linalg.solve(covariance, w[seen]).T
    return gain @ (values - b[seen]), np.eye(w.shape[1]) - gain @ w[seen]


def dense_entries(parameters, seen, values):
    """Mean [D] and covariance [D, D] of b + W x, no noise, given looks at one column."""
    w, b, sigma = float64_of(parameters)
    prior = w @ w.T
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + sigma**2 * np.eye(len(seen)), prior[seen]).T
    return b + gain @ (values - b[seen]), prior - gain @ prior[seen]


def dense_log_likelihood(parameters, looks):
    w, b, sigma = float64_of(parameters)
    columns = (
        scipy.stats.multivariate_normal.logpdf(
            values, b[seen], w[seen] @ w[seen].T + sigma**2 * np.eye(len(seen))
        )
        for seen, values in looks
        if len(seen)
    )
    return sum(columns)


def padded(looks, length):
    """Rows, values and validity [N, length] of the looks at each column."""
    rows, values, valid = np.zeros((3, len(looks), length))
    for n, (seen, value) in enumerate(looks):
        rows[n, : len(seen)], values[n, : len(seen)], valid[n, : len(seen)] = seen, value, 1
    return rows.astype(int), values, valid


@jax.jit
@jax.grad
def dense_gradient(arguments, rows, values, valid):
    """The gradient, by autodiff through the covariance of all looks at a column."""
    w, b, variance = arguments

    def one(row, value, valid):
        covariance = w[row] @ w[row].T + variance * jnp.eye(row.size)
        covariance = jnp.where(jnp.outer(valid, valid) > 0, covariance, jnp.eye(row.size))
        centred = valid * (value - b[row])
        quadratic = centred @ jnp.linalg.solve(covariance, centred)
        return -0.5 * (quadratic + jnp.linalg.slogdet(covariance)[1])

    return jax.vmap(one)(rows, values, valid).sum()


def assert_gaussian(samples, mean, covariance):
    """Independent samples [S, M] have these first and second moments.

    The whitened samples have M + M(M+1)/2 moments, each standard normal after scaling. At
    |z| < 5 one of them fails by chance with probability 6e-7; for M = 10 all pass but for 4e-5.
    """
    samples = np.asarray(samples, np.float64)
    number, size = samples.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), (samples - mean).T)
    first = white.mean(1) * np.sqrt(number)
    second = (white @ white.T / number - np.eye(size)) * np.sqrt(number)
    second /= np.sqrt(1 + np.eye(size))
    np.testing.assert_array_less(np.abs(first), 5.0)
    np.testing.assert_array_less(np.abs(second), 5.0)


def gradient_by_differences(function, arguments, step=1e-5):
    """Central differences along every coordinate, as a pytree; wants float64."""
    flat, unravel = ravel_pytree(arguments)

    def along(direction):
        ahead, behind = (function(unravel(flat + s * direction)) for s in (step, -step))
        return (ahead - behind) / (2 * step)

    return unravel(jax.jit(jax.vmap(along))(jnp.eye(flat.size)))


def most_likely_factors(matrix, columns):
    """W W', sigma^2 and q of least BIC, from the density of the data itself, in float64."""
    rows, (values, vectors) = len(matrix), np.linalg.eigh(np.asarray(matrix, float))
    best = (np.inf,)
    for q in range(min(rows, int(columns / 2) + 1)):
        noise = values[: rows - q].mean()
        top = vectors[:, rows - q :]
        shared = top @ np.diag(values[rows - q :] - noise) @ top.T
        made = shared + noise * np.eye(rows)
        # -2 / N times the log density of N columns with this covariance, without its constant.
        deviance = np.linalg.slogdet(made)[1] + np.trace(np.linalg.solve(made, matrix))
        free = rows * q - q * (q - 1) / 2
        criterion = deviance + free * np.log(columns) / columns
        if criterion < best[0] - 1e-12:
            best = (criterion, shared, noise, q)
    return best[1:]


def factor_parts(parameters):
    """W W', sigma^2 and the number of factors."""
    w = np.asarray(parameters.loadings, float)
    return w @ w.T, float(parameters.sigma) ** 2, np.count_nonzero(np.abs(w).sum(0))


def low_rank(seed, rows, columns, rank, *, seen, sigma=0.0):
    """A matrix of Gaussian factors and what is seen of it, with NaN elsewhere."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    mask = rng.random((rows, columns)) < seen
    values = np.where(mask, matrix + sigma * rng.normal(size=matrix.shape), np.nan)
    return matrix, values, mask
