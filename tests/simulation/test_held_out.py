"""Scores of predictions, and one fit to a part of a matrix."""

import numpy as np
import pytest
import scipy.stats

from smc_jax import presets
from smc_jax.data.recorded import recorded
from smc_jax.predictions import score
from smc_jax.simulation.held_out import single_fit


def test_error_and_density_of_predictions():
    rng = np.random.default_rng(0)
    entries, exists = 5 * rng.normal(size=(4, 6)), rng.random((4, 6)) < 0.8
    hidden = exists & (rng.random((4, 6)) < 0.5)
    means, deviations = entries + rng.normal(size=(3, 4, 6)), rng.uniform(0.5, 2, (3, 4, 6))
    error, density = score(entries, exists, hidden, means, deviations)
    unit = entries[exists].std()
    scaled = scipy.stats.norm(means / unit, deviations / unit).pdf(entries / unit)
    np.testing.assert_allclose(density, np.log(scaled.mean(0))[hidden].mean(), rtol=1e-4)
    squares = ((means.mean(0) - entries)[hidden] / unit) ** 2
    np.testing.assert_allclose(error, np.sqrt(squares.mean()), rtol=1e-5)


def test_what_is_held_out_is_predicted_better_the_more_is_seen():
    """Made-up ratings of one factor and unit noise."""
    rng = np.random.default_rng(0)
    values = 3.0 + 2.0 * np.outer(rng.normal(size=100), rng.normal(size=12))
    values += rng.normal(size=12)
    values += rng.normal(size=values.shape)
    data = recorded(values, np.ones(values.shape, bool), columns=10)
    belief = presets.ratings(rank=2, first_steps=600).belief()
    fit = single_fit(data, belief, 0.6)(np.uint32(1000))
    assert 0.9 / values.std() < fit.error < 1.5 / values.std()
    blind = single_fit(data, belief, 0.02)(np.uint32(1000))
    assert blind.error > 1.5 * fit.error
    assert blind.density < fit.density


@pytest.mark.parametrize(("setting", "value"), [("seen", 1.0), ("seen", 0.0), ("draws", 0)])
def test_settings_that_cannot_be_used_are_named(setting, value):
    settings = {"seen": 0.5} | {setting: value}
    with pytest.raises(ValueError, match=f"^{setting}: "):
        single_fit(None, presets.paper().belief(), **settings)
