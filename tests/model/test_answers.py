"""Answers that depend on the value: formulas against dense float64, and exact conditionals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import assert_gaussian
from scipy import integrate, stats

from smc_jax.model import answers as own
from smc_jax.model.answers import Answering, Answers
from smc_jax.model.parameters import Parameters
from smc_jax.model.response import Asks, Response
from smc_jax.observations import Observations

KEYS = jax.random.split(jax.random.key(5), 20_000)


def answers_of(seed=0, rows=3, columns=4):
    """A draw with two entries that were refused."""
    rng = np.random.default_rng(seed)
    some = Response.start(rows, columns)
    response = some._replace(
        rows=jnp.asarray(rng.normal(size=rows)), columns=jnp.asarray(rng.normal(size=columns))
    )
    refused = np.zeros((columns, rows))
    refused[1, 0] = refused[3, 2] = 1.0
    scalars = (jnp.asarray(x) for x in (0.9, 3.0, 2.0))  # g, centre, scale
    values = jnp.asarray(refused * rng.normal(size=refused.shape))
    return Answers(response, *scalars, values, jnp.asarray(refused))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("slope", [-1.3, 0.0, 0.4, 2.0])
def test_what_is_collected_is_an_integral_over_the_value(slope):
    """P(answer) and E[y; answer], by quadrature; the slope zero is the plain case."""
    for probit, mean, variance in ((0.3, -1.2, 0.7), (-1.0, 2.0, 3.0), (0.5, 0.4, 0.0)):
        asked = Answering(*map(jnp.asarray, (probit, slope, 0.0, 0.0)))
        found = float(asked.chance(mean, variance)), float(asked.collected(mean, variance))

        def answered(y, slope=slope, probit=probit):
            return stats.norm.cdf(probit + slope * y)

        if variance == 0.0:
            expected = answered(mean), mean * answered(mean)
        else:
            density = stats.norm(mean, np.sqrt(variance)).pdf
            bounds = mean - 12.0 * np.sqrt(variance), mean + 12.0 * np.sqrt(variance)
            expected = (
                integrate.quad(lambda y: answered(y) * density(y), *bounds)[0],
                integrate.quad(lambda y: y * answered(y) * density(y), *bounds)[0],
            )
        np.testing.assert_allclose(found, expected, rtol=1e-7)
        if slope == 0.0:
            np.testing.assert_allclose(found[1], mean * found[0], rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_value_that_the_draw_has_is_known():
    asked = Answering(*map(jnp.asarray, (0.2, 0.7, -1.5, 1.0)))
    chance = stats.norm.cdf(0.2 - 0.7 * 1.5)
    np.testing.assert_allclose(asked.chance(4.0, 2.0), chance, rtol=1e-9)
    np.testing.assert_allclose(asked.collected(4.0, 2.0), -1.5 * chance, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_the_slope_has_its_exact_conditional():
    rng = np.random.default_rng(1)
    number = rng.integers(0, 3, (3, 4)).astype(float)
    left, z = rng.normal(size=(2, 3, 4))
    sample = jax.jit(jax.vmap(lambda key: own.sample_slope(key, left, number, z)))
    # One line for each ask: an entry's utilities are worth their sum.
    design = np.repeat(z.ravel(), number.ravel().astype(int))
    precision = 1.0 + design @ design
    mean = (left * z).sum() / precision
    assert_gaussian(sample(KEYS)[:, None], np.array([mean]), np.array([[1.0 / precision]]))


@pytest.mark.usefixtures("x64")
def test_refused_values_have_their_exact_conditional():
    """The dense joint normal of a value and its utilities, conditioned on these."""
    rng, answers = np.random.default_rng(2), answers_of()
    times = np.zeros((3, 4))
    times[0, 1], times[2, 3] = 1.0, 3.0
    mean, noise = rng.normal(size=(3, 4)) + 3.0, rng.uniform(0.5, 1.5, 4)
    sums = times * -rng.uniform(0.1, 1.0, (3, 4))
    asks = Asks(jnp.zeros((3, 4)), jnp.asarray(times))
    drawn = jax.jit(
        jax.vmap(lambda key: own.sample_refused(key, answers, mean, noise, asks, sums))
    )(KEYS)
    for d, n in ((0, 1), (2, 3)):
        r = int(times[d, n])
        effect = float(answers.response.rows[d] + answers.response.columns[n])
        slope, variance = 0.9 / 2.0, noise[n] ** 2
        shared = np.full((r, r), slope**2 * variance) + np.eye(r)
        across = np.full(r, slope * variance)
        expected = effect + slope * (mean[d, n] - 3.0)
        told = np.full(r, sums[d, n] / r)
        centre = mean[d, n] + across @ np.linalg.solve(shared, told - expected)
        spread = variance - across @ np.linalg.solve(shared, across)
        assert_gaussian(drawn[:, d, n, None], np.array([centre]), np.array([[spread]]))


@pytest.mark.usefixtures("x64")
def test_units_and_columns_change_nothing_of_what_is_said():
    answers = answers_of()
    y = np.random.default_rng(3).normal(size=(3, 4))
    said = answers.answering().chance(y, 0.8)
    shown = answers.in_units(jnp.asarray(-2.0), jnp.asarray(3.0))
    np.testing.assert_allclose(shown.answering().chance(3.0 * y - 2.0, 9.0 * 0.8), said, rtol=1e-9)
    by_hand = answers.response.probit() + 0.9 * (y - 3.0) / 2.0
    plain = answers._replace(refused=jnp.zeros((4, 3)))
    np.testing.assert_allclose(plain.answering().chance(y), stats.norm.cdf(by_hand), rtol=1e-9)
    for n in range(4):
        one = answers.answering_of(jnp.asarray(n))
        np.testing.assert_allclose(one.chance(y[:, n], 0.8), said[:, n], rtol=1e-9)
    some = jnp.asarray([3, 1])
    taken = Parameters.plain(jnp.ones((3, 2)), jnp.ones(()))._replace(answers=answers)
    taken = taken.at_columns(some).answers.answering()
    np.testing.assert_allclose(taken.chance(y[:, some], 0.8), said[:, some], rtol=1e-9)


def test_what_was_refused_is_data_until_it_is_seen():
    answers = answers_of()
    values = np.arange(12.0).reshape(3, 4)
    seen = np.ones((3, 4), bool)
    seen[0, 1] = seen[1, 1] = False
    data = Observations.from_matrix(values, seen)
    filled = answers.filled(data)
    np.testing.assert_array_equal(filled.times_seen(), seen | (answers.refused.T > 0))
    expected = np.where(seen, values, answers.values.T)
    np.testing.assert_allclose(filled.average(), expected, rtol=1e-6)


def test_a_sweep_keeps_values_of_what_was_refused_and_never_answered():
    answered, refused = np.zeros((2, 3, 4))
    answered[0], refused[1], refused[0, 2] = 1.0, 2.0, 1.0
    data = Observations.from_matrix(np.ones((3, 4)), answered > 0).with_refusals(refused)
    start = Answers.start(data)
    after = jax.jit(own.sample_answers)(
        jax.random.key(0), start, jnp.zeros((3, 4)), jnp.asarray(0.5), data
    )
    never = np.zeros((3, 4))
    never[1] = 1.0
    np.testing.assert_array_equal(after.refused.T, never)
    np.testing.assert_array_equal(np.asarray(after.values.T) != 0.0, never > 0)


@pytest.mark.parametrize("largest", [0.0, 20.0, 40.0])
def test_one_value_far_from_all_others_does_not_pull_the_slope(largest):
    """A chain given the factors, on a table of the slope 1: its mean is within 0.25.

    The slope of this table has a deviation of 0.08 a posteriori.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 60))
    values[0, 0] = largest
    seen = rng.random(values.shape) < stats.norm.cdf(0.3 + values)
    data = Observations.from_matrix(values, seen).with_refusals(1.0 * ~seen)
    mean, noise = jnp.asarray(0.9 * values, jnp.float32), jnp.asarray(0.4)
    start = Answers.start(data)._replace(centre=jnp.zeros(()), scale=jnp.ones(()))

    @jax.jit
    def chain(key):
        def move(answers, key):
            answers = own.sample_answers(key, answers, mean, noise, data)
            return answers, answers.slope

        return jax.lax.scan(move, start, jax.random.split(key, 600))[1]

    assert seen[0, 0] or not largest
    assert abs(float(chain(jax.random.key(1))[200:].mean()) - 1.0) < 0.25
