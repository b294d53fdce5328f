"""Each parameter with its prior and its map to the real line; and a new one is one entry."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree
from problems import (
    dense_entries,
    low_rank_data,
    make_problem,
    with_column_noise,
    with_latent_means,
)

from smc_jax.beliefs import starts
from smc_jax.beliefs.variational import adam, svi, variational
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.parameters import LOG_RANGE, POSITIVE, REAL, Parameters, field

ROWS, COLUMNS, RANK = 5, 4, 3
SHAPES = Parameters((ROWS, RANK), (RANK,), (), (), (), (), (ROWS,), (COLUMNS,), (), (), (1,))
MODELS = {
    kind: gamma_process(
        rank=RANK,
        loadings=kind,
        intercepts=True,
        intercept_scale=None,
        offsets=True,
        noise_spread=0.5,
    )
    for kind in ("gamma", "signed")
}
FIELDS = [(kind, name) for kind, model in MODELS.items() for name in model.free()]
EACH_FIELD = pytest.mark.parametrize(("kind", "name"), FIELDS)


@pytest.fixture(scope="module")
def drawn():
    """One draw of each model."""
    return {
        kind: jax.jit(lambda key, model=model: model.sample_prior(key, ROWS, COLUMNS))(
            jax.random.key(3)
        )
        for kind, model in MODELS.items()
    }


def test_the_models_have_every_field_between_them():
    own = set(Parameters._fields) - {"latent_means", *Parameters._field_defaults}  # of features
    assert {name for _, name in FIELDS} == own
    assert set(MODELS["signed"].free()) == own - {"gamma"}


@EACH_FIELD
def test_a_draw_has_the_shape_of_its_field(kind, name, drawn):
    assert getattr(drawn[kind], name).shape == getattr(SHAPES, name)


def real_values(name):
    """Values on the real line, well inside of its range."""
    shape = getattr(SHAPES, name)
    return jnp.asarray(np.random.default_rng(1).normal(scale=2.0, size=shape))


@EACH_FIELD
@pytest.mark.usefixtures("x64")
def test_a_field_goes_to_the_real_line_and_back(kind, name):
    bijector = MODELS[kind].free()[name].bijector
    u = real_values(name)
    value = bijector.forward(u)
    np.testing.assert_allclose(bijector.inverse(value), u, rtol=1e-12)
    np.testing.assert_allclose(bijector.forward(bijector.inverse(value)), value, rtol=1e-12)
    if name not in ("intercepts", "offsets") and (kind, name) != ("signed", "loadings"):
        assert (value > 0).all()


@EACH_FIELD
@pytest.mark.usefixtures("x64")
def test_the_volume_of_a_field_is_its_jacobian(kind, name):
    bijector = MODELS[kind].free()[name].bijector
    flat, unravel = ravel_pytree(real_values(name))
    jacobian = jax.jacobian(lambda flat: bijector.forward(unravel(flat)).ravel())(flat)
    expected = np.linalg.slogdet(np.asarray(jacobian).reshape(flat.size, flat.size))[1]
    np.testing.assert_allclose(bijector.log_volume(unravel(flat)), expected, rtol=1e-10, atol=1e-12)


def test_positive_values_stay_numbers_however_far_out():
    u = jnp.asarray([-1e6, -LOG_RANGE, LOG_RANGE, 1e6])
    value = POSITIVE.forward(u)
    assert value.dtype == jnp.float32
    assert (value > 0).all()
    assert jnp.isfinite(value**2).all()
    assert (value**2 > 0).all()
    np.testing.assert_allclose(POSITIVE.inverse(jnp.zeros(2)), -LOG_RANGE, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_the_noise_of_a_column():
    parameters, _, looks = make_problem(0)
    each = with_column_noise(parameters, len(looks))
    assert parameters.noise() == parameters.sigma
    assert parameters.noise_at(jnp.asarray(3)) == parameters.sigma
    np.testing.assert_allclose(each.noise(), float(each.sigma) * np.asarray(each.noise_scales))
    for n in range(len(looks)):
        assert each.noise_at(jnp.asarray(n)) == each.noise()[n]


def test_the_parameters_of_some_columns():
    parameters, _, looks = make_problem(0)
    columns = jnp.asarray([3, 0, 3])
    chex.assert_trees_all_equal(parameters.at_columns(columns), parameters)
    each = with_latent_means(with_column_noise(parameters, len(looks)), len(looks))
    some = each.at_columns(columns)
    np.testing.assert_array_equal(some.noise_scales, each.noise_scales[columns])
    np.testing.assert_array_equal(some.latent_means, each.latent_means[columns])
    np.testing.assert_array_equal(some.noise(), each.noise()[columns])
    theirs = {"noise_scales": each.noise_scales, "latent_means": each.latent_means}
    chex.assert_trees_all_equal(some._replace(**theirs), each)


@pytest.mark.usefixtures("x64")
def test_other_units_are_those_of_the_matrix():
    """Given values in the new units, entries have the old posterior in the new units."""
    parameters, _, looks = make_problem(1)
    centre, scale = 3.0, 0.7
    moved = parameters.in_units(centre, scale)
    for rows, values in looks:
        mean, covariance = dense_entries(parameters, rows, values)
        found = dense_entries(moved, rows, centre + scale * values)
        np.testing.assert_allclose(found[0], centre + scale * mean, rtol=1e-10)
        np.testing.assert_allclose(found[1], scale**2 * covariance, atol=1e-12)
    each = with_column_noise(parameters, 5).in_units(centre, scale)
    np.testing.assert_allclose(each.noise(), scale * with_column_noise(parameters, 5).noise())


@pytest.mark.usefixtures("x64")
def test_the_prior_of_loadings_in_other_units_has_its_strengths_in_them():
    """W = scale W' with r = scale r': the density changes by the volume alone."""
    model = gamma_process(rank=RANK, loadings="signed", common=2.0)
    parameters = model.sample_prior(jax.random.key(0), ROWS, COLUMNS)
    log_prob = model.free()["loadings"].log_prob
    moved = parameters.in_units(jnp.asarray(0.0), jnp.asarray(3.0))
    np.testing.assert_allclose(
        log_prob(moved), log_prob(parameters) - ROWS * RANK * np.log(3.0), rtol=1e-10
    )


@pytest.mark.parametrize("precision", [jnp.float32, jnp.float64])
def test_plain_parameters(precision):
    with jax.enable_x64(precision == jnp.float64):
        w, sigma = jnp.ones((ROWS, RANK)), jnp.asarray(0.5)
        plain = Parameters.plain(w, sigma)
        assert {x.dtype for x in jax.tree.leaves(plain)} == {jnp.dtype(precision)}
        own = plain._asdict().items()
        for name, value in ((name, value) for name, value in own if value is not None):
            shape = {"noise_scales": (), "offsets": (0,)}.get(name, getattr(SHAPES, name))
            assert value.shape == shape, name
        assert not plain.intercepts.any()
        assert plain.noise() == sigma
        b = jnp.arange(1.0 * ROWS)
        chex.assert_trees_all_equal(Parameters.plain(w, sigma, b), plain._replace(intercepts=b))


def intercepts_like_the_noise():
    """One more layer: b_d ~ Laplace(2, sigma), of which nobody else knows."""
    own = field(
        REAL, "intercepts", lambda p: dist.Laplace(2.0, p.sigma), lambda rows, columns: (rows,)
    )
    base = gamma_process(rank=2)
    return base, base._replace(layers=(*base.layers, {"intercepts": own}))


@pytest.mark.usefixtures("x64")
def test_a_new_field_is_one_entry():
    base, model = intercepts_like_the_noise()
    assert set(model.free()) == {*base.free(), "intercepts"}
    assert "intercepts" in model.held
    parameters = model.sample_prior(jax.random.key(0), ROWS, COLUMNS)
    assert parameters.intercepts.shape == (ROWS,)
    b, sigma = np.asarray(parameters.intercepts), float(parameters.sigma)
    own = scipy.stats.laplace(2.0, sigma).logpdf(b).sum()
    np.testing.assert_allclose(
        model.log_prior(parameters), base.log_prior(parameters) + own, rtol=1e-12
    )
    u = model.unconstrain(parameters)
    np.testing.assert_array_equal(u.intercepts, parameters.intercepts)
    assert base.unconstrain(parameters).intercepts is None
    chex.assert_trees_all_close(model.constrain(u), parameters, rtol=1e-12)
    np.testing.assert_allclose(model.log_volume(u), base.log_volume(base.unconstrain(parameters)))


def test_draws_of_a_new_field_follow_its_prior():
    """Kolmogorov-Smirnov: fails for 1e-4 of the seeds."""
    _, model = intercepts_like_the_noise()
    keys = jax.random.split(jax.random.key(0), 2000)
    draws = jax.jit(jax.vmap(lambda key: model.sample_prior(key, 1, 1)))(keys)
    scaled = (np.asarray(draws.intercepts)[:, 0] - 2.0) / np.asarray(draws.sigma)
    assert scipy.stats.kstest(scaled, "laplace").pvalue > 1e-4


def test_a_new_field_is_fitted():
    """Data far from zero: the intercepts move there, by the start and by the fit."""
    _, model = intercepts_like_the_noise()
    observations = low_rank_data(0, rows=ROWS, columns=12, rank=1, seen=0.8).relative_to(-4.0)
    inference = svi(model=model, optimiser=adam(), window=10)
    belief = variational(model, starts.random(model), inference, first_steps=100)
    state = belief.init(jax.random.key(0), observations)
    state = jax.jit(belief.refit)(jax.random.key(1), state, observations)
    assert belief.diagnose(state).finite
    assert state.q.mean.intercepts.shape == (ROWS,)
    np.testing.assert_allclose(belief.draw(jax.random.key(2), state).intercepts, 4.0, atol=1.5)
