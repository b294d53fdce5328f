"""Beliefs in other units: a standardised one says the same of shifted and scaled data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import make_problem

from smc_jax import beliefs, inference, start
from smc_jax.model import gamma_process
from smc_jax.types import Observations


def fitted(observations, loadings):
    model = gamma_process(rank=2, loadings=loadings, intercepts=True)
    svi = inference.svi(model=model, optimiser=inference.adam(), window=5)
    inner = beliefs.variational(model, start.spectral(model), svi, first_steps=20, steps=5)
    belief = beliefs.standardised(inner)

    @jax.jit
    def run(observations):
        state = belief.init(jax.random.key(0), observations, None)
        state = belief.refit(jax.random.key(1), state, observations)
        return state, belief.draw(jax.random.key(2), state), belief.diagnose(state)

    return run(observations)


@pytest.mark.parametrize("loadings", ["gamma", "signed"])
def test_shift_and_scale_of_the_data_are_those_of_the_draws(loadings):
    count, total, square = make_problem(0).observations
    moved = Observations(
        count, 5.0 * count + 2.0 * total, 25.0 * count + 20.0 * total + 4.0 * square
    )
    _, plain, diagnostics = fitted(Observations(count, total, square), loadings)
    state, other, _ = fitted(moved, loadings)
    assert diagnostics.finite
    close = {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(other.loadings, 2.0 * plain.loadings, **close)
    np.testing.assert_allclose(other.sigma, 2.0 * plain.sigma, **close)
    np.testing.assert_allclose(other.intercepts, 5.0 + 2.0 * plain.intercepts, **close)
    looks = count.sum()
    np.testing.assert_allclose(state.centre, moved.total.sum() / looks, rtol=1e-5)
    variance = moved.square.sum() / looks - state.centre**2
    np.testing.assert_allclose(state.scale**2, variance, rtol=1e-3)


def test_nothing_or_one_value_seen_keeps_the_units():
    one, all_ = jnp.zeros((3, 4)).at[1, 2].set(1.0), jnp.ones((3, 4))
    seen = [Observations.from_matrix(7.0 * one, one), Observations.from_matrix(-7.28 * all_, all_)]
    for observations in (Observations.empty(3, 4), *seen):
        state, _, diagnostics = fitted(observations, "signed")
        assert state.scale == 1
        assert diagnostics.finite
