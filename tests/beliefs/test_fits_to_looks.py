"""Beliefs fitted to lists of looks, against the same fits to dense observations."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from listing import COLUMNS, ROWS, listed

from smc_jax.beliefs import minibatch, variational
from smc_jax.beliefs.history import with_history
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.signed_conditionals import NONE, Prior
from smc_jax.beliefs.signed_gibbs import begin, signed_gibbs, sweep
from smc_jax.beliefs.starts import STARTS, leading_component
from smc_jax.beliefs.units import standardised
from smc_jax.looks import Looks
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.informed import informed
from smc_jax.policies.base import predictor

MODEL = gamma_process(
    rank=3, loadings="signed", intercepts=True, offsets=True, common=2.0, noise_spread=0.3
)
ROW_FEATURES = coordinates(np.random.default_rng(3).normal(size=(ROWS, 2)))
COLUMN_FEATURES = coordinates(np.random.default_rng(4).normal(size=(COLUMNS, 2)))
KNOWN = {
    "no features": NONE,
    "both": Features(rows=ROW_FEATURES, columns=COLUMN_FEATURES),
}


def fitted(data, *, steps=20, columns=None, model=MODEL):
    svi = variational.svi(
        model=model, optimiser=variational.adam(), window=5, draws=2, columns=columns
    )
    start = STARTS["random"](model)
    return standardised(variational.variational(model, start, svi, first_steps=steps, steps=steps))


def refitted(belief, data, refits=1):
    state = jax.jit(belief.init)(jax.random.key(0), data)
    refit = jax.jit(belief.refit)
    for index in range(refits):
        state = refit(jax.random.key(index), state, data)
    return state


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("features", KNOWN.values(), ids=KNOWN)
def test_svi_with_all_columns_is_that_of_dense_observations(features):
    belief = fitted(None, model=informed(MODEL, features))
    found, wanted = (refitted(belief, data, 2) for data in listed(groups=4))
    chex.assert_trees_all_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_svi_in_float32_is_that_of_dense_observations_within_rounding():
    found, wanted = (refitted(fitted(data), data) for data in listed(groups=4))
    np.testing.assert_allclose(found.inner.elbo, wanted.inner.elbo, rtol=1e-3)


@pytest.mark.parametrize("columns", [1, 4, 9, COLUMNS])
@pytest.mark.usefixtures("x64")
def test_groups_at_random_leave_the_gradient_unbiased(columns):
    """The average over all places to start from is the whole likelihood, and so are the slopes."""
    looks, dense = listed(groups=5, width=4)
    model = gamma_process(rank=2, loadings="signed", intercepts=True, noise_spread=0.3)
    parameters = model.sample_prior(jax.random.key(3), ROWS, COLUMNS)

    def average(parameters):
        hand = minibatch.ring(jax.random.key(7), looks, columns)
        assert hand.own == {1: 1, 4: 1, 9: 3, COLUMNS: 5}[columns]

        def one(start):
            taken, seen, factor = minibatch.columns_from(start, hand, parameters)
            return factor * model.log_likelihood(taken, seen)

        return jax.vmap(one)(jnp.arange(hand.starts)).mean()

    found = jax.jit(jax.value_and_grad(average))(parameters)
    whole = functools.partial(model.log_likelihood, observations=dense)
    wanted = jax.jit(jax.value_and_grad(whole))(parameters)
    chex.assert_trees_all_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_svi_with_some_groups_climbs_as_far_as_with_all():
    """Means of the ELBO over the last window, of estimates from three groups of five."""
    looks, _ = listed(groups=5, number=400)
    some, every = (refitted(fitted(looks, steps=400, columns=c), looks) for c in (10, None))
    begun = refitted(fitted(looks, steps=5), looks).inner.elbo
    assert some.inner.elbo > begun + 0.7 * (every.inner.elbo - begun)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("features", KNOWN.values(), ids=KNOWN)
def test_a_sweep_is_that_of_dense_observations(features, residual):
    if not residual and features.rows is None:
        pytest.skip("without a residual rows are what their features say")
    prior = Prior.of(MODEL)._replace(residual=residual)
    start, key = STARTS["random"](MODEL), jax.random.key(1)

    def swept(data):
        move = jax.jit(lambda key, state: sweep(key, state, data, prior, features))
        state = begin(key, data, MODEL, start, prior, features)
        for index in range(3):
            state = move(jax.random.fold_in(key, index), state)
        return state

    found, wanted = map(swept, listed(groups=4))
    chex.assert_trees_all_close(found, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("times", [1, 20])
def test_gibbs_sampling_refits_and_predicts(times):
    """Also where the entries that are asked for have more columns than there are looks."""
    looks, dense = listed(groups=4)
    belief = standardised(
        signed_gibbs(MODEL, STARTS["random"](MODEL), draws=4, chains=2, first_sweeps=5, sweeps=2)
    )
    rows, columns = jnp.asarray([0, 3, 3] * times), jnp.asarray([2, 16, 0] * times)
    assert (columns.size * ROWS > looks.slots) == (times > 1)
    found, wanted = (
        predictor(belief)(jax.random.key(1), refitted(belief, data), data, rows, columns, 4)
        for data in (looks, dense)
    )
    chex.assert_trees_all_close(found, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("start", STARTS)
def test_starts(start):
    """The random one is that of dense observations; the others need pairs of rows."""
    begin = STARTS[start](MODEL)
    found, wanted = (jax.jit(begin)(jax.random.key(0), data) for data in listed(groups=4))
    chex.assert_trees_all_equal_shapes(found, wanted)
    chex.assert_tree_all_finite(found)
    if start == "random":
        chex.assert_trees_all_close(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_the_leading_component_of_lists_is_that_of_the_matrix(weight):
    """A matrix of one factor, a third of it seen at random: both find the factor."""
    rng = np.random.default_rng(5)
    w = rng.uniform(0.5, 1.5, 30)
    matrix = np.outer(w, rng.normal(size=200)) + 0.1 * rng.normal(size=(30, 200))
    row, column = np.nonzero(rng.uniform(size=matrix.shape) < 0.3)
    looks = Looks.of(row, column, matrix[row, column], weight, rows=30, columns=200, groups=3)
    for signed in (False, True):
        found, wanted = (
            np.asarray(leading_component(data, jnp.zeros(30), signed=signed))
            for data in (looks, looks.dense())
        )
        angle = found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted)
        assert angle > 0.99
        np.testing.assert_allclose(np.linalg.norm(found), np.linalg.norm(wanted), rtol=0.1)


REFUSED = {
    "pairwise": lambda looks: pairwise().init(jax.random.key(0), looks),
    "particles": lambda looks: particles().init(jax.random.key(0), looks),
    "history": lambda looks: with_history(fitted(None), looks).init(jax.random.key(0), looks),
    "a prediction of entries": lambda looks: STARTS["random"](
        informed(MODEL, Features(entries=np.ones((ROWS, COLUMNS))))
    )(jax.random.key(0), looks),
    "values that were refused": lambda looks: signed_gibbs(
        MODEL, STARTS["random"](MODEL), learn_value_slope=True
    ).init(jax.random.key(0), looks),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_matrix_refuses_lists(name):
    with pytest.raises(ValueError, match=r"dense\(\)|with_refusals"):
        REFUSED[name](listed().looks)
