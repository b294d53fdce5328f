"""Gibbs sampling of the model with signed loadings: dense conditionals, and the prior kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import (
    assert_gaussian,
    low_rank_data,
    make_problem,
    with_column_noise,
    with_offsets,
)
from scipy import stats

from smc_jax.beliefs import signed_conditionals as conditionals
from smc_jax.beliefs import signed_gibbs as own
from smc_jax.beliefs import starts
from smc_jax.beliefs.feature_weights import Weights
from smc_jax.beliefs.signed_conditionals import Prior, State
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations

PRIOR = Prior(
    common=2.0,
    intercepts=True,
    learned_scale=False,
    offsets=False,
    noise_shape=3.0,
    noise_rate=2.0,
    fixed_noise=False,
    noise_bound=None,
    noise_spread=0.4,
)
KEYS = jax.random.split(jax.random.key(3), 20_000)


ROW_FEATURES = coordinates(np.random.default_rng(3).normal(size=(3, 2)))


def prior_weights(key, number, scale):
    """Weights of features, and their variance, the square of a half-Cauchy draw."""
    cauchy_key, weight_key = jax.random.split(key)
    numerator, denominator = jax.random.normal(cauchy_key, (2,))
    relevance = (numerator / denominator) ** 2
    deviation = jnp.sqrt(relevance) * scale
    drawn = jax.random.normal(weight_key, (number, scale.size))
    return Weights(deviation * drawn, relevance)


def state_of(seed, rank=2, offsets=False):
    """A state, data with repeats, and the looks [rows, columns, values] in NumPy."""
    problem = make_problem(seed, rows=3, columns=5, rank=rank)
    rng = np.random.default_rng(seed)
    parameters = with_column_noise(problem.parameters, 5)
    parameters = parameters._replace(intercept_scale=jnp.asarray(1.5))
    if offsets:
        parameters = with_offsets(parameters)
    shared = jnp.asarray(rng.normal(size=rank))
    state = State(parameters, shared, jnp.asarray(rng.normal(size=(5, rank + offsets))))
    rows = np.concatenate([seen for seen, _ in problem.looks])
    columns = np.repeat(np.arange(5), [len(seen) for seen, _ in problem.looks])
    values = np.concatenate([values for _, values in problem.looks])
    return state, problem.observations, (rows, columns, values)


def regression(features, target, variance, mean, scale):
    """Posterior of coefficients ~ N(mean, diag(scale^2)) from features @ c = target + noise."""
    precision = features.T @ (features / variance[:, None]) + np.diag(scale**-2.0)
    covariance = np.linalg.inv(precision)
    return covariance @ (features.T @ (target / variance) + mean / scale**2), covariance


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("intercepts", "offsets"), [(True, False), (False, False), (True, True)])
def test_rows_have_their_exact_conditional(intercepts, offsets):
    state, data, (rows, columns, values) = state_of(0, offsets=offsets)
    prior = PRIOR._replace(intercepts=intercepts, offsets=offsets)
    if not intercepts:
        given = state.parameters
        state = state._replace(parameters=given._replace(intercepts=jnp.zeros(3)))
    sample = jax.jit(jax.vmap(lambda key: conditionals.sample_rows(key, state, data, prior)))
    drawn = sample(KEYS).parameters
    x, noise = np.asarray(state.latents), np.asarray(state.parameters.noise())
    r, v = np.asarray(state.parameters.strengths), np.asarray(state.shared)
    if offsets:
        x, values = x[:, :2], values - 0.4 * x[columns, 2]
    for d in range(3):
        n, y = columns[rows == d], values[rows == d]
        features, mean, scale = x[n], v, r
        found = np.asarray(drawn.loadings[:, d])
        if intercepts:
            features = np.hstack([features, np.ones((len(n), 1))])
            mean, scale = np.append(v, 0.0), np.append(r, 1.5)
            found = np.hstack([found, np.asarray(drawn.intercepts[:, d, None])])
        assert_gaussian(found, *regression(features, y, noise[n] ** 2, mean, scale))


@pytest.mark.usefixtures("x64")
def test_what_rows_share_has_its_exact_conditional_given_the_loadings():
    state, _, _ = state_of(1)
    drawn = jax.jit(jax.vmap(lambda key: conditionals.sample_shared(key, state, PRIOR)))(KEYS)
    w, r = (np.asarray(x) for x in (state.parameters.loadings, state.parameters.strengths))
    for k in range(2):
        mean, covariance = regression(
            np.ones((3, 1)), w[:, k], np.full(3, r[k] ** 2), np.zeros(1), np.sqrt([2.0]) * r[k]
        )
        assert_gaussian(drawn.shared[:, k, None], mean, covariance)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("offsets", [False, True])
def test_what_rows_share_has_its_exact_conditional_given_the_deviations(offsets):
    state, data, (rows, columns, values) = state_of(2, offsets=offsets)
    shift = jax.jit(jax.vmap(lambda key: conditionals.shift_loadings(key, state, data, PRIOR)))
    drawn = shift(KEYS)
    given, x = state.parameters, np.asarray(state.latents)
    deviations = np.asarray(given.loadings - state.shared)
    target = values - np.asarray(given.intercepts)[rows]
    target -= (deviations[rows] * x[columns, :2]).sum(1)
    scale = np.append(np.sqrt(2.0) * np.asarray(given.strengths), np.ones(1 * offsets))
    variance = np.asarray(given.noise())[columns] ** 2
    found = np.hstack([drawn.shared, drawn.parameters.offsets])
    assert found.shape == (len(KEYS), 2 + offsets)
    assert_gaussian(found, *regression(x[columns], target, variance, 0.0 * scale, scale))
    moved = np.asarray(drawn.parameters.loadings) - np.asarray(drawn.shared)[:, None]
    np.testing.assert_allclose(moved, np.broadcast_to(deviations, moved.shape), atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_rows_with_features_have_their_exact_conditional():
    """The means of the loadings differ from row to row."""
    state, data, (rows, columns, values) = state_of(0)
    weights = np.random.default_rng(4).normal(size=(2, 3))
    state = state._replace(row_weights=Weights(jnp.asarray(weights), jnp.ones(())))
    known = Features(rows=ROW_FEATURES)
    sample = jax.jit(jax.vmap(lambda key: conditionals.sample_rows(key, state, data, PRIOR, known)))
    drawn = sample(KEYS).parameters
    x, noise = np.asarray(state.latents), np.asarray(state.parameters.noise())
    centre = np.append(state.shared, 0.0) + ROW_FEATURES @ weights
    scale = np.append(state.parameters.strengths, 1.5)
    for d in range(3):
        n, y = columns[rows == d], values[rows == d]
        design = np.hstack([x[n], np.ones((len(n), 1))])
        found = np.hstack([drawn.loadings[:, d], drawn.intercepts[:, d, None]])
        assert_gaussian(found, *regression(design, y, noise[n] ** 2, centre[d], scale))


KNOWN = Features(
    coordinates(np.random.default_rng(5).normal(size=(4, 2))),
    coordinates(np.random.default_rng(6).normal(size=(6, 3))),
)


OFFSETS = {"offsets": True, "intercept_scale": None}
ALONE = {"common": 2.0, "residual": False}
PREDICTED = KNOWN._replace(entries=np.random.default_rng(7).normal(size=(4, 6)))


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({"common": 2.0}, Features()),
        ({}, Features()),
        ({"common": 2.0, "noise_bound": 0.8}, Features()),
        ({"common": 2.0}, KNOWN),
        ({}, KNOWN),
        (OFFSETS, Features()),
        (OFFSETS | {"common": 2.0}, KNOWN),
        (OFFSETS | ALONE, PREDICTED),
    ],
    ids=[
        "rows alike",
        "rows apart",
        "noise bound",
        "features",
        "features, rows apart",
        "offsets",
        "offsets, features",
        "features alone, a prediction",
    ],
)
def test_the_chain_stays_in_the_prior(settings, features):
    """Geweke (2004): from truth and data drawn from the prior, five sweeps stay in the prior."""
    model = gamma_process(
        rank=2,
        loadings="signed",
        intercepts=True,
        noise_shape=3.0,
        noise_rate=2.0,
        noise_spread=0.4,
        **settings,
    )
    prior = Prior.of(model)
    common, offsets = prior.common, 1 * prior.offsets
    mask = np.random.default_rng(0).random((4, 6)) < 0.7

    @jax.jit
    @jax.vmap
    def after(key):
        keys = jax.random.split(key, 8)
        prior_key, shared_key, own_key, latent_key, noise_key, sweep_key = keys[:6]
        truth = model.sample_prior(prior_key, 4, 6)
        shared = jnp.sqrt(common) * truth.strengths * jax.random.normal(shared_key, (2,))
        loadings = shared + truth.strengths * jax.random.normal(own_key, (4, 2))
        if not prior.residual:
            loadings = jnp.broadcast_to(shared, (4, 2))
            truth = truth._replace(intercepts=jnp.full(4, truth.intercepts[0]))
        latents = jax.random.normal(latent_key, (6, 2 + offsets))
        row_weights = column_weights = None
        if features.rows is not None:
            moved_by_rows = jnp.append(truth.strengths, truth.intercept_scale)
            row_weights = prior_weights(keys[6], 2, moved_by_rows)
            if not prior.residual:
                standard = row_weights.weights / jnp.sqrt(row_weights.relevance)
                row_weights = Weights(standard, jnp.ones(()))
            column_weights = prior_weights(keys[7], 3, jnp.ones(2 + offsets))
            moved = features.rows @ row_weights.weights
            loadings += moved[:, :2]
            truth = truth._replace(intercepts=truth.intercepts + moved[:, 2])
            means = features.columns @ column_weights.weights
            latents += means
            truth = truth._replace(latent_means=means)
        truth = truth._replace(loadings=loadings)
        if features.entries is not None:
            a = jax.random.cauchy(jax.random.fold_in(key, 8))
            truth = truth._replace(prediction_weight=a, prediction=features.entries.T)
        entries = truth.expected() + truth.factors() @ latents.T
        entries += truth.noise() * jax.random.normal(noise_key, (4, 6))
        data = Observations.from_matrix(entries, mask)

        def move(state, key):
            return own.sweep(key, state, data, prior, features), None

        begun = State(truth, shared, latents, row_weights, column_weights)
        return jax.lax.scan(move, begun, jax.random.split(sweep_key, 5))[0], begun

    end, _ = after(jax.random.split(jax.random.key(1), 4000))
    _, fresh = after(jax.random.split(jax.random.key(2), 4000))
    # Nine to sixteen Kolmogorov-Smirnov tests at 0.0005, eight times: 5 % of the seeds fail one.
    for read in (
        lambda s: s.parameters.sigma,
        lambda s: s.parameters.noise_scales[:, 2],
        lambda s: s.parameters.gamma0,
        lambda s: s.parameters.c0,
        lambda s: s.parameters.strengths.max(1),
        lambda s: s.parameters.intercepts[:, 1],
        lambda s: s.parameters.loadings[:, 0, 1],
        lambda s: s.shared[:, 0] / s.parameters.strengths[:, 0],
        lambda s: (s.parameters.factors()[:, 0] * s.latents[:, 3]).sum(1),
        lambda s: s.parameters.offsets[:, 0] if offsets else None,
        lambda s: np.abs(s.latents[:, 1, 2]) if offsets else None,
        lambda s: np.log(s.parameters.intercept_scale) if prior.learned_scale else None,
        lambda s: (
            None if s.parameters.prediction is None else np.arctan(s.parameters.prediction_weight)
        ),
        lambda s: s.row_weights and np.arctan(s.row_weights.weights[:, 1, 2]),
        lambda s: s.row_weights and np.log(s.row_weights.relevance),
        lambda s: s.column_weights and np.log(s.column_weights.relevance),
        lambda s: s.column_weights and np.arctan(s.column_weights.weights[:, 1, 0]),
    ):
        if read(end) is None:
            continue
        ours, theirs = (np.asarray(read(s)) for s in (end, fresh))
        if np.ptp(theirs) > 0.0:
            assert stats.ks_2samp(ours, theirs).pvalue > 5e-4


DATA = low_rank_data(0, rows=5, columns=6, rank=1)


def small(loadings="signed", **settings):
    model = gamma_process(rank=2, loadings=loadings)
    sizes = {"chains": 2, "draws": 4, "sweeps": 2, "first_sweeps": 3} | settings
    return signed_gibbs(model, starts.spectral(model), **sizes)


def test_refits_go_on_and_store_where_the_chains_have_been(monkeypatch):
    made = []

    def counted(key, state, data, prior, features):
        made.append(1)
        return state._replace(latents=state.latents + 1.0)

    monkeypatch.setattr(own, "sweep", counted)
    belief = small()
    with jax.disable_jit():
        state = belief.init(jax.random.key(0), DATA)
        once = belief.refit(jax.random.key(1), state, DATA)
        twice = belief.refit(jax.random.key(2), once, DATA)
    np.testing.assert_array_equal(once.states.latents, 3 + 4)
    np.testing.assert_array_equal(twice.states.latents, 3 + 8)
    assert twice.refits == 2


def test_draws_are_finite_and_each_chain_has_its_own():
    belief = small()
    state = jax.jit(belief.refit)(jax.random.key(1), belief.init(jax.random.key(0), DATA), DATA)
    assert len(set(np.asarray(state.draws.sigma).tolist())) == 4
    assert belief.diagnose(state).finite
    last = state.draws.loadings.reshape(2, 2, 5, 2)[:, -1]
    np.testing.assert_array_equal(last, state.states.parameters.loadings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("chains", 0), ("draws", 0), ("draws", 3), ("sweeps", 0), ("first_sweeps", -1)],
)
def test_settings_that_cannot_be_used_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        small(**{name: value})


def test_gamma_loadings_are_refused():
    with pytest.raises(ValueError, match="must be signed"):
        small(loadings="gamma")


def test_a_known_noise_stays_known():
    model = gamma_process(rank=2, loadings="signed", fixed_noise=0.25)
    belief = signed_gibbs(model, starts.spectral(model), draws=2, sweeps=2, first_sweeps=2)
    state = belief.refit(jax.random.key(1), belief.init(jax.random.key(0), DATA), DATA)
    np.testing.assert_allclose(state.draws.sigma, 0.5)


def test_columns_of_one_value_do_not_end_in_infinite_precision():
    """200 looks at the same number in most columns; the others vary."""
    rng = np.random.default_rng(0)
    table = np.ones((200, 30))
    table[:, 20:] = rng.normal(size=(200, 10))
    data = Observations.from_matrix(jnp.asarray(table), np.ones(table.shape, bool))
    model = gamma_process(rank=4, loadings="signed", intercepts=True, noise_spread=0.25)
    belief = signed_gibbs(model, starts.spectral(model), draws=4, sweeps=5, first_sweeps=200)
    state = jax.jit(belief.refit)(jax.random.key(1), belief.init(jax.random.key(0), data), data)
    assert belief.diagnose(state).finite
    smallest = np.exp(-conditionals.FARTHEST * 0.25)
    assert (np.asarray(state.draws.noise_scales) >= 0.99 * smallest).all()
    np.testing.assert_allclose(state.draws.noise_scales[:, :20].mean(), smallest, rtol=0.2)
