"""How much a forecast is asked for, and which fit is kept beside a campaign."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import COLUMNS, KEY, matrix_in
from problems import make_problem, with_column_noise

from smc_jax.campaign import asking, engine, forecast
from smc_jax.campaign.calibration import Calibrator, Errors
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Choice


def test_the_share_of_the_best_that_an_offer_measures_regret_from(monkeypatch):
    """Half of the open entries have half of the best ones, and never fewer than are asked for."""
    asked = []

    def ask(*arguments):
        asked.append(arguments[8])
        n = arguments[9]
        numbers = np.zeros(n)
        predicted = engine.Predicted(numbers, numbers + 1, np.zeros((2, n)))
        choice = Choice(np.zeros(n, int), np.zeros(n, int))
        return engine.Asked(choice, predicted, numbers, numbers, numbers > 0, 0.0, 0.0)

    programs = engine.Engine("ids", None, ask, None, None)
    shape = (8, 16)
    none = np.zeros(shape, bool)
    matrix = Matrix(Observations.empty(*shape), none, none, none, 0.0, Units(0.0, 1.0, 1.0), False)
    made = forecast.Forecast(programs, None, 0, matrix, Errors(np.zeros(0), np.zeros(0)), KEY)
    calibrator = Calibrator(made.errors)
    offers = [~none, ~none & (np.arange(16) < 8), ~none & (np.arange(16) < 1)]
    for is_open in offers:
        asking.propose(KEY, made, asking.Offered.of(is_open, none.size), 3, 64, calibrator)
    assert asked == [64, 32, 8]


@pytest.mark.parametrize(
    ("number", "steps", "room"),
    [(1, 1, 8), (8, 4, 8), (9, 1, 16), (9, 4, 10), (20, 4, 20), (65, 4, 80), (65, 1, 128)],
)
def test_shapes_are_rounded_up_to_few(number, steps, room):
    assert asking.room_for(number, steps=steps) == room
    assert asking.room_for(number, 7, steps=steps) == 7


def cached(monkeypatch, tmp_path, columns=None):
    """Forecasts whose engine says what noise it was made for, and how often it has fitted."""
    fits = []

    def fake(**settings):
        def fit(key, data, features, history):
            fits.append(settings["fixed_noise"])
            own = Parameters.plain(jnp.zeros((data.rows, settings["rank"])), jnp.ones(()))
            if columns is not None:
                own = own._replace(noise_scales=jnp.ones(data.columns))
            return jax.tree.map(lambda x: x[None], own)

        return engine.Engine("ids", fit, settings["fixed_noise"], None, None)

    monkeypatch.setattr(forecast, "engine", fake)
    monkeypatch.setattr(forecast, "errors_of", lambda *_: Errors(np.zeros(0), np.zeros(0)))
    settings = {"noise": None, "rank": None, "policy": "ids", "seed": 0}

    def made(matrix, refit, **other):
        before = len(fits)
        found = forecast.forecast(
            matrix,
            settings | other,
            position=1,
            cache=tmp_path / "fit.npz",
            identity="lab",
            refit=refit,
            on_fit=lambda done, total: None,
        )
        return found, len(fits) > before

    return made


def test_a_kept_fit_is_of_the_same_data_in_the_same_units(monkeypatch, tmp_path):
    made = cached(monkeypatch, tmp_path)
    data = make_problem(3)[1]
    units = Units(2.0, 1.0, 1.0)
    assert made(matrix_in(units, data), True)[1]
    assert not made(matrix_in(units, data), True)[1]
    # All values corrected to their double: the same data in the model's units.
    again, fitted = made(matrix_in(Units(4.0, 2.0, 1.0), data), True)
    assert fitted
    assert again.matrix.units.scale == 2.0
    # Rows that are columns now are no rows of the fit, though as many.
    assert made(matrix_in(Units(4.0, 2.0, 1.0), data, transposed=True), False)[1]


def test_a_known_noise_is_in_the_units_of_the_kept_fit(monkeypatch, tmp_path):
    made = cached(monkeypatch, tmp_path)
    data = make_problem(3)[1]
    made(matrix_in(Units(0.0, 1.0, 1.0), data), True, noise=0.5)
    kept, fitted = made(matrix_in(Units(0.0, 4.0, 1.0), data), False, noise=0.5)
    assert not fitted
    assert kept.matrix.units.scale == 1.0
    assert kept.engine.ask == 0.25  # what the engine was made for


@pytest.mark.parametrize("noise", ["one for all", "a column"])
def test_columns_that_came_after_the_fit_have_the_usual_noise(noise):
    parameters = make_problem(3)[0]
    if noise == "a column":
        parameters = with_column_noise(parameters, COLUMNS)
    draws = jax.tree.map(lambda x: jnp.stack([x, 2.0 * x]), parameters)
    grown = forecast.with_columns(draws, COLUMNS + 2)
    if noise == "a column":
        np.testing.assert_array_equal(grown.noise_scales[:, COLUMNS:], 1.0)
        grown = grown._replace(noise_scales=grown.noise_scales[:, :COLUMNS])
    chex.assert_trees_all_equal(grown, draws)


def test_a_kept_fit_of_more_columns_is_not_used(monkeypatch, tmp_path):
    """As where a file is replaced by an older copy that has since been told more."""
    made = cached(monkeypatch, tmp_path, columns=COLUMNS)
    data = make_problem(3)[1]
    units = Units(0.0, 1.0, 1.0)
    assert made(matrix_in(units, data), True)[1]
    fewer = data.at_columns(jnp.arange(COLUMNS - 1))
    assert made(matrix_in(units, fewer), False)[1]
    assert not made(matrix_in(units, fewer), False)[1]
