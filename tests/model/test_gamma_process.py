"""The prior, its map to unconstrained space, and the joint density, against scipy and numpyro."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import log_density
from problems import (
    as_float64,
    assert_gaussian,
    dense_latents,
    in_column,
    make_problem,
    with_column_noise,
    with_offsets,
)

from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.noise_prior import log_upper_tail, sigma_prior
from smc_jax.model.numpyro_model import numpyro_model
from smc_jax.model.parameters import LOG_RANGE

VARIANTS = {
    "plain": {},
    "intercepts": {"intercepts": True, "intercept_scale": 0.7},
    "noise prior": {"noise_shape": 3.0, "noise_rate": 0.5},
    "fixed noise": {"fixed_noise": 0.09},
    "fixed noise, intercepts": {"fixed_noise": 0.09, "intercepts": True},
    "signed": {"loadings": "signed"},
    "signed, intercepts": {"loadings": "signed", "intercepts": True},
    "signed, rows alike": {"loadings": "signed", "common": 4.0},
    "intercepts, their scale learned": {"intercepts": True, "intercept_scale": None},
    "offsets": {"offsets": True},
    "signed, offsets": {"loadings": "signed", "common": 4.0, "offsets": True},
    "noise bound": {"noise_bound": 0.5},
    "column noise": {"noise_spread": 0.6},
    "column noise, fixed": {"noise_spread": 0.6, "fixed_noise": 0.09},
}
EACH_VARIANT = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())


def problem_for(settings, seed=0):
    """A problem whose parameters have what the variant holds fixed."""
    parameters, observations, looks = make_problem(
        seed, intercepts="intercepts" in settings, repeats=False
    )
    if "fixed_noise" in settings:
        parameters = parameters._replace(sigma=jnp.asarray(np.sqrt(settings["fixed_noise"])))
    if "loadings" in settings:
        signs = np.random.default_rng(1).choice([-1.0, 1.0], parameters.loadings.shape)
        parameters = parameters._replace(
            loadings=signs * parameters.loadings, gamma=jnp.ones_like(parameters.gamma)
        )
    if "noise_spread" in settings:
        parameters = with_column_noise(parameters, observations.columns)
    if "offsets" in settings:
        parameters = with_offsets(parameters, -0.4)
    scale = settings.get("intercept_scale", 1.0)
    parameters = parameters._replace(intercept_scale=jnp.asarray(1.3 if scale is None else scale))
    return parameters, observations, looks


def scipy_gamma(shape, rate):
    return scipy.stats.gamma(shape, scale=1 / np.asarray(rate))


def log_sigma_prior(sigma, shape, rate):
    """1/sigma^2 ~ G(shape, rate): |d precision / d sigma| = 2 / sigma^3."""
    return scipy_gamma(shape, rate).logpdf(sigma**-2.0) + np.log(2) - 3 * np.log(sigma)


def log_prior_by_hand(parameters, settings, rank):
    p = as_float64(parameters)
    w, r, gamma = p.loadings, p.strengths, p.gamma
    value = scipy_gamma(p.gamma0 / rank, p.c0).logpdf(r).sum()
    value += sum(scipy_gamma(1, 1).logpdf(x) for x in (p.gamma0, p.c0))
    if "loadings" in settings:
        alike = np.eye(len(w)) + settings.get("common", 0.0)
        value += sum(
            scipy.stats.multivariate_normal(cov=strength**2 * alike).logpdf(loading)
            for strength, loading in zip(r, w.T, strict=True)
        )
    else:
        value += scipy_gamma(gamma * r, gamma).logpdf(w).sum() + scipy_gamma(1, 1).logpdf(gamma)
    if "fixed_noise" not in settings:
        shape, rate = settings.get("noise_shape", 1.0), settings.get("noise_rate", 1.0)
        value += log_sigma_prior(p.sigma, shape, rate)
        if "noise_bound" in settings:
            value -= scipy_gamma(shape, rate).logsf(1.0 / settings["noise_bound"])
    if "intercepts" in settings:
        value += scipy.stats.norm(0, p.intercept_scale).logpdf(p.intercepts).sum()
        if settings.get("intercept_scale", 1.0) is None:
            value += scipy.stats.halfcauchy.logpdf(p.intercept_scale)
    if "offsets" in settings:
        value += scipy.stats.norm.logpdf(p.offsets).sum()
    if "noise_spread" in settings:
        value += scipy.stats.lognorm(settings["noise_spread"]).logpdf(p.noise_scales).sum()
    return value


@EACH_VARIANT
@pytest.mark.usefixtures("x64")
def test_log_prior(settings):
    parameters, _, _ = problem_for(settings)
    model = gamma_process(rank=3, **settings)
    value = jax.jit(model.log_prior)(parameters)
    np.testing.assert_allclose(value, log_prior_by_hand(parameters, settings, 3), rtol=1e-12)


@pytest.mark.parametrize(("shape", "rate"), [(1.0, 1.0), (0.1, 0.1), (4.0, 0.3)])
@pytest.mark.usefixtures("x64")
def test_sigma_prior(shape, rate):
    sigma = np.geomspace(0.05, 20, 30)
    value = jax.jit(sigma_prior(shape, rate).log_prob)(sigma)
    np.testing.assert_allclose(value, log_sigma_prior(sigma, shape, rate), rtol=1e-10)


@EACH_VARIANT
@pytest.mark.usefixtures("x64")
def test_round_trip_and_held_fields(settings):
    parameters, _, _ = problem_for(settings)
    model = gamma_process(rank=3, **settings)
    unconstrained = model.unconstrain(parameters)
    assert (unconstrained.sigma is None) == ("fixed_noise" in settings)
    assert (unconstrained.intercepts is None) == ("intercepts" not in settings)
    assert (unconstrained.gamma is None) == ("loadings" in settings)
    assert (unconstrained.noise_scales is None) == ("noise_spread" not in settings)
    assert (unconstrained.offsets is None) == ("offsets" not in settings)
    learned = settings.get("intercept_scale", 1.0) is None
    assert (unconstrained.intercept_scale is None) == (not learned)
    chex.assert_trees_all_close(model.constrain(unconstrained), parameters, rtol=1e-12)
    again = model.unconstrain(model.constrain(unconstrained))
    chex.assert_trees_all_close(again, unconstrained, rtol=1e-12)


def test_zero_loadings_have_a_finite_logarithm():
    parameters, _, _ = problem_for({})
    model = gamma_process(rank=3)
    none = parameters._replace(loadings=jnp.zeros_like(parameters.loadings))
    unconstrained = model.unconstrain(none)
    np.testing.assert_allclose(unconstrained.loadings, -LOG_RANGE, rtol=1e-6)
    assert (np.asarray(model.constrain(unconstrained).loadings) > 0).all()


@EACH_VARIANT
@pytest.mark.usefixtures("x64")
def test_log_volume_is_the_jacobian(settings):
    parameters, _, _ = problem_for(settings)
    model = gamma_process(rank=2, **settings)
    small = parameters._replace(
        loadings=parameters.loadings[:2, :2],
        strengths=parameters.strengths[:2],
        intercepts=parameters.intercepts[:2],
    )
    unconstrained = model.unconstrain(small)
    flat, unravel = ravel_pytree(unconstrained)

    def free_fields(flat):
        u = unravel(flat)
        pairs = zip(model.constrain(u), u, strict=True)
        return ravel_pytree([value for value, free in pairs if free is not None])[0]

    jacobian = jax.jit(jax.jacobian(free_fields))(flat)
    expected = np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(model.log_volume(unconstrained), expected, rtol=1e-12)


@EACH_VARIANT
@pytest.mark.usefixtures("x64")
def test_log_joint_integrates_the_latents_out(settings):
    """log p(Y, theta) = log p(Y, X, theta) - log p(X | Y, theta) at any X, theta."""
    parameters, observations, looks = problem_for(settings, seed=4)
    model = gamma_process(rank=3, **settings)
    latents = np.random.default_rng(5).normal(size=(5, 4 if "offsets" in settings else 3))

    def alone(n):
        return in_column(parameters, n)

    sites = {**parameters._asdict(), "latents": latents}
    del sites["latent_means"]
    if "fixed_noise" in settings:
        del sites["sigma"]
    if "intercepts" not in settings:
        del sites["intercepts"]
    if "loadings" in settings:
        del sites["gamma"]
    if "noise_spread" not in settings:
        del sites["noise_scales"]
    if "offsets" not in settings:
        del sites["offsets"]
    if settings.get("intercept_scale", 1.0) is not None:
        del sites["intercept_scale"]
    program = functools.partial(numpyro_model, rank=3, **settings)
    shared = None
    if "common" in settings:  # at any v too: log p(v | W) of the normal posterior is in closed form
        shared = np.random.default_rng(6).normal(size=3)
        sites["loading_means"] = shared
    joint, _ = log_density(program, (observations,), {}, sites)
    given_data = sum(
        scipy.stats.multivariate_normal.logpdf(x, *dense_latents(alone(n), *look))
        for n, (x, look) in enumerate(zip(latents, looks, strict=True))
    )
    if shared is not None:
        w, r = as_float64(parameters).loadings, as_float64(parameters).strengths
        precision = 1 / settings["common"] + len(w)
        posterior = scipy.stats.norm(w.sum(0) / precision, r / np.sqrt(precision))
        given_data += posterior.logpdf(shared).sum()
    unconstrained = model.unconstrain(parameters)
    value = model.log_joint(unconstrained, observations) - model.log_volume(unconstrained)
    np.testing.assert_allclose(value, joint - given_data, rtol=1e-10)


@pytest.fixture(scope="module")
def prior_draws():
    """4000 draws in float32 of a model with every part."""
    model = gamma_process(
        rank=4,
        intercepts=True,
        intercept_scale=2.0,
        noise_shape=2.0,
        noise_rate=0.5,
        noise_spread=0.7,
    )
    keys = jax.random.split(jax.random.key(0), 4000)
    return as_float64(jax.jit(jax.vmap(lambda key: model.sample_prior(key, 3, 2)))(keys))


def uniform_above_floor(values, shape, rate):
    """The probability integral transform given that a draw is above the floor e^-LOG_RANGE."""
    floor = np.exp(-LOG_RANGE + 1e-3)
    above = values > floor
    values, shape, rate = (np.broadcast_to(x, above.shape)[above] for x in (values, shape, rate))
    distribution = scipy_gamma(shape, rate)
    return distribution.sf(values) / distribution.sf(floor)


def test_prior_draws(prior_draws):
    """Kolmogorov-Smirnov on eight samples, each false alarm 1e-4: at most 8e-4 in all."""
    p = prior_draws
    loading_shape, loading_rate = (p.gamma[:, None] * p.strengths)[:, None], p.gamma[:, None, None]
    samples = {
        "gamma": scipy_gamma(1, 1).cdf(p.gamma),
        "gamma0": scipy_gamma(1, 1).cdf(p.gamma0),
        "c0": scipy_gamma(1, 1).cdf(p.c0),
        "precision": scipy_gamma(2.0, 0.5).cdf(p.sigma**-2.0),
        "intercepts": scipy.stats.norm(0, 2.0).cdf(p.intercepts).ravel(),
        "noise scales": scipy.stats.norm(0, 0.7).cdf(np.log(p.noise_scales)).ravel(),
        "strengths": uniform_above_floor(p.strengths, p.gamma0[:, None] / 4, p.c0[:, None]),
        "loadings": uniform_above_floor(p.loadings, loading_shape, loading_rate),
    }
    for name, sample in samples.items():
        assert sample.size >= 4000, name
        assert scipy.stats.kstest(sample, "uniform").pvalue > 1e-4, name


def test_small_shapes_do_not_underflow(prior_draws):
    """Plain float32 gamma draws are 0 for 42 % of the draws at shape 0.01; ours never are."""
    w, r, gamma = prior_draws.loadings, prior_draws.strengths, prior_draws.gamma
    assert ((gamma[:, None] * r) < 0.01).mean() > 0.1
    not_gamma = dict.fromkeys(["intercepts", "latent_means", "offsets"], np.ones(1))
    for values in jax.tree.leaves(prior_draws._replace(**not_gamma)):
        assert np.isfinite(values).all()
        assert (values > 0).all()
    # At the floor as often as the gamma distribution is below it: |z| < 4, false alarm 6e-5.
    below = scipy_gamma((gamma[:, None] * r)[:, None, :], gamma[:, None, None]).cdf(
        np.exp(-LOG_RANGE)
    )
    below = np.broadcast_to(below, w.shape)
    at_floor = w <= np.exp(-LOG_RANGE + 1e-3)
    surplus = (at_floor - below).sum() / np.sqrt((below * (1 - below)).sum())
    assert abs(surplus) < 4


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("bound", [2.0, 0.4, 0.01, 1e-4])
def test_prior_draws_of_a_bounded_noise(shape, bound):
    """Kolmogorov-Smirnov of the precision above 1/bound, sixteen times at 1e-4.

    The excess over the least precision is what float32 can still tell far out.
    """
    model = gamma_process(rank=1, noise_shape=shape, noise_rate=0.5, noise_bound=bound)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(4), 4000)
        drawn = jax.jit(jax.vmap(lambda key: model.sample_prior(key, 3, 2).sigma))(keys)
    precision, least = np.asarray(drawn, float) ** -2.0, 1 / bound
    assert (precision >= least * (1 - 1e-9)).all()
    inside = log_upper_tail(shape, 0.5 * least)
    tail = [np.exp(log_upper_tail(shape, 0.5 * x) - inside) for x in precision]
    assert scipy.stats.kstest(tail, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5])
def test_the_logarithm_of_a_tail(shape):
    """Against scipy where that has it, and continuous where it has not."""
    for least in (0.1, 3.0, 40.0, 500.0):
        expected = np.log(scipy.special.gammaincc(shape, least))
        np.testing.assert_allclose(log_upper_tail(shape, least), expected, rtol=1e-12)
    # Beyond, the derivative is minus the hazard rate, 1 - (shape - 1) / x to first order.
    slope = (log_upper_tail(shape, 2001.0) - log_upper_tail(shape, 1999.0)) / 2.0
    np.testing.assert_allclose(slope, -(1.0 - (shape - 1.0) / 2000.0), rtol=1e-5)


@pytest.mark.parametrize("bound", [0.5, 0.01, 1e-4])
def test_a_small_bound_has_a_finite_density(bound):
    """In float32, where the mass inside the bound is zero."""
    model = gamma_process(rank=3, noise_bound=bound)
    unconstrained = model.unconstrain(problem_for({})[0])
    assert np.isfinite(model.log_density(unconstrained))


def test_a_noise_that_is_fixed_has_no_bound():
    with pytest.raises(ValueError, match=r"^noise_bound: the noise is fixed already"):
        gamma_process(rank=2, fixed_noise=0.1, noise_bound=0.2)


def test_a_start_above_the_bound_begins_below_it():
    model = gamma_process(rank=3, noise_bound=0.01)
    unconstrained = model.unconstrain(problem_for({})[0]._replace(sigma=jnp.asarray(2.0)))
    assert 0.05 < model.constrain(unconstrained).sigma < 0.1


def test_prior_draws_with_held_fields():
    model = gamma_process(rank=2, fixed_noise=0.25)
    shape = jax.eval_shape(lambda key: model.sample_prior(key, 5, 7), jax.random.key(1))
    assert shape.loadings.shape == (5, 2)
    drawn = jax.jit(lambda key: model.sample_prior(key, 5, 7))(jax.random.key(1))
    np.testing.assert_allclose(drawn.sigma, 0.5)
    np.testing.assert_array_equal(drawn.intercepts, np.zeros(5))
    assert drawn.noise_scales == 1


def test_prior_draws_of_signed_loadings():
    model = gamma_process(rank=4, loadings="signed")
    keys = jax.random.split(jax.random.key(2), 4000)
    draws = as_float64(jax.jit(jax.vmap(lambda key: model.sample_prior(key, 3, 1)))(keys))
    assert (draws.gamma == 1).all()
    scaled = draws.loadings / draws.strengths[:, None]
    # Kolmogorov-Smirnov: fails for 1e-4 of the seeds.
    assert scipy.stats.kstest(scaled.ravel(), "norm").pvalue > 1e-4


def test_prior_draws_of_rows_that_are_alike():
    """Each column of loadings is N(0, r^2 (I + common 1 1')): nine moments at |z| < 5."""
    model = gamma_process(rank=1, loadings="signed", common=3.0)
    keys = jax.random.split(jax.random.key(3), 4000)
    draws = as_float64(jax.jit(jax.vmap(lambda key: model.sample_prior(key, 3, 1)))(keys))
    scaled = draws.loadings[:, :, 0] / draws.strengths
    assert_gaussian(scaled, np.zeros(3), np.eye(3) + 3.0)


def test_an_unknown_kind_of_loadings_is_named():
    with pytest.raises(ValueError, match=r"^loadings: unknown 'complex'"):
        gamma_process(rank=2, loadings="complex")
