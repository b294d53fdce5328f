"""An ensemble that is conditioned pick by pick against one that is made anew."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import draws_of, make_problem, with_column_noise

from smc_jax.model import gaussian
from smc_jax.policies import ensemble
from smc_jax.types import Outcome

start = jax.jit(ensemble.start)
predict = jax.jit(ensemble.predict)
condition = jax.jit(ensemble.condition)


def outcome_of(row, column, value, answered=True):
    return Outcome(*(jnp.asarray(x) for x in (row, column, value, answered)))


def added(observations, outcome):
    return observations.add(outcome.row, outcome.column, outcome.value, outcome.weight)


@pytest.mark.usefixtures("x64")
def test_condition_equals_restart():
    draws, observations = draws_of(9, 4)
    members = start(jax.random.key(0), draws, observations)
    picks = [(0, 2, 1.3, True), (5, 2, -0.4, True), (1, 4, 2.0, False), (0, 2, 1.1, True)]
    for step, pick in enumerate(picks):
        outcome = outcome_of(*pick)
        before = members
        members, column = condition(jax.random.key(step), members, outcome)
        whole = jax.tree.map(lambda x, n=pick[1]: x[..., n], predict(members))
        chex.assert_trees_all_close(column, whole)
        observations = added(observations, outcome)
        others = np.delete(np.arange(5), pick[1] if pick[3] else [])
        untouched, now = (
            jax.tree.map(lambda x: np.asarray(x)[:, others], e.column) for e in (before, members)
        )
        chex.assert_trees_all_equal(now, untouched)
    again = start(jax.random.key(0), draws, observations)
    chex.assert_trees_all_close(members.column.mean, again.column.mean, atol=1e-11)
    chex.assert_trees_all_close(members.column.covariance, again.column.covariance, atol=1e-11)


@pytest.mark.usefixtures("x64")
def test_conditioning_where_columns_have_a_noise_of_their_own():
    parameters, observations, looks = make_problem(2)
    parameters = with_column_noise(parameters, len(looks))
    draws = jax.tree.map(lambda x: x[None], parameters)
    outcome = outcome_of(3, 2, 0.7)
    members = start(jax.random.key(0), draws, observations)
    members, _ = condition(jax.random.key(1), members, outcome)
    again = start(jax.random.key(0), draws, added(observations, outcome))
    chex.assert_trees_all_close(members.column.mean, again.column.mean, atol=1e-11)
    chex.assert_trees_all_close(ensemble.noise(members)[0], parameters.noise())


@pytest.mark.usefixtures("x64")
def test_prediction_is_entry_moments():
    draws, observations = draws_of(10, 3)
    prediction = predict(start(jax.random.key(1), draws, observations))
    for s in range(3):
        parameters = jax.tree.map(lambda x: x[s], draws)
        columns = jax.jit(gaussian.latent_posterior)(parameters, observations)
        mean, variance = jax.jit(gaussian.entry_moments)(parameters, columns)
        chex.assert_trees_all_close((prediction.mean[s], prediction.variance[s]), (mean, variance))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("column_noise", [False, True])
def test_the_ensemble_of_some_columns_says_of_them_what_the_whole_says(column_noise):
    parameters, observations, looks = make_problem(3)
    if column_noise:
        parameters = with_column_noise(parameters, len(looks))
    draws = jax.tree.map(lambda x: jnp.stack([x, 1.1 * x]), parameters)
    members = start(jax.random.key(0), draws, observations)
    columns = jnp.asarray([4, 1, 4])
    some = ensemble.at_columns(members, columns)
    chex.assert_trees_all_close(
        predict(some), jax.tree.map(lambda x: x[..., columns], predict(members)), rtol=1e-12
    )
    chex.assert_trees_all_equal(ensemble.noise(some), ensemble.noise(members)[:, columns])
