"""Who answers: conditional distributions, and probabilities that are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from smc_jax.model import response
from smc_jax.model.response import Asks, Response
from smc_jax.observations import Observations


@pytest.mark.parametrize("mean", [-40.0, -15.0, -6.0, -0.5, 2.0, 15.0, 40.0])
def test_utilities_are_truncated_normals(mean):
    """Kolmogorov-Smirnov at 0.001 for each of two: fails for 0.2 % of the seeds."""
    shape = (40, 50)
    for asks, bounds in (
        (Asks(jnp.ones(shape), jnp.zeros(shape)), (-mean, np.inf)),
        (Asks(jnp.zeros(shape), jnp.ones(shape)), (-np.inf, -mean)),
    ):
        drawn = response.sample_utilities(jax.random.key(1), jnp.full(shape, mean), asks)
        reference = stats.truncnorm(*bounds, loc=mean)
        assert stats.kstest(np.asarray(drawn, float).ravel(), reference.cdf).pvalue > 1e-3


@pytest.mark.parametrize("mean", [-20.0, -6.0, 0.3, 3.0])
@pytest.mark.parametrize("number", [5.0, 20.0, 21.0, 1000.0])
def test_sums_of_utilities_have_their_mean_and_variance(mean, number):
    """|z| < 4.5 for each of two over 4000 sums; entries asked once beside them are as ever.

    Excess kurtosis is 6 / number at most. Two tests at 1e-5, and Kolmogorov-Smirnov at 1e-4. Sums
    are skewed to the right by 2 / sqrt(number) at most, and by a half of the truth at least.
    """
    shape = (41, 100)
    numbers = jnp.full(shape, number).at[-1].set(1.0)
    drawn = response.sum_of_positive(jax.random.key(3), jnp.full(shape, mean), numbers)
    reference = stats.truncnorm(-mean, np.inf, loc=mean)
    sums, once = np.asarray(drawn, float)[:-1].ravel(), np.asarray(drawn, float)[-1]
    spread = np.sqrt(number * reference.var())
    error = abs(sums.mean() - number * reference.mean())
    assert error < 4.5 * spread / np.sqrt(sums.size)
    of_variance = np.sqrt((2.0 + 6.0 / number) / sums.size)
    assert abs(sums.var() / spread**2 - 1.0) < 4.5 * of_variance
    skewness = float(reference.stats("s")) / np.sqrt(number)
    assert 0.5 * skewness - 0.2 < stats.skew(sums) < 2.0 / np.sqrt(number) + 0.2
    assert stats.kstest(once, reference.cdf).pvalue > 1e-4


def test_utilities_are_drawn_in_few_rounds_however_often_an_entry_is_asked(monkeypatch):
    """The rounds of the loops, counted: as many as the asks of either kind, twenty at most."""
    rounds = []

    def counted(key, mean):
        jax.debug.callback(lambda: rounds.append(1))
        return jnp.ones_like(mean)

    monkeypatch.setattr(response, "_positive", counted)
    asks = Asks(jnp.zeros((2, 3)).at[0, 0].set(3.0), jnp.zeros((2, 3)).at[1, 1].set(1000.0))
    response.sample_utilities(jax.random.key(0), jnp.zeros((2, 3)), asks)
    jax.effects_barrier()
    assert len(rounds) == 3 + response.SUMMED


def dense_effects(asks, utilities, given):
    """Mean and covariance of (level, c, a) given utilities, as one linear regression."""
    rows, columns = utilities.shape
    number = asks.answered + asks.refused
    size = 1 + rows + columns
    precision, weighted = np.zeros((size, size)), np.zeros(size)
    for d in range(rows):
        for n in range(columns):
            x = np.zeros(size)
            x[1 + d] = x[1 + rows + n] = 1.0
            precision += number[d, n] * np.outer(x, x)
            weighted += utilities[d, n] * x
    prior = np.zeros((size, size))
    prior[0, 0] = 1.0 + columns / given.column_variance
    for n in range(columns):
        at = 1 + rows + n
        prior[at, at] = 1.0 / given.column_variance
        prior[0, at] = prior[at, 0] = -1.0 / given.column_variance
    prior[range(1, 1 + rows), range(1, 1 + rows)] = 1.0 / given.row_variance
    covariance = np.linalg.inv(precision + prior)
    return covariance @ weighted, covariance


@pytest.mark.usefixtures("x64")
def test_effects_have_the_posterior_of_one_regression():
    """A long chain with the utilities held: |z| < 5 for each of seven means and deviations.

    Autocorrelation is allowed for by a twentieth of the draws; fails by chance below 1e-4.
    """
    rng = np.random.default_rng(0)
    asks = Asks(*(rng.integers(0, 3, (3, 3)).astype(float) for _ in range(2)))
    utilities = 2.0 * rng.normal(size=(3, 3))
    start = Response.start(3, 3)._replace(
        row_variance=jnp.asarray(0.5), column_variance=jnp.asarray(0.8)
    )

    @jax.jit
    def chain(key):
        def move(state, key):
            state = response.sample_effects(key, state, asks, utilities)
            return state, jnp.concatenate([state.level[None], state.rows, state.columns])

        return jax.lax.scan(move, start, jax.random.split(key, 40_000))[1]

    drawn = np.asarray(chain(jax.random.key(2)))[100:]
    mean, covariance = dense_effects(asks, utilities, start)
    scale, number = np.sqrt(np.diag(covariance)), len(drawn) / 20
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 5.0 * scale / np.sqrt(number))
    ratio = drawn.var(0) / np.diag(covariance)
    np.testing.assert_array_less(np.abs(ratio - 1.0), 5.0 * np.sqrt(2.0 / number))


def simulated(seed, *, rows=20, columns=60, share=0.4):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.3, 0.9, columns)
    probit = stats.norm.ppf(rates) + 0.4 * rng.normal(size=(rows, 1))
    asked = rng.random((rows, columns)) < share
    answered = asked & (rng.random((rows, columns)) < stats.norm.cdf(probit))
    data = Observations.from_matrix(np.zeros((rows, columns)), answered)
    return data.with_refusals(asked & ~answered), stats.norm.cdf(probit)


def test_probabilities_are_calibrated():
    """In five bins of what was said, the truth is on average within 0.05 of it, over six tables.

    A bin has some hundred entries of users whose rates err alike; 0.05 is three standard errors.
    """
    settings = {"draws": 16, "sweeps": 2, "first": 100}

    @jax.jit
    def fit(key, asks):
        start = Response.start(20, 60)
        draws = response.sample_response(key, start, asks, **settings)
        return response.mean_chance(draws, jnp.zeros((16, 60)))

    said, true = [], []
    for seed in range(6):
        data, chance = simulated(seed)
        said.append(np.asarray(fit(jax.random.key(seed), Asks.of(data))).ravel())
        true.append(chance.ravel())
    said, true = np.concatenate(said), np.concatenate(true)
    assert np.corrcoef(said, true)[0, 1] > 0.6
    for part in np.array_split(np.argsort(said), 5):
        assert abs(said[part].mean() - true[part].mean()) < 0.05
