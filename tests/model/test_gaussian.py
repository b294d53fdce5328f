"""The column algebra against the dense joint Gaussian."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from problems import (
    assert_gaussian,
    dense_entries,
    dense_gradient,
    dense_latents,
    dense_log_likelihood,
    draws_of,
    gradient_by_differences,
    in_column,
    make_problem,
    padded,
    with_column_noise,
    with_latent_means,
    with_offsets,
)

from smc_jax.model import gaussian

VARIANTS = pytest.mark.parametrize(("intercepts", "repeats"), [(False, False), (True, True)])

posterior = jax.jit(gaussian.latent_posterior)


@jax.jit
def likelihood_of(parameters, observations):
    w, b, variance = parameters.factors(), parameters.intercepts, parameters.noise() ** 2
    return gaussian.log_likelihood(w, b, variance, observations, parameters.latent_means)


@VARIANTS
@pytest.mark.usefixtures("x64")
def test_log_likelihood_column_by_column(intercepts, repeats):
    parameters, observations, looks = make_problem(1, intercepts=intercepts, repeats=repeats)
    assert len(looks[0][0]) == 0
    for n in range(len(looks)):
        value = likelihood_of(parameters, observations.column(n))
        expected = dense_log_likelihood(parameters, looks[n : n + 1])
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11)
    value = likelihood_of(parameters, observations)
    np.testing.assert_allclose(value, dense_log_likelihood(parameters, looks), rtol=1e-11)


@VARIANTS
@pytest.mark.usefixtures("x64")
def test_log_likelihood_gradient(intercepts, repeats):
    """Against finite differences, and against autodiff through the dense covariance."""
    parameters, observations, looks = make_problem(2, intercepts=intercepts, repeats=repeats)
    arguments = (parameters.loadings, parameters.intercepts, parameters.sigma**2)

    def fast(arguments):
        return 3.0 * gaussian.log_likelihood(*arguments, observations)

    gradient = jax.jit(jax.grad(fast))(arguments)
    differences = gradient_by_differences(fast, arguments)
    chex.assert_trees_all_close(gradient, differences, rtol=1e-6, atol=1e-6)
    reference = dense_gradient(arguments, *padded(looks, length=18))
    chex.assert_trees_all_close(
        gradient, jax.tree.map(lambda x: 3 * x, reference), rtol=1e-10, atol=1e-10
    )


@pytest.mark.usefixtures("x64")
def test_columns_with_a_noise_of_their_own():
    """Likelihood, gradient and posterior are those of each column alone."""
    parameters, observations, looks = make_problem(2)
    parameters = with_column_noise(parameters, len(looks))
    each = [in_column(parameters, n) for n in range(len(looks))]
    dense = [dense_log_likelihood(one, [look]) for one, look in zip(each, looks, strict=True)]
    np.testing.assert_allclose(likelihood_of(parameters, observations), sum(dense), rtol=1e-11)

    arguments = (parameters.loadings, parameters.intercepts, parameters.noise() ** 2)

    def fast(arguments):
        return gaussian.log_likelihood(*arguments, observations)

    gradient = jax.jit(jax.grad(fast))(arguments)
    differences = gradient_by_differences(fast, arguments)
    chex.assert_trees_all_close(gradient, differences, rtol=1e-6, atol=1e-6)

    columns = posterior(parameters, observations)
    for n, look in enumerate(looks):
        mean, covariance = dense_latents(each[n], *look)
        np.testing.assert_allclose(columns.mean[n], mean, atol=1e-12)
        np.testing.assert_allclose(columns.covariance[n], covariance, atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("offsets", [False, True])
def test_latents_with_means_of_their_own(offsets):
    """Likelihood, gradient, posterior and draws are those of columns around b + W p."""
    parameters, observations, looks = make_problem(2)
    parameters = with_offsets(parameters) if offsets else parameters
    parameters = with_latent_means(with_column_noise(parameters, len(looks)), len(looks))
    each = [in_column(parameters, n) for n in range(len(looks))]
    dense = [dense_log_likelihood(one, [look]) for one, look in zip(each, looks, strict=True)]
    np.testing.assert_allclose(likelihood_of(parameters, observations), sum(dense), rtol=1e-11)

    variance = parameters.noise() ** 2
    arguments = (parameters.factors(), parameters.intercepts, variance, parameters.latent_means)

    def fast(arguments):
        w, b, variance, means = arguments
        return gaussian.log_likelihood(w, b, variance, observations, means)

    gradient = jax.jit(jax.grad(fast))(arguments)
    differences = gradient_by_differences(fast, arguments)
    chex.assert_trees_all_close(gradient, differences, rtol=1e-6, atol=1e-6)

    columns = posterior(parameters, observations)
    means = np.asarray(parameters.latent_means)
    for n, look in enumerate(looks):
        mean, covariance = dense_latents(each[n], *look)
        np.testing.assert_allclose(columns.mean[n], means[n] + mean, atol=1e-12)
        np.testing.assert_allclose(columns.covariance[n], covariance, atol=1e-12)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("way", ["one by one", "many at once"])
def test_draws_of_latents_with_means(way, offsets):
    """Moments of 4000 draws of a seen and of an unseen column, each at |z| < 5."""
    parameters, observations, looks = make_problem(3, repeats=False)
    parameters = with_offsets(parameters) if offsets else parameters
    parameters = with_latent_means(parameters, len(looks))
    key = jax.random.key(0)
    if way == "one by one":
        draw = functools.partial(gaussian.sample_matrix, entry_noise=False)
        keys = jax.random.split(key, 4000)
        drawn = jax.jit(jax.vmap(draw, in_axes=(0, None, None)))(keys, parameters, observations)
        drawn = jnp.moveaxis(drawn, 2, 0)  # [N, S, D]
    else:
        covariance = posterior(parameters, observations).covariance
        drawn = gaussian.sample_matrices(
            key, parameters, observations, covariance, draws=4000, entry_noise=False
        )
    for n in (0, 1):
        mean, covariance = dense_entries(in_column(parameters, n), *looks[n])
        assert_gaussian(drawn[n, :, :3], mean[:3], covariance[:3, :3])  # the rank of W is three


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("means", [False, True])
def test_blocks_of_columns_add_up(width, means, monkeypatch):
    """Five columns in blocks that divide them, and that do not."""
    parameters, observations, _ = make_problem(4, repeats=True)
    parameters = with_column_noise(parameters, observations.columns)
    if means:
        parameters = with_latent_means(parameters, observations.columns)
    w, b, variance = parameters.loadings, parameters.intercepts, parameters.noise() ** 2
    arguments = (w, b, variance, observations, parameters.latent_means)
    both = jax.value_and_grad(gaussian.log_likelihood, argnums=(0, 1, 2, 4))
    whole = both(*arguments)
    monkeypatch.setattr(gaussian, "BLOCK", width)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10), both(*arguments), whole)


def test_data_have_no_gradient():
    parameters, observations, _ = make_problem(2)
    gradient = jax.grad(likelihood_of, argnums=1)(parameters, observations)
    chex.assert_trees_all_equal(gradient, jax.tree.map(jnp.zeros_like, observations))


@VARIANTS
@pytest.mark.usefixtures("x64")
def test_posterior_and_entry_moments(intercepts, repeats):
    parameters, observations, looks = make_problem(3, intercepts=intercepts, repeats=repeats)
    columns = posterior(parameters, observations)
    entry_mean, entry_variance = gaussian.entry_moments(parameters, columns)
    for n, look in enumerate(looks):
        mean, covariance = dense_latents(parameters, *look)
        np.testing.assert_allclose(columns.mean[n], mean, atol=1e-12)
        np.testing.assert_allclose(columns.covariance[n], covariance, atol=1e-12)
        mean, covariance = dense_entries(parameters, *look)
        np.testing.assert_allclose(entry_mean[:, n], mean, atol=1e-12)
        np.testing.assert_allclose(entry_variance[:, n], np.diag(covariance), atol=1e-12)


@pytest.mark.parametrize(("repeats", "column_noise"), [(False, False), (True, False), (True, True)])
def test_sampled_columns_have_the_moments(repeats, column_noise):
    """Five columns of nine moments at |z| < 5: fails by chance with probability 3e-5."""
    parameters, observations, looks = make_problem(4, repeats=repeats)
    if column_noise:
        parameters = with_column_noise(parameters, len(looks))
    keys = jax.random.split(jax.random.key(0), 20_000)
    sample = jax.jit(jax.vmap(gaussian.sample_columns, in_axes=(0, None, None)))
    columns, samples = sample(keys, parameters, observations)
    again = posterior(parameters, observations)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x[0], y, atol=1e-5), columns, again)

    def alone(n):
        return in_column(parameters, n) if column_noise else parameters

    for n, look in enumerate(looks):
        assert_gaussian(samples[:, n], *dense_latents(alone(n), *look))
    # Columns are independent given the parameters: 1 and 2 side by side (27 moments).
    means, blocks = zip(*(dense_latents(alone(n), *looks[n]) for n in (1, 2)), strict=True)
    side_by_side = samples[:, 1:3].reshape(len(samples), -1)
    assert_gaussian(side_by_side, np.concatenate(means), scipy.linalg.block_diag(*blocks))


@pytest.mark.parametrize("together", [False, True])
def test_sample_matrix(together):
    """Seen entries are kept; the others have the conditional moments (|z| < 5, error 1e-4)."""
    parameters, observations, looks = make_problem(5, repeats=False)
    sigma = float(parameters.sigma)
    keys = jax.random.split(jax.random.key(1), 20_000)

    def draw(entry_noise):
        if together:
            covariance = posterior(parameters, observations).covariance
            settings = {"draws": len(keys), "entry_noise": entry_noise}
            many = functools.partial(gaussian.sample_matrices, **settings)
            return np.asarray(many(keys[0], parameters, observations, covariance)).transpose(
                1, 2, 0
            )
        one = functools.partial(gaussian.sample_matrix, entry_noise=entry_noise)
        many = jax.jit(jax.vmap(one, in_axes=(0, None, None)))
        return np.asarray(many(keys, parameters, observations))

    with_noise, noise_free = draw(True), draw(False)
    seen = np.asarray(observations.seen())
    kept = np.asarray(observations.average())[seen]
    np.testing.assert_array_equal(
        with_noise[:, seen], np.broadcast_to(kept, (len(keys), kept.size))
    )
    for n, look in enumerate(looks):
        mean, covariance = dense_entries(parameters, *look)
        unseen = np.setdiff1d(np.arange(len(mean)), look[0])
        if unseen.size:
            block = covariance[np.ix_(unseen, unseen)] + sigma**2 * np.eye(unseen.size)
            assert_gaussian(with_noise[:, unseen, n], mean[unseen], block)
        # W x has the rank of W: three of the rows determine the others.
        assert_gaussian(noise_free[:, :3, n], mean[:3], covariance[:3, :3])


@pytest.mark.usefixtures("x64")
def test_absorb_equals_recomputing():
    """Looks absorbed one by one, in any order, from the prior of the latents."""
    parameters, observations, looks = make_problem(6)
    columns = posterior(parameters, observations)
    w, b, sigma = parameters.loadings, parameters.intercepts, parameters.sigma
    rank = w.shape[1]
    absorb = jax.jit(gaussian.absorb)
    for n, (seen, values) in enumerate(looks):
        column = gaussian.Column.of(jnp.zeros(rank), jnp.eye(rank), jnp.zeros(rank))
        order = np.random.default_rng(n).permutation(len(seen))
        for row, value in zip(seen[order], values[order], strict=True):
            column = absorb(jax.random.key(0), column, w[row], value - b[row], sigma**2, 1.0)
        np.testing.assert_allclose(column.mean, columns.mean[n], atol=1e-12)
        np.testing.assert_allclose(column.covariance, columns.covariance[n], atol=1e-12)


def test_absorbed_sample_has_the_posterior():
    """A sample moved by one more look is a sample given all looks (|z| < 5, error 6e-6)."""
    parameters, observations, looks = make_problem(7)
    w, b, sigma = parameters.loadings, parameters.intercepts, parameters.sigma
    n, row, value = 2, 4, 1.7
    columns = posterior(parameters, observations)

    def one(key):
        sample_key, absorb_key = jax.random.split(key)
        sample = gaussian.sample_columns(sample_key, parameters, observations)[1][n]
        column = gaussian.Column.of(columns.mean[n], columns.covariance[n], sample)
        return gaussian.absorb(absorb_key, column, w[row], value - b[row], sigma**2, 1.0).sample

    samples = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), 20_000))
    seen, values = looks[n]
    mean, covariance = dense_latents(parameters, np.append(seen, row), np.append(values, value))
    assert_gaussian(samples, mean, covariance)
    # The shape as well as the moments: Kolmogorov-Smirnov rejects a true null with rate 1e-3.
    white = (np.asarray(samples)[:, 0] - mean[0]) / np.sqrt(covariance[0, 0])
    assert scipy.stats.kstest(white, "norm").pvalue > 1e-3


def test_absorb_of_weight_zero_is_nothing():
    parameters, observations, _ = make_problem(8)
    columns = posterior(parameters, observations)
    column = gaussian.Column.of(columns.mean[1], columns.covariance[1], jnp.ones(3))
    after = gaussian.absorb(jax.random.key(0), column, parameters.loadings[0], 9.0, 0.3, 0.0)
    chex.assert_trees_all_equal(after, column)


def test_permuting_columns_permutes_results():
    parameters, observations, _ = make_problem(11)
    order = np.asarray([3, 0, 4, 1, 2])
    shuffled = observations.at_columns(order)
    columns = posterior(parameters, observations)
    chex.assert_trees_all_close(
        posterior(parameters, shuffled),
        jax.tree.map(lambda x: x[order], columns),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        likelihood_of(parameters, shuffled), likelihood_of(parameters, observations), rtol=1e-6
    )


@pytest.mark.usefixtures("x64")
def test_jit_and_vmap_change_nothing():
    draws, observations = draws_of(12, 3)

    def everything(parameters):
        columns = gaussian.latent_posterior(parameters, observations)
        w, b, sigma = parameters.loadings, parameters.intercepts, parameters.sigma
        gradient = jax.grad(gaussian.log_likelihood, argnums=(0, 1, 2))
        _, sample = gaussian.sample_columns(jax.random.key(3), parameters, observations)
        return columns, gradient(w, b, sigma**2, observations), sample

    draw = [jax.tree.map(lambda x: x[s], draws) for s in range(3)]
    jitted = jax.jit(everything)
    loop = jax.tree.map(lambda *x: np.stack(x), *map(jitted, draw))
    chex.assert_trees_all_close(jax.jit(jax.vmap(everything))(draws), loop, rtol=1e-10)
    chex.assert_trees_all_close(jitted(draw[0]), everything(draw[0]), rtol=1e-10)


def test_float32_is_accurate_at_full_size():
    """50 x 100, K = 20: values to 1e-4 and gradients to 1e-3 of their largest element."""

    def everything():
        parameters, observations, _ = make_problem(13, rows=50, columns=100, rank=20)
        value_and_grad = jax.jit(jax.value_and_grad(likelihood_of))
        return *value_and_grad(parameters, observations), posterior(parameters, observations)

    value, gradient, columns = everything()
    assert value.dtype == jnp.float32
    with jax.enable_x64(True):
        precise = jax.device_get(everything())
    np.testing.assert_allclose(value, precise[0], rtol=1e-4)
    for name in ("loadings", "sigma", "intercepts"):
        reference = getattr(precise[1], name)
        difference = np.abs(getattr(gradient, name) - reference)
        assert difference.max() < 1e-3 * np.abs(reference).max(), name
    chex.assert_trees_all_close(jax.device_get(columns), precise[2], atol=1e-3)
