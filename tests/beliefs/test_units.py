"""Beliefs in other units: a standardised one says the same of shifted and scaled data."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import make_problem, one_by_one

from smc_jax.beliefs import starts
from smc_jax.beliefs import variational as inference
from smc_jax.beliefs.base import parameter_draws
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.units import standardised
from smc_jax.model import gaussian
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations
from smc_jax.types import Outcome


def fitted(observations, loadings):
    model = gamma_process(rank=2, loadings=loadings, intercepts=True)
    svi = inference.svi(model=model, optimiser=inference.adam(), window=5)
    inner = inference.variational(model, starts.spectral(model), svi, first_steps=20, steps=5)
    belief = standardised(inner)

    @jax.jit
    def run(observations):
        state = belief.init(jax.random.key(0), observations)
        state = belief.refit(jax.random.key(1), state, observations)
        return state, belief.draw(jax.random.key(2), state), belief.diagnose(state)

    return run(observations)


@pytest.mark.parametrize("loadings", ["gamma", "signed"])
def test_shift_and_scale_of_the_data_are_those_of_the_draws(loadings):
    observations = make_problem(0).observations
    moved = observations.relative_to(-2.5, 0.5)  # 5 + 2 y
    _, plain, diagnostics = fitted(observations, loadings)
    state, other, _ = fitted(moved, loadings)
    assert diagnostics.finite
    close = {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(other.loadings, 2.0 * plain.loadings, **close)
    np.testing.assert_allclose(other.sigma, 2.0 * plain.sigma, **close)
    np.testing.assert_allclose(other.intercepts, 5.0 + 2.0 * plain.intercepts, **close)
    np.testing.assert_allclose(state.centre, moved.mean(), rtol=1e-5)
    np.testing.assert_allclose(state.scale**2, moved.variance(), rtol=1e-5)
    values = np.concatenate([values for _, values in make_problem(0).looks])
    np.testing.assert_allclose(state.centre, 5.0 + 2.0 * values.mean(), rtol=1e-5)
    np.testing.assert_allclose(state.scale, 2.0 * values.std(), rtol=1e-5)


def test_nothing_or_one_value_seen_keeps_the_units():
    one, all_ = jnp.zeros((3, 4)).at[1, 2].set(1.0), jnp.ones((3, 4))
    seen = [Observations.from_matrix(7.0 * one, one), Observations.from_matrix(-7.28 * all_, all_)]
    for observations in (Observations.empty(3, 4), *seen):
        state, _, diagnostics = fitted(observations, "signed")
        assert state.scale == 1
        assert diagnostics.finite


FAR, WIDE = 1e6, 1e3  # squares of such values have nothing left of their spread in float32


def table(rows=30, columns=40):
    """Values of rank two with mean 0 and deviation 1 under a mask, which shows half of them."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns))
    values += 0.4 * rng.normal(size=values.shape) + rng.normal(size=(rows, 1))
    mask = rng.uniform(size=values.shape) < 0.5
    return (values - values[mask].mean()) / values[mask].std(), mask


def variational():
    model = gamma_process(rank=3, loadings="signed", intercepts=True)
    svi = inference.svi(model=model, optimiser=inference.adam())
    return inference.variational(model, starts.spectral(model), svi, first_steps=600)


BELIEFS = {"variational": variational, "gibbs": lambda: gibbs(rank=3)}


def held_out_error(belief, values, mask):
    """The state, and how far the values that are not seen are from the mean of 30 draws."""

    @jax.jit
    def run(data):
        state = belief.refit(jax.random.key(1), belief.init(jax.random.key(0), data), data)

        def entries(parameters):
            latents = gaussian.latent_posterior(parameters, data).mean
            return parameters.intercepts[:, None] + parameters.loadings @ latents.T

        draws = parameter_draws(jax.random.key(2), belief, state, 30)
        return state, jax.vmap(entries)(draws).mean(0)

    state, found = run(Observations.from_matrix(jnp.asarray(values), mask))
    return state, np.sqrt(((np.asarray(found, float) - values)[~mask] ** 2).mean())


