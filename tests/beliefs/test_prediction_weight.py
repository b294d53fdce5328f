"""A prediction from elsewhere: what it weighs, and that everybody who predicts adds it."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gradient_by_differences, make_problem, with_column_noise, with_latent_means
from scipy import stats

from smc_jax import presets
from smc_jax.beliefs.base import parameter_draws
from smc_jax.beliefs.history import History
from smc_jax.beliefs.prediction_weight import sample_prediction_weight
from smc_jax.beliefs.told import told
from smc_jax.model import gaussian
from smc_jax.model.features import Features, entry_prediction
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.base import predictor
from smc_jax.types import Outcome

A = 0.8


def predicted_problem(seed):
    """Parameters with a prediction, and without it; data with it, and without; the looks."""
    plain, left, looks = make_problem(seed)
    plain = with_latent_means(with_column_noise(plain, len(looks)), len(looks))
    q = jnp.asarray(np.random.default_rng(seed).normal(size=(left.rows, left.columns)))
    known = plain._replace(prediction_weight=jnp.asarray(A), prediction=q.T)
    return known, plain, left.relative_to(-A * q), left, looks


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("temper", [1.0, 0.3])
def test_the_weight_has_its_exact_conditional(temper):
    """Chains of the weight end in its posterior, from the dense covariances and its Cauchy prior.

    A tempered observation is one of more noise. A Kolmogorov-Smirnov test of 4000 ends at 0.0005.
    """
    known, plain, data, _, looks = predicted_problem(3)
    data = data.tempered(temper)
    precision = mean = 0.0
    for n, (seen, values) in enumerate(looks):
        w, q = np.asarray(plain.loadings)[seen], np.asarray(known.prediction)[n, seen]
        covariance = w @ w.T + float(plain.noise_at(n)) ** 2 / temper * np.eye(len(seen))
        expected = np.asarray(plain.intercepts)[seen] + w @ np.asarray(plain.latent_means)[n]
        solved = np.linalg.solve(covariance, q)
        precision, mean = precision + solved @ q, mean + solved @ (values + A * q - expected)
    grid = np.linspace(-3.0, 4.0, 20_001)
    density = stats.norm.pdf(grid, mean / precision, precision**-0.5) * stats.cauchy.pdf(grid)
    cumulative = np.cumsum(density) / density.sum()

    @jax.jit
    @jax.vmap
    def end(key):
        def move(given, key):
            return sample_prediction_weight(key, given, data), None

        return jax.lax.scan(move, known, jax.random.split(key, 20))[0].prediction_weight

    drawn = np.asarray(end(jax.random.split(jax.random.key(0), 4000)))
    uniform = np.interp(drawn, grid, cumulative)
    assert stats.kstest(uniform, "uniform").pvalue > 5e-4


@pytest.mark.usefixtures("x64")
def test_likelihood_and_gradient_are_those_of_what_is_left():
    known, plain, data, left, _ = predicted_problem(2)

    def likelihood(p, data):
        given = p.loadings, p.intercepts, p.noise() ** 2
        return gaussian.log_likelihood(
            *given, data, p.latent_means, p.prediction_weight, p.prediction
        )

    np.testing.assert_allclose(likelihood(known, data), likelihood(plain, left), rtol=1e-12)

    def moved(arguments):
        loadings, weight = arguments
        return likelihood(known._replace(loadings=loadings, prediction_weight=weight), data)

    arguments = known.loadings, known.prediction_weight
    chex.assert_trees_all_close(
        jax.grad(moved)(arguments), gradient_by_differences(moved, arguments), rtol=1e-6
    )


@pytest.mark.usefixtures("x64")
def test_all_predictions_are_those_of_what_is_left_and_the_prediction_added():
    known, plain, data, left, _ = predicted_problem(1)
    q, key = known.prediction.T, jax.random.key(0)
    draws = [jax.tree.map(lambda x: jnp.stack([x, x]), one) for one in (known, plain)]
    with_it, without = (
        ensemble.start(key, one, seen) for one, seen in zip(draws, (data, left), strict=True)
    )
    value = 0.7

    def learned(members, value):
        outcome = Outcome(jnp.asarray(2), jnp.asarray(3), jnp.asarray(value), jnp.asarray(True))
        return ensemble.condition(key, members, outcome)

    with_it, column = learned(with_it, value)
    without, of_rest = learned(without, value - A * q[2, 3])
    for ours, rest, added in (
        (column, of_rest, q[:, 3]),
        (ensemble.predict_column(with_it, 3), ensemble.predict_column(without, 3), q[:, 3]),
        (ensemble.predict(with_it), ensemble.predict(without), q),
        (
            ensemble.predict(ensemble.at_columns(with_it, jnp.array([4, 1]))),
            ensemble.predict(ensemble.at_columns(without, jnp.array([4, 1]))),
            q[:, jnp.array([4, 1])],
        ),
    ):
        np.testing.assert_allclose(ours.mean, rest.mean + A * added, atol=1e-10)
        np.testing.assert_allclose(ours.sample, rest.sample + A * added, atol=1e-10)
        np.testing.assert_allclose(ours.variance, rest.variance, atol=1e-10)

    rows, columns = jnp.array([0, 4, 2]), jnp.array([1, 3, 3])
    ours, rest = (
        predictor(told())(key, one, seen, rows, columns, 2)
        for one, seen in ((known, data), (plain, left))
    )
    np.testing.assert_allclose(ours.mean, rest.mean + A * q[rows, columns], atol=1e-10)
    for noisy in (False, True):
        ours, rest = (
            gaussian.sample_matrix(key, one, seen, entry_noise=noisy)
            for one, seen in ((known, data), (plain, left))
        )
        np.testing.assert_allclose(ours, rest + A * q, atol=1e-10)
        covariance = gaussian.latent_posterior(plain, left).covariance
        ours, rest = (
            gaussian.sample_matrices(key, one, seen, covariance, draws=2, entry_noise=noisy)
            for one, seen in ((known, data), (plain, left))
        )
        np.testing.assert_allclose(ours, rest + A * q.T[:, None], atol=1e-10)
    scaled = known.in_units(1.5, 2.0)
    np.testing.assert_allclose(scaled.expected(), 1.5 + 2.0 * known.expected(), atol=1e-12)


def test_a_good_prediction_is_used_at_once_and_a_useless_one_is_not():
    """Entries are noise around what was predicted; a fifth of them is seen, of half of the rows."""
    rng = np.random.default_rng(1000)
    truth = rng.normal(size=(20, 20))
    mask = rng.uniform(size=truth.shape) < 0.2
    mask[:10] = False
    observed = 5.0 + 2.0 * (truth + 0.2 * rng.normal(size=truth.shape))
    data = Observations.from_matrix(observed, mask)
    good = truth + 0.3 * rng.normal(size=truth.shape)
    settings = {"model": presets.ALIKE, "method": "mcmc", "standardise": True}

    def fitted(matrix):
        belief = presets.fitted_belief(
            rank=2,
            features=Features(entries=entry_prediction(matrix)),
            gibbs={"first_sweeps": 100, "draws": 16, "sweeps": 2},
            **settings,
        )
        state = belief.init(jax.random.key(0), data)
        state = jax.jit(belief.refit)(jax.random.key(1), state, data)
        draws = parameter_draws(jax.random.key(2), belief, state, 16)
        never_seen = jax.vmap(lambda one: one.expected())(draws).mean(0)[:10]
        return draws.prediction_weight, np.std(never_seen - observed[:10])

    weight, error = fitted(good)
    assert abs(weight.mean() - 2.0) < 0.4  # deviations of the values for one of the prediction
    assert error < 1.0  # of 2.0
    useless, _ = fitted(rng.normal(size=truth.shape))
    assert abs(useless.mean()) < 3 * 2.0 / np.sqrt(mask.sum())


def test_history_does_not_take_weight_from_a_prediction():
    """Rows differ in what is predicted, and history shows it: the true weight is one.

    The only factor has something else to explain, which is the larger.
    """
    rng = np.random.default_rng(1000)
    rows = rng.normal(size=(16, 1))
    q = rng.normal(size=(16, 8))
    q += rows - q.mean(1, keepdims=True)
    factor = 3.0 * rng.normal(size=(16, 1)) @ rng.normal(size=(1, 28))
    noise = 0.3 * rng.normal(size=(16, 28))
    values = np.concatenate([q, np.repeat(rows, 20, axis=1)], axis=1) + factor + noise
    own, past = values[:, :8], values[:, 8:]
    features = Features(entries=q - q.mean())
    belief = presets.fitted_belief(
        rank=1,
        features=features,
        model=presets.ALIKE,
        method="mcmc",
        gibbs={"first_sweeps": 60, "draws": 16, "sweeps": 1},
    )
    own = Observations.from_matrix(own, np.ones(own.shape, bool))
    known = History.of(Observations.from_matrix(past, np.ones(past.shape, bool)))
    state = belief.init(jax.random.key(0), own, known)
    draws = belief.store(jax.jit(belief.refit)(jax.random.key(1), state, own))
    np.testing.assert_allclose(draws.prediction_weight.mean(), 1.0, atol=0.15)


def test_gaps_of_a_prediction_are_what_row_and_column_lead_to_expect():
    rng = np.random.default_rng(0)
    additive = 3.0 + rng.normal(size=(30, 1)) + rng.normal(size=(1, 25))
    gaps = np.where(rng.uniform(size=additive.shape) < 0.2, np.nan, additive)
    found = entry_prediction(gaps)
    assert np.isfinite(found).all()
    np.testing.assert_allclose([found.mean(), found.std()], [0.0, 1.0], atol=1e-12)
    assert np.corrcoef(found.ravel(), additive.ravel())[0, 1] > 0.99


@pytest.mark.parametrize(
    ("matrix", "told"),
    [
        (np.full((3, 4), np.nan), "no two entries"),
        (np.full((3, 4), 0.1), "no two entries"),
        (np.array([[np.inf, 1.0]]), "a matrix of numbers"),
        (np.ones(3), "a matrix of numbers"),
    ],
)
def test_what_predicts_nothing_is_refused(matrix, told):
    with pytest.raises(ValueError, match=rf"^scores: .*{told}"):
        entry_prediction(matrix, "scores")
