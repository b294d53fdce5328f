"""Intervals from earlier errors: what they cover, where they come from, and in which units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from smc_jax.campaign import asking
from smc_jax.campaign.calibration import (
    CHECKED,
    FEWEST,
    FOLDS,
    MANY,
    NEIGHBOURS,
    RECENT,
    Calibrator,
    Errors,
    errors_of,
    folds_of,
)
from smc_jax.campaign.engine import Engine
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.campaign.types import Calibration
from smc_jax.observations import Observations
from smc_jax.predictions import Predicted

KEY = jax.random.key(3)


@pytest.mark.parametrize("number", [20, 27, 40, 90])
def test_of_exchangeable_errors_nine_in_ten_and_more_are_covered(number):
    """Skewed errors, whatever the prediction: the number covered is binomial.

    Of n errors each side leaves out floor(0.05 (n + 1)) / (n + 1) at most. 4000 trials, at 4.5
    standard errors on both sides: each number fails by chance once in 10^5.
    """
    rng, trials = np.random.default_rng(number), 4000
    covered = np.zeros(trials, bool)
    for i in range(trials):
        mean = rng.normal(size=number + 1)
        ratio = rng.exponential(size=number + 1) ** 1.5 - 1.0
        sd = np.array([2.0])
        found = Calibrator(Errors(mean[1:], ratio[1:]))
        low, high = found.interval(mean[:1], sd, mean[:1], mean[:1])
        covered[i] = (low <= mean[0] + ratio[0] * sd) & (mean[0] + ratio[0] * sd <= high)
    near = min(number, NEIGHBOURS)
    promised = 1.0 - 2.0 * (0.05 * (near + 1) // 1) / (near + 1)
    assert promised >= 0.9
    assert abs(covered.mean() - promised) < 4.5 * np.sqrt(0.09 / trials)


def test_an_interval_comes_from_the_errors_of_like_predictions():
    """Errors grow with what is predicted: a high prediction has a wide interval, above it."""
    rng = np.random.default_rng(0)
    mean = np.repeat([0.0, 10.0], 50) + rng.normal(size=100)
    ratio = np.where(mean > 5.0, 3.0 + 2.0 * rng.normal(size=100), 0.5 * rng.normal(size=100))
    calibrator = Calibrator(Errors(mean, ratio))
    at, sd = np.array([0.0, 10.0]), np.array([1.0, 1.0])
    low, high = calibrator.interval(at, sd, at - 9, at + 9)
    for i, own in enumerate((ratio[mean < 5.0], ratio[mean > 5.0])):
        place = np.abs(mean[(mean > 5.0) == bool(i)] - at[i])
        near = np.sort(own[np.argsort(place)[:NEIGHBOURS]])
        np.testing.assert_allclose([low[i], high[i]], at[i] + near[[1, -2]])
    assert high[1] - low[1] > 2.0 * (high[0] - low[0])
    wider = calibrator.interval(at, 3.0 * sd, at, at)
    np.testing.assert_allclose(wider[1] - at, 3.0 * (high - at))


@pytest.mark.parametrize("number", [20, 40, 41, 300])
def test_the_nearest_errors_are_those_of_a_sort_by_distance(number):
    rng = np.random.default_rng(number)
    errors = Errors(rng.normal(size=number).round(1), rng.normal(size=number))
    errors = errors._replace(mean=errors.mean + 1e-6 * rng.normal(size=number))  # without ties
    at = rng.normal(size=(30, 2), scale=2.0)
    low, high = Calibrator(errors).interval(at, np.ones_like(at), at, at)
    for place in np.ndindex(at.shape):
        near = np.argsort(np.abs(errors.mean - at[place]))[:NEIGHBOURS]
        ratio = np.sort(errors.ratio[near])
        outside = int(0.05 * (ratio.size + 1))
        ends = at[place] + ratio[[outside - 1, ratio.size - outside]]
        np.testing.assert_allclose([low[place], high[place]], ends)


def test_the_line_of_an_entry_has_the_width_and_the_mean_of_the_errors_beside_it():
    rng = np.random.default_rng(5)
    calibrator = Calibrator(Errors(rng.normal(size=80), rng.exponential(size=80) - 0.3))
    mean, sd = rng.normal(size=9), rng.uniform(0.5, 2.0, 9)
    offset, factor = calibrator.line(mean, sd)
    low, high = calibrator.interval(mean, sd, mean, mean)
    expected = norm.ppf(1.625 / 40.25)  # of the second lowest of forty
    np.testing.assert_allclose(factor, (high - low) / (-2.0 * expected * sd))
    for i in range(9):
        near = np.argsort(np.abs(calibrator.errors.mean - mean[i]))[:NEIGHBOURS]
        ratio = calibrator.errors.ratio[near]
        bias = ratio.mean() * max(0.0, 1.0 - ratio.var(ddof=1) / (40 * ratio.mean() ** 2))
        assert bias > 0.3
        np.testing.assert_allclose(offset[i] + factor[i] * mean[i], mean[i] + bias * sd[i])
    unmoved = Calibrator(Errors(np.zeros(3), np.zeros(3))).line(mean, sd)
    np.testing.assert_array_equal(unmoved, [np.zeros(9), np.ones(9)])
    alike = Calibrator(Errors(np.zeros(FEWEST), np.zeros(FEWEST))).line(mean, sd)
    np.testing.assert_allclose(alike, [mean, np.zeros(9)])  # nothing was ever wrong


@pytest.mark.parametrize("number", [20, 38, 39, 40, 90])
def test_the_factor_of_a_calibrated_model_is_one_on_average(number):
    """Of 3000 sampled sets, within 0.02.

    One set varies by 0.2 at most and Blom's approximation errs by 0.005: 4 standard errors remain.
    """
    rng, at = np.random.default_rng(number), np.zeros(1)
    mean = np.linspace(-1.0, 1.0, number)
    factors = [
        Calibrator(Errors(mean, rng.normal(size=number))).line(at, at + 1.0)[1] for _ in range(3000)
    ]
    assert np.mean(factors) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("noise", ["normal", "exponential"])
def test_noise_is_not_taken_for_a_bias_of_the_entries(noise):
    """Twenty entries N(best - 0.3, 0.1), noise of 1 and a model that is right about all of it.

    One of them beats the best with probability 2.7 %. Of 1000 sampled sets of errors the median
    chance is within 2.3 % of it, so that the advice is mostly to stop, and the mean below 15 %
    (12 % and 10 % are expected, with a standard error of 0.8 %): now and then the noise of forty
    errors is a bias that counts. The midpoint of the interval made them 35 % and 90 %.
    """
    rng, top, number = np.random.default_rng(0), np.full(20, -0.3), 200
    sd, entry_sd = np.hypot(0.1, 1.0), 0.1
    chances = []
    for _ in range(1000):
        measured = (
            rng.normal(size=number) if noise == "normal" else rng.exponential(size=number) - 1.0
        )
        ratio = (entry_sd * rng.normal(size=number) + measured) / sd
        calibrator = Calibrator(Errors(rng.normal(size=number), ratio))
        offset, factor = calibrator.line(top, np.full(20, sd))
        above = (offset + factor * top) / (factor * entry_sd)
        chances.append(1.0 - np.prod(norm.cdf(-above)))
    assert np.median(chances) == pytest.approx(0.027, abs=0.023)
    assert np.mean(chances) < 0.15


def test_a_bias_that_the_noise_cannot_explain_moves_the_entries():
    """Errors of half a deviation too much: moved by 0.445 of it on average, within 0.02.

    Shrinking takes 1 / (40 0.5) from it, and a little more as it does so by the error found; 3000
    sets have a standard error of 0.004.
    """
    rng, at = np.random.default_rng(1), np.zeros(1)
    mean = np.linspace(-1.0, 1.0, 40)
    moved = [
        Calibrator(Errors(mean, 0.5 + rng.normal(size=40))).line(at, at + 1.0)[0]
        for _ in range(3000)
    ]
    assert np.mean(moved) == pytest.approx(0.445, abs=0.02)


def test_of_too_few_errors_nothing_is_said():
    few = Calibrator(Errors(np.zeros(FEWEST - 1), np.zeros(FEWEST - 1)))
    enough = Calibrator(Errors(np.zeros(FEWEST), np.arange(FEWEST, dtype=float)))
    mean, sd, low, high = (np.array([x]) for x in (1.0, 2.0, -5.0, 7.0))
    assert few.interval(mean, sd, low, high) == (low, high)
    assert enough.interval(mean, sd, low, high) == (mean, mean + 2.0 * (FEWEST - 1))


def test_suggestions_that_were_answered_count_too_and_the_latest_of_them():
    number = RECENT + 30
    mean, value = np.arange(number, dtype=float), np.arange(number) * 3.0
    told = Calibration(mean, np.full(number, 2.0), mean, mean, value)
    errors = Calibrator.of(Errors(np.array([-1.0]), np.array([0.25])), told).errors
    np.testing.assert_array_equal(errors.mean, [-1.0, *mean[30:]])
    np.testing.assert_allclose(errors.ratio, [0.25, *mean[30:]])


def matrix_with(values, known, *, sign=1.0, data=None):
    data = Observations.from_matrix(jnp.asarray(values), known) if data is None else data
    none = np.zeros(known.shape, bool)
    return Matrix(data, known, none, none, 0.0, Units(100.0, 5.0, sign), False)


def constant_engine(shown):
    """An engine that predicts 0.5 +- 2 everywhere, and keeps what it was fitted to."""

    def fit(key, data, features, history):
        shown.append(np.asarray(data.seen()))
        return data.number()

    def predict(key, fit, data, rows, columns):
        assert fit == data.number()
        assert not data.seen()[rows, columns].any()  # what is asked for was hidden
        assert rows.size in (CHECKED, CHECKED // 8)
        return Predicted(jnp.full(rows.shape, 0.5), jnp.full(rows.shape, 2.0), None)

    return Engine("ids", fit, None, predict, None)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["max", "min"])
def test_errors_are_those_of_every_known_entry_where_it_was_hidden(sign):
    """In the units of the campaign: 100 + sign 5 v."""
    rng = np.random.default_rng(1)
    known = rng.random((6, 9)) < 0.6
    values = rng.normal(size=known.shape)
    shown, done = [], []
    matrix = matrix_with(values, known, sign=sign)
    errors = errors_of(KEY, constant_engine(shown), matrix, done.append)
    assert done == [1, 2, 3, 4, 5]
    assert folds_of(matrix) == len(shown) == FOLDS
    hidden = np.sum([known & ~one for one in shown], 0)
    np.testing.assert_array_equal(hidden, known)  # each once
    np.testing.assert_allclose(errors.mean, 100.0 + sign * 5.0 * 0.5)
    told = 100.0 + sign * 5.0 * values[known]
    expected = (told - (100.0 + sign * 2.5)) / (5.0 * 2.0)
    np.testing.assert_allclose(np.sort(errors.ratio), np.sort(expected), rtol=1e-4, atol=1e-5)


def test_the_number_of_fits_follows_the_number_of_known_entries():
    for known, folds in ((FEWEST - 1, 0), (FEWEST, FOLDS), (MANY - 1, FOLDS), (MANY, 1)):
        mask = np.arange(200 * 200).reshape(200, 200) < known
        assert folds_of(matrix_with(np.zeros(mask.shape), mask)) == folds
    nothing = errors_of(
        KEY, constant_engine([]), matrix_with(np.zeros((2, 2)), np.eye(2) > 0), None
    )
    assert nothing.mean.size == nothing.ratio.size == 0


def test_of_many_entries_one_fold_is_checked():
    shown = []
    mask = np.ones((200, 200), bool)
    errors = errors_of(KEY, constant_engine(shown), matrix_with(np.zeros(mask.shape), mask), len_of)
    assert errors.mean.size == CHECKED
    assert [int((~one).sum()) for one in shown] == [CHECKED]


def len_of(fold):
    assert fold == 1


def test_an_entry_measured_again_and_again_errs_as_one_measurement_does():
    """Averages of 9 vary a third as much as what an interval is for: the next measurement.

    2500 entries: their standard deviation is that of one measurement to within 5 standard errors
    (7 %), were they averages it would be 65 % short.
    """
    rng = np.random.default_rng(2)
    shape, repeats = (50, 50), 9
    each = rng.normal(size=(repeats, *shape))
    data = Observations(
        *(
            jnp.asarray(x)
            for x in (np.full(shape, 1.0 * repeats), each.sum(0), repeats * each.var(0))
        )
    )
    matrix = matrix_with(None, np.ones(shape, bool), data=data)
    errors = errors_of(KEY, constant_engine([]), matrix, lambda fold: None)
    assert errors.ratio.size == 2500
    np.testing.assert_allclose((2.0 * errors.ratio).std(), 1.0, rtol=0.07)
    np.testing.assert_allclose((2.0 * errors.ratio).mean(), -0.5, atol=0.1)


def test_to_minimise_mirrors_every_interval():
    """The same model, and the mirrored errors: the ends change places."""
    rng = np.random.default_rng(4)
    known = np.ones((5, 6), bool)
    predicted = Predicted(
        np.array([0.3, -1.0]), np.array([1.0, 2.0]), np.array([[-1.0, -3.0], [2.0, 4.0]])
    )
    mean, ratio = rng.normal(size=30), rng.exponential(size=30)
    found = {}
    for sign in (1.0, -1.0):
        matrix = matrix_with(np.zeros(known.shape), known, sign=sign)
        made = Forecast(None, None, 0, matrix, None, KEY)
        errors = Errors(matrix.units.back(mean), sign * ratio)
        for kind, own in (("own", Errors(np.zeros(0), np.zeros(0))), ("checked", errors)):
            found[kind, sign] = asking.in_campaign_units(predicted, made, Calibrator(own))
    for kind in ("own", "checked"):
        up, down = found[kind, 1.0], found[kind, -1.0]
        np.testing.assert_allclose(up[0] - 100.0, -(down[0] - 100.0))
        np.testing.assert_allclose(up[1], down[1])
        np.testing.assert_allclose(up[2] - 100.0, -(down[3] - 100.0))
        np.testing.assert_allclose(up[3] - 100.0, -(down[2] - 100.0))
        assert (down[2] < down[3]).all()
    np.testing.assert_allclose(found["own", -1.0][2], [100.0 - 10.0, 100.0 - 20.0])
