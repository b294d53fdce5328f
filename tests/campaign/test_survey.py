"""What is left to find: against the dense joint Gaussian in float64, and Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from engines import COLUMNS, KEY, TOLD, dense, engine_on, matrix_in, open_entries, spread_out
from problems import make_problem, with_column_noise

from smc_jax.beliefs.base import parameter_draws
from smc_jax.campaign import engine, forecast, outlook
from smc_jax.campaign.calibration import Calibrator, Errors
from smc_jax.campaign.matrix import Units
from smc_jax.campaign.snapshot import Fitted
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations


@pytest.mark.usefixtures("x64")
def test_a_survey_has_the_moments_and_the_improvement_of_dense_gaussians(monkeypatch):
    """The moments are those of the entries, the improvement that of offset + factor * entry."""
    parameters, data, looks = make_problem(9)
    parameters = with_column_noise(parameters, COLUMNS)
    belief = spread_out(parameters)
    programs = engine_on(monkeypatch, belief)
    is_open, _ = open_entries(data)
    best, rng = 1.2, np.random.default_rng(0)
    offset, factor = rng.normal(size=is_open.shape), rng.uniform(0.3, 2.0, is_open.shape)
    line = jnp.asarray(offset), jnp.asarray(factor)
    found = programs.survey(KEY, parameters, data, jnp.asarray(is_open), jnp.asarray(best), *line)
    means, variances, excess, noise = [], [], [], []
    draws = parameter_draws(jax.random.split(KEY)[0], belief, parameters, engine.DRAWS)
    for s in range(engine.DRAWS):
        own = jax.tree.map(lambda x, s=s: x[s], draws)
        columns = [dense(own, looks, n) for n in range(COLUMNS)]
        mean = np.stack([one[0] for one in columns], 1)
        variance = np.stack([np.diag(one[1]) for one in columns], 1)
        means.append(mean)
        variances.append(variance)
        sd, above = factor * np.sqrt(variance), offset + factor * mean - best
        z = above / sd
        excess.append(above * scipy.stats.norm.cdf(z) + sd * scipy.stats.norm.pdf(z))
        noise.append(np.mean([one[2] ** 2 for one in columns]))
    np.testing.assert_allclose(found.mean, np.mean(means, 0), rtol=1e-9)
    sd = np.sqrt(np.mean(variances, 0) + np.var(means, 0))
    np.testing.assert_allclose(found.sd, sd, rtol=1e-9)
    np.testing.assert_allclose(found.improvement, np.mean(excess, 0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.noise, np.sqrt(np.mean(noise)), rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("moved", [False, True], ids=["as it is", "moved"])
def test_the_chance_to_beat_the_best_is_that_of_the_joint_gaussian(monkeypatch, moved):
    """2000 draws against 10^5 dense ones, at 4.5 standard errors: fails by chance once in 10^5.

    Where entries are moved by a line, the dense samples are moved too.
    """
    parameters, data, looks = make_problem(9)
    programs = engine_on(monkeypatch, TOLD, draws=2000)
    is_open, _ = open_entries(data)
    best, rng = 2.5, np.random.default_rng(0)
    offset, factor = np.zeros(is_open.shape), np.ones(is_open.shape)
    if moved:
        offset, factor = 0.3 * rng.normal(size=is_open.shape), rng.uniform(0.5, 1.5, is_open.shape)
    line = jnp.asarray(offset), jnp.asarray(factor)
    found = programs.survey(KEY, parameters, data, jnp.asarray(is_open), jnp.asarray(best), *line)
    beaten = np.zeros(100_000, bool)
    for n in range(COLUMNS):
        mean, covariance, _ = dense(parameters, looks, n)
        sample = rng.multivariate_normal(mean, covariance, beaten.size, method="eigh")
        sample = offset[:, n] + factor[:, n] * sample
        beaten |= (sample[:, is_open[:, n]] > best).any(1)
    chance = beaten.mean()
    assert 0.1 < chance < 0.9
    assert abs(found.chance - chance) < 4.5 * np.sqrt(chance * (1 - chance) * (1 / 2000 + 1e-5))


def test_a_survey_far_from_zero_keeps_its_deviations_in_float32(monkeypatch):
    """Means near 60 and deviations of 0.01: a difference of squares would be all rounding."""
    loadings = 0.01 * jnp.ones((3, 1))
    parameters = Parameters.plain(loadings, jnp.asarray(0.01), jnp.asarray([60.0, -60.0, 0.0]))
    programs = engine_on(monkeypatch, TOLD)
    data = Observations.empty(3, 4)
    everything = jnp.ones((3, 4), bool)
    line = jnp.zeros((3, 4)), jnp.ones((3, 4))
    found = programs.survey(KEY, parameters, data, everything, jnp.asarray(0.0), *line)
    np.testing.assert_allclose(found.sd, 0.01, rtol=1e-3)


@pytest.fixture
def fitted(monkeypatch):
    """A fitted model with any errors, on a matrix whose best value is hard to beat."""
    parameters, data, _ = make_problem(9)
    programs, seen = engine_on(monkeypatch, TOLD), np.asarray(data.seen())

    def make(ratio, sign=1.0):
        """Errors (value - mean) / sd that are the same at all predictions, high ones wanted."""
        units = Units(10.0, 2.0, sign)
        matrix = matrix_in(units, data)._replace(best=2.5)
        mean = units.back(np.linspace(-3.0, 3.0, len(ratio)))
        errors = Errors(mean, sign * np.asarray(ratio))
        made = forecast.Forecast(programs, parameters, 0, matrix, errors, KEY)
        return Fitted(made, Calibrator(errors)), ~seen

    return make


# Any forty neighbours are all of these: what forty normal errors are on average, in their order.
LEVELS = (np.arange(40) + 1 - 0.375) / 40.25
NORMAL = np.tile(scipy.stats.norm.ppf(LEVELS), 3)


def outlook_for(made):
    """The chance that an entry left is better, and the highest expected improvement."""
    fitted, left = made
    found = outlook.survey_of(fitted)
    return float(found.chance), float(np.where(left, found.improvement, 0.0).max())


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["max", "min"])
def test_the_outlook_follows_the_errors_as_the_intervals_do(fitted, sign):
    """Wider or narrower errors, and errors on one side, against a model without errors."""
    untold = outlook_for(fitted([], sign))
    as_promised, wider, narrower, above, below = (
        outlook_for(fitted(ratio, sign))
        for ratio in (NORMAL, 2.0 * NORMAL, 0.2 * NORMAL, NORMAL + 1.0, NORMAL - 3.0)
    )
    assert as_promised == pytest.approx(untold, rel=1e-5)
    for better, worse in ((wider, as_promised), (as_promised, narrower), (above, as_promised)):
        assert better[0] >= worse[0] + 0.05
        assert better[1] > worse[1]
    assert below[0] < outlook.UNLIKELY  # the model promises too much: the advice is to stop
    assert outlook._advice(*below, None).startswith("Stop")
    assert outlook._advice(*wider, None).startswith("Go on")


def test_the_outlook_of_low_values_is_that_of_high_ones_mirrored(fitted):
    ratio = np.random.default_rng(1).exponential(size=60) - 0.5
    high, low = (outlook_for(fitted(ratio, sign)) for sign in (1.0, -1.0))
    assert high == pytest.approx(low, rel=1e-5)
