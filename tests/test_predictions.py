"""What a policy predicts against the dense joint Gaussian, and quantiles against scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from problems import dense_entries, in_column, make_problem, with_column_noise

from smc_jax.beliefs.told import told
from smc_jax.policies.equalised import equalised
from smc_jax.policies.greedy import greedy
from smc_jax.predictions import mixture_quantiles, predict
from smc_jax.types import Offer

ROWS, COLUMNS = np.array([0, 3, 5, 5, 2]), np.array([0, 1, 2, 4, 4])
LEVELS = (0.05, 0.5, 0.9)


def predicted(policy, parameters, data, **settings):
    offer = Offer(None, jnp.ones((data.rows, data.columns), bool), jnp.ones((6, 5)))
    state = policy.init(jax.random.key(0), data, offer, parameters)
    state = policy.refit(jax.random.key(1), state, data, offer)
    return predict(
        jax.random.key(2), policy, state, data, ROWS, COLUMNS, draws=3, quantiles=LEVELS, **settings
    )


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("column_noise", [False, True])
@pytest.mark.usefixtures("x64")
def test_predictions_are_the_posterior_of_the_entries(noise, column_noise):
    """Under parameters that are known."""
    parameters, data, looks = make_problem(0)
    if column_noise:
        parameters = with_column_noise(parameters, len(looks))
    found = predicted(greedy(told(), draws=2), parameters, data, noise=noise)
    for i, (row, n) in enumerate(zip(ROWS, COLUMNS, strict=True)):
        alone = in_column(parameters, n) if column_noise else parameters
        mean, covariance = dense_entries(alone, *looks[n])
        variance = covariance[row, row] + (noise * float(alone.sigma)) ** 2
        np.testing.assert_allclose(found.mean[i], mean[row], rtol=1e-10)
        np.testing.assert_allclose(found.sd[i], np.sqrt(variance), rtol=1e-8)
        quantiles = scipy.stats.norm(mean[row], np.sqrt(variance)).ppf(LEVELS)
        np.testing.assert_allclose(found.quantiles[:, i], quantiles, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_predictions_of_an_equalised_policy_are_in_the_units_of_the_data():
    """A column whose values all rise by ten is predicted higher by about as much."""
    parameters, data, _ = make_problem(0)
    policy = equalised(greedy(told(), draws=2), strength=1e-6)
    raised = data.relative_to(-10.0 * (jnp.arange(5) == 1))
    before, after = (predicted(policy, parameters, each) for each in (data, raised))
    np.testing.assert_allclose(after.mean[1] - before.mean[1], 10.0, atol=2.5)


@pytest.mark.usefixtures("x64")
def test_quantiles_of_a_mixture():
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(scale=3.0, size=(4, 6)), rng.uniform(0.1, 2.0, (4, 6))
    scale[:, 0] = 1e-9  # draws that are sure, and differ
    levels = np.array([0.01, 0.3, 0.5, 0.99])
    found = np.asarray(mixture_quantiles(*map(jnp.asarray, (mean, scale, levels))))
    for i, level in enumerate(levels):
        for m in range(6):

            def below(value, m=m, level=level):
                return scipy.stats.norm(mean[:, m], scale[:, m]).cdf(value).mean() - level

            reach = np.abs(mean[:, m]).max() + 10 * scale[:, m].max()
            expected = scipy.optimize.brentq(below, -reach, reach, xtol=1e-12)
            if m or level != 0.5:  # between two sure draws any value is the median
                np.testing.assert_allclose(found[i, m], expected, atol=1e-8)
