"""Offsets of columns: a factor that all rows load on alike, in every part that uses factors."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import draws_of, make_problem, with_offsets

from smc_jax.beliefs.told import told
from smc_jax.model import gaussian
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.greedy import greedy
from smc_jax.policies.thompson import thompson
from smc_jax.presets import fitted_belief
from smc_jax.types import Offer, Outcome


def merged(parameters):
    """The same parameters with the offsets as a column of W, made without `factors`."""
    w, alike = parameters.loadings, parameters.offsets
    column = jnp.stack([alike] * w.shape[-2], axis=-2)
    none = jnp.zeros((*alike.shape[:-1], 0))
    return parameters._replace(loadings=jnp.concatenate([w, column], -1), offsets=none)


OUTCOME = Outcome(*(jnp.asarray(x) for x in (3, 2, 0.7, True)))


def conditioned(draws, data):
    members = ensemble.start(jax.random.key(0), draws, data)
    members, column = ensemble.condition(jax.random.key(1), members, OUTCOME)
    members, expected = ensemble.expect(members, jnp.asarray(1), jnp.asarray(4))
    return members.column, column, expected, ensemble.predict(members)


@pytest.mark.usefixtures("x64")
def test_an_ensemble_takes_offsets_for_a_factor_like_the_others():
    draws, data = draws_of(9, 3)
    draws = draws._replace(offsets=jnp.asarray([[0.4], [-0.7], [1.1]]))
    run = jax.jit(conditioned)
    chex.assert_trees_all_close(run(draws, data), run(merged(draws), data), atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("make", [greedy, partial(thompson, entry_noise=True)])
def test_policies_take_offsets_for_a_factor_like_the_others(make):
    parameters, data, _ = make_problem(2)
    policy = make(told())
    offer = Offer(None, jnp.ones((data.rows, data.columns), bool), jnp.ones((data.rows, 5)))

    @jax.jit
    def walked(parameters):
        keys = jax.random.split(jax.random.key(0), 5)
        state = policy.init(keys[0], data, offer, parameters)
        state = policy.refit(keys[1], state, data, offer)
        first = policy.choose(keys[2], state, data, offer)
        seen = data.add(first.row, first.column, 0.9, 1.0)
        answer = Outcome(first.row, first.column, jnp.asarray(0.9), jnp.asarray(True))
        state = policy.absorb(keys[3], state, seen, answer, offer)
        second = policy.choose(keys[4], state, seen, offer)
        rows, columns = jnp.asarray([0, 3]), jnp.asarray([1, 4])
        return first, second, policy.predict(keys[0], state, seen, rows, columns, 4)

    own = with_offsets(parameters, 0.8)
    chex.assert_trees_all_close(walked(own), walked(merged(own)), atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_other_units_scale_offsets_too():
    parameters = with_offsets(make_problem(1)[0])
    moved, expected = parameters.in_units(3.0, 0.7), merged(parameters).in_units(3.0, 0.7)
    chex.assert_trees_all_close(merged(moved), expected, atol=1e-12)


def columns_apart(seed, spread):
    """Nothing but intercepts, offsets of columns and noise; half of the entries are seen."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(12, 1)) + spread * rng.normal(size=(1, 60))
    table += 0.3 * rng.normal(size=table.shape)
    return Observations.from_matrix(jnp.asarray(table), rng.random(table.shape) < 0.5)


FITS = {
    "svi": {"method": "svi", "first_steps": 800},
    "hmc": {"method": "mcmc", "first_steps": 300, "hmc": {"draws": 16}},
    "gibbs": {"method": "mcmc", "model": {"loadings": "signed"}, "gibbs": {"first_sweeps": 150}},
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_fit_finds_how_far_columns_lie_apart(fit):
    """The factors are few and free, so what columns share with all rows may lie there in part."""
    model = {"intercepts": True, "intercept_scale": None, "offsets": True} | fit.get("model", {})
    belief = fitted_belief(rank=2, **{**fit, "model": model})
    data = columns_apart(0, 0.8)

    @jax.jit
    def drawn(key):
        keys = jax.random.split(key, 18)
        state = belief.refit(keys[0], belief.init(keys[1], data), data)
        return jax.vmap(belief.draw, in_axes=(0, None))(keys[2:], state)

    draws = drawn(jax.random.key(0))
    w = np.asarray(draws.factors())
    shared = np.einsum("sdk,sek->sde", w, w)[:, ~np.eye(12, dtype=bool)].mean()
    np.testing.assert_allclose(shared, 0.8**2, rtol=0.4)  # a sample of 60: its s.e. is 18 %
    np.testing.assert_allclose(np.mean(draws.sigma), 0.3, rtol=0.2)
    scale = np.mean(draws.intercept_scale)
    np.testing.assert_allclose(scale, 1.0, rtol=0.6)  # of twelve intercepts: s.e. 20 %


def test_offsets_are_drawn_with_the_latents():
    parameters, data, _ = make_problem(2)
    columns, latents = gaussian.sample_columns(jax.random.key(0), with_offsets(parameters), data)
    assert latents.shape == columns.mean.shape == (5, 4)
