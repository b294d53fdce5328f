"""What features weigh: the exact conditional of the weights, and chains that stay in the prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import assert_gaussian, low_rank_data
from scipy import stats

from smc_jax.beliefs import starts
from smc_jax.beliefs.feature_weights import Weights, sample_weights
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process

FEATURES = coordinates(np.random.default_rng(0).normal(size=(7, 3)))
SCALE = np.array([0.5, 2.0])


@pytest.mark.usefixtures("x64")
def test_weights_have_their_exact_conditional():
    rng = np.random.default_rng(1)
    left, relevance = rng.normal(size=(7, 2)), 0.7
    given = Weights(jnp.zeros((3, 2)), jnp.asarray(relevance))
    keys = jax.random.split(jax.random.key(0), 20_000)
    sample = jax.vmap(lambda key: sample_weights(key, FEATURES, left, SCALE, given))
    drawn = jax.jit(sample)(keys).weights
    for k in range(2):
        precision = (FEATURES.T @ FEATURES + np.eye(3) / relevance) / SCALE[k] ** 2
        covariance = np.linalg.inv(precision)
        mean = covariance @ FEATURES.T @ left[:, k] / SCALE[k] ** 2
        assert_gaussian(drawn[:, :, k], mean, covariance)


def half_cauchy_square(key):
    numerator, denominator = jax.random.normal(key, (2,))
    return (numerator / denominator) ** 2


def test_weights_and_their_variance_stay_in_the_prior():
    """Geweke (2004): from draws of the prior and data of these, five steps stay in the prior.

    Three Kolmogorov-Smirnov tests at 0.0005.
    """

    @jax.jit
    @jax.vmap
    def after(key):
        relevance_key, weight_key, noise_key, step_key = jax.random.split(key, 4)
        relevance = half_cauchy_square(relevance_key)
        deviation = jnp.sqrt(relevance) * SCALE
        weights = deviation * jax.random.normal(weight_key, (3, 2))
        left = FEATURES @ weights + SCALE * jax.random.normal(noise_key, (7, 2))
        begun = Weights(weights, relevance)

        def step(given, key):
            return sample_weights(key, FEATURES, left, jnp.asarray(SCALE), given), None

        return jax.lax.scan(step, begun, jax.random.split(step_key, 5))[0], begun

    end, _ = after(jax.random.split(jax.random.key(1), 4000))
    _, fresh = after(jax.random.split(jax.random.key(2), 4000))
    for read in (
        lambda w: jnp.log(w.relevance),
        lambda w: jnp.arctan(w.weights[:, 0, 1]),
        lambda w: jnp.log(jnp.abs(w.weights[:, 2, 0])),
    ):
        assert stats.ks_2samp(*(np.asarray(read(w)) for w in (end, fresh))).pvalue > 5e-4


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_features_of_another_number_of_lines_are_refused(side):
    data = low_rank_data(0, rows=5, columns=6, rank=1)
    model = gamma_process(rank=2, loadings="signed")
    belief = signed_gibbs(model, starts.spectral(model), Features(**{side: FEATURES}))
    with pytest.raises(ValueError, match=rf"^features.{side}: 7 lines, but the data have . {side}"):
        belief.init(jax.random.key(0), data)


def test_features_that_are_not_orthogonal_are_refused():
    data = low_rank_data(0, rows=7, columns=6, rank=1)
    model = gamma_process(rank=2, loadings="signed")
    raw = np.random.default_rng(0).normal(size=(7, 3))
    belief = signed_gibbs(model, starts.spectral(model), Features(rows=raw))
    with pytest.raises(ValueError, match=r"^features.rows: its columns must be orthogonal"):
        belief.init(jax.random.key(0), data)
