"""The column algebra on lists of looks, against dense observations and the dense joint Gaussian."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from listing import COLUMNS, ROWS, SHAPES, listed
from problems import (
    dense_log_likelihood,
    make_problem,
    with_column_noise,
    with_latent_means,
    with_offsets,
)

from smc_jax.looks import Looks
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters

by_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def parameters_of(seed=0, rows=ROWS, columns=COLUMNS, rank=3):
    """With a noise and a mean of the latents in each column, and offsets."""
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=(rows, rank)), rng.normal(size=rows)
    plain = Parameters.plain(jnp.asarray(w), jnp.asarray(0.7), jnp.asarray(b))
    return with_latent_means(with_column_noise(with_offsets(plain), columns), columns)


def value_and_gradient(parameters, data):
    given = parameters.factors(), parameters.intercepts, parameters.noise() ** 2

    def likelihood(w, b, variance, means):
        return gaussian.log_likelihood(w, b, variance, data, means)

    every = jax.value_and_grad(likelihood, argnums=(0, 1, 2, 3))
    return jax.jit(every)(*given, parameters.latent_means)


@by_shape
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.usefixtures("x64")
def test_likelihood_and_gradient_are_those_of_dense_observations(weights, shape):
    looks, dense = listed(weights=weights, **shape)
    parameters = parameters_of()
    found, wanted = (value_and_gradient(parameters, data) for data in (looks, dense))
    chex.assert_trees_all_close(found, wanted, rtol=1e-10, atol=1e-10)
    alike = parameters._replace(latent_means=jnp.zeros(()), noise_scales=jnp.ones(()))
    found, wanted = (value_and_gradient(alike, data) for data in (looks, dense))
    chex.assert_trees_all_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_likelihood_is_that_of_the_joint_gaussian():
    parameters, _, seen = make_problem(1)
    row, value = (np.concatenate([look[i] for look in seen]) for i in (0, 1))
    column = np.repeat(np.arange(len(seen)), [len(look[0]) for look in seen])
    looks = Looks.of(row, column, value, rows=6, columns=len(seen), groups=2, width=4)
    given = parameters.loadings, parameters.intercepts, parameters.sigma**2
    wanted = dense_log_likelihood(parameters, seen)
    np.testing.assert_allclose(gaussian.log_likelihood(*given, looks), wanted, rtol=1e-11)


@by_shape
@pytest.mark.usefixtures("x64")
def test_posteriors_and_draws_are_those_of_dense_observations(shape):
    looks, dense = listed(weights=True, **shape)
    parameters, key = parameters_of(), jax.random.key(0)
    sample = jax.jit(gaussian.sample_columns)
    found, wanted = (sample(key, parameters, data) for data in (looks, dense))
    chex.assert_trees_all_close(found, wanted, atol=1e-10)
    posterior = jax.jit(gaussian.latent_posterior)
    chex.assert_trees_all_close(posterior(parameters, looks), wanted[0], atol=1e-10)


def test_float32_is_accurate():
    looks, dense = listed(rows=50, columns=100, number=1500, groups=4)
    parameters = parameters_of(rows=50, columns=100)
    found, wanted = (value_and_gradient(parameters, data) for data in (looks, dense))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
    for one, other in zip(found[1], wanted[1], strict=True):
        assert np.abs(one - other).max() < 1e-4 * np.abs(other).max()


def test_many_draws_at_once_are_as_many_alone():
    looks, _ = listed(groups=4)
    draws = [parameters_of(seed) for seed in range(3)]
    together = jax.tree.map(lambda *x: jnp.stack(x), *draws)
    function = functools.partial(value_and_gradient, data=looks)
    alone = jax.tree.map(lambda *x: jnp.stack(x), *map(function, draws))
    chex.assert_trees_all_close(jax.vmap(function)(together), alone, rtol=1e-4, atol=1e-3)


def sizes_in(jaxpr):
    """The numbers of elements of all arrays of a program, of programs within it too."""
    for equation in jaxpr.eqns:
        yield from (getattr(v.aval, "size", 0) for v in (*equation.invars, *equation.outvars))
        for inner in jaxprs_in_params(equation.params):
            yield from sizes_in(inner)


def largest_array(function, *arguments):
    return max(sizes_in(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.mark.parametrize("turns", [False, True])
def test_no_array_is_as_large_as_the_matrix(turns):
    """1009 x 1013 entries and 2,000 looks: the largest array is far smaller."""
    rng, rows, columns = np.random.default_rng(0), 1009, 1013
    row, column = rng.integers(0, rows, 2000), rng.integers(0, columns, 2000)
    sides = {"rows": rows, "columns": columns, "groups": 3, "turns": turns}
    looks = Looks.of(row, column, rng.normal(size=2000), **sides)
    parameters = parameters_of(rows=rows, columns=columns)
    assert largest_array(value_and_gradient, parameters, looks) < rows * columns / 10
    sample = functools.partial(gaussian.sample_columns, jax.random.key(0))
    assert largest_array(sample, parameters, looks) < rows * columns / 10
    if not turns:  # the scan finds what it looks for
        assert largest_array(sample, parameters, looks.dense()) >= rows * columns