def assert_fitted_alike(name, close, error):
    values, mask = table()
    belief = standardised(BELIEFS[name]())
    plain, least = held_out_error(belief, values, mask)
    state, found = held_out_error(belief, FAR + WIDE * values, mask)
    np.testing.assert_allclose([plain.centre, plain.scale], [0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose((state.centre - FAR) / WIDE, plain.centre, atol=close)
    np.testing.assert_allclose(state.scale / WIDE, plain.scale, rtol=close)
    assert 0.22 < least < 0.35  # the noise alone has 0.22, and the mean of all values has 1
    np.testing.assert_allclose(found / WIDE, least, rtol=error)


@pytest.mark.parametrize("name", BELIEFS)
def test_values_far_from_zero_are_fitted_as_well_as_others(name):
    """In float32: the least difference of two such values is 6e-5 of their deviation."""
    assert_fitted_alike(name, 1e-3, 0.02)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", BELIEFS)
def test_values_far_from_zero_are_fitted_as_well_as_others_in_float64(name):
    assert_fitted_alike(name, 1e-9, 1e-4)


@pytest.mark.parametrize("seen", ["once", "up to three times"])
@pytest.mark.parametrize("centre", [0.0, -1e3, 1e6])
def test_the_units_are_mean_and_deviation_of_all_values(seen, centre):
    rng = np.random.default_rng(1)
    times = np.ones((20, 30), int) if seen == "once" else rng.integers(0, 4, (20, 30))
    row, column = np.repeat(np.indices(times.shape).reshape(2, -1), times.ravel(), axis=1)
    values = np.float32(centre + WIDE * rng.normal(size=row.size)).astype(float)
    data = one_by_one(20, 30, row, column, values)
    state = standardised(pairwise()).init(jax.random.key(0), data)
    np.testing.assert_allclose(state.centre, values.mean(), atol=1e-3 * WIDE)
    np.testing.assert_allclose(state.scale, values.std(), rtol=1e-4)


@pytest.mark.parametrize("precision", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.28, 1e-20, 1e6, 1234567.1, -3.7e9])
def test_values_that_are_all_alike_have_no_scale(value, precision):
    """Rounding is no spread, however many values there are, and however often each was seen."""
    with jax.enable_x64(precision == jnp.float64):
        many = jnp.full((200, 300), value)
        data = Observations.from_matrix(many, jnp.ones_like(many))
        again = data.add(*np.indices((200, 300)), value, 2.0)
        for seen in (data, again, data.add(3, 4, value, 1.0)):
            assert seen.average().dtype == precision
            state = standardised(pairwise()).init(jax.random.key(0), seen)
            assert state.scale == 1
            np.testing.assert_allclose(state.centre, value, rtol=1e-5)


def test_a_filter_in_other_units_moves_as_it_does_in_its_own():
    """The same keys on the same values in units of their own: the same particles."""
    inner = particles(particles=50, rank=2)
    belief = standardised(inner)
    data = make_problem(0).observations
    state = belief.init(jax.random.key(0), data)
    units = state.centre, state.scale
    chex.assert_trees_all_equal(
        state.inner, inner.init(jax.random.key(0), data.relative_to(*units))
    )
    outcome = Outcome(*map(jnp.asarray, (2, 0, 3.5, True)))
    data = data.add(2, 0, 3.5, 1.0)
    moved = jax.jit(belief.absorb)(jax.random.key(1), state, data, outcome)
    expected = jax.jit(inner.absorb)(
        jax.random.key(1),
        state.inner,
        data.relative_to(*units),
        outcome._replace(value=(outcome.value - state.centre) / state.scale),
    )
    chex.assert_trees_all_close(moved.inner, expected, rtol=1e-4, atol=1e-5)
    assert (moved.inner.users != state.inner.users).any()
    assert (moved.centre, moved.scale) == units
