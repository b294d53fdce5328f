"""Priors with features, and a prediction: against dense normals, numpyro, and their own draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro.infer.util import log_density
from problems import dense_latents, in_column, make_problem

from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.informed import informed, integrated_log_density
from smc_jax.model.numpyro_model import numpyro_model

RNG = np.random.default_rng(0)
KNOWN = Features(
    coordinates(RNG.normal(size=(6, 3))),
    coordinates(RNG.normal(size=(5, 2))),
    RNG.normal(size=(6, 5)),
)


@pytest.mark.usefixtures("x64")
def test_weights_are_integrated_out_exactly():
    values, scale = RNG.normal(size=(6, 2)), np.array([0.5, 2.0])
    covariance = np.eye(6) + 1.5 * np.ones((6, 6)) + 0.7 * KNOWN.rows @ KNOWN.rows.T
    density = scipy.stats.multivariate_normal.logpdf
    each = [density(values[:, k], np.zeros(6), scale[k] ** 2 * covariance) for k in range(2)]
    expected = sum(each)
    found = integrated_log_density(values, scale, 1.5, KNOWN.rows, jnp.asarray(0.7))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_small_deviations_from_a_large_mean_are_not_lost_to_rounding():
    """In float32, of deviations of a thousandth; rows share nearly all of their variance."""
    values = (1.0 + 1e-3 * RNG.normal(size=(6, 2))).astype(np.float32)
    given = values.astype(float), np.full(2, 1e-3), 1e6, KNOWN.rows, 0.7
    found = integrated_log_density(*(jnp.asarray(x, jnp.float32) for x in given))
    covariance = 1e-6 * (np.eye(6) + 1e6 * np.ones((6, 6)) + 0.7 * KNOWN.rows @ KNOWN.rows.T)
    density = scipy.stats.multivariate_normal(np.zeros(6), covariance).logpdf
    np.testing.assert_allclose(found, density(given[0].T).sum(), rtol=1e-3)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("loadings", ["gamma", "signed"])
def test_the_joint_density_is_that_of_the_explicit_program(loadings):
    """log p(Y, theta) = log p(Y, X, B, theta) - log p(X | Y, theta) - log p(B | theta), anywhere.

    Of gamma loadings B is one of theta; intercepts have theirs integrated out in either case.
    """
    plain, data, looks = make_problem(4, repeats=False)
    own = {
        "row_relevance": 0.7,
        "column_relevance": 0.4,
        "column_weights": RNG.normal(size=(2, 3)),
        "prediction_weight": 0.3,
    }
    if loadings == "gamma":
        own["row_weights"] = 0.3 * RNG.normal(size=(3, 3))
    sites = {**plain._asdict(), **own, "latents": RNG.normal(size=(5, 3))}
    sites = {name: value for name, value in sites.items() if value is not None}
    for name in ("latent_means", "noise_scales", "intercept_scale", "offsets"):
        del sites[name]
    if loadings == "signed":
        del sites["gamma"]
    model = informed(gamma_process(rank=3, loadings=loadings, intercepts=True), KNOWN)
    parameters = model.constrain(
        model.unconstrain(plain._replace(**jax.tree.map(jnp.asarray, own)))
    )
    np.testing.assert_allclose(
        parameters.latent_means, KNOWN.columns @ own["column_weights"], rtol=1e-12
    )

    weights = {"intercept_weights": (plain.intercepts[:, None], np.ones(1))}
    if loadings == "signed":
        weights["row_weights"] = (plain.loadings, np.asarray(plain.strengths))
    given = 0.0
    for name, (left, scale) in weights.items():
        sites[name] = RNG.normal(size=(3, scale.size))
        precision = KNOWN.rows.T @ KNOWN.rows + np.eye(3) / own["row_relevance"]
        mean = np.linalg.solve(precision, KNOWN.rows.T @ np.asarray(left))
        for k, s in enumerate(scale):
            covariance = s**2 * np.linalg.inv(precision)
            given += scipy.stats.multivariate_normal.logpdf(
                sites[name][:, k], mean[:, k], covariance
            )
    bare = parameters._replace(prediction=None)
    for n, (seen, values) in enumerate(looks):
        rest = values - 0.3 * KNOWN.entries[seen, n]
        mean, covariance = dense_latents(in_column(bare, n), seen, rest)
        means = np.asarray(parameters.latent_means)[n]
        given += scipy.stats.multivariate_normal.logpdf(
            sites["latents"][n], means + mean, covariance
        )
    program = functools.partial(
        numpyro_model, rank=3, loadings=loadings, intercepts=True, features=KNOWN
    )
    joint, _ = log_density(program, (data,), {}, sites)
    unconstrained = model.unconstrain(parameters)
    value = model.log_joint(unconstrained, data) - model.log_volume(unconstrained)
    np.testing.assert_allclose(value, joint - given, rtol=1e-10)


@pytest.mark.parametrize("loadings", ["gamma", "signed"])
def test_prior_draws_have_what_features_say(loadings):
    """Of 4000 draws: given the weights the mean of loadings; covariance of intercepts; p = G B."""
    model = informed(gamma_process(rank=2, loadings=loadings, intercepts=True), KNOWN)
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.jit(jax.vmap(lambda key: model.sample_prior(key, 6, 5)))(keys)
    drawn = jax.tree.map(lambda x: np.asarray(x, np.float64), drawn)
    np.testing.assert_allclose(
        drawn.latent_means, KNOWN.columns @ drawn.column_weights, rtol=1e-3, atol=1e-3
    )
    # A half-Cauchy root has its median at one; so has a Cauchy weight without its sign.
    for one in (drawn.row_relevance, drawn.column_relevance, np.abs(drawn.prediction_weight)):
        assert abs(np.mean(one < 1.0) - 0.5) < 5 * 0.5 / np.sqrt(4000)
    f, relevance = KNOWN.rows, drawn.row_relevance[:, None]
    spread = relevance * (f**2).sum(0)[None]  # of F'b along each coordinate, beside the noise
    z = drawn.intercepts @ f / np.sqrt((f**2).sum(0) * (1.0 + spread))
    assert (abs((z**2).mean(0) - 1.0) < 5 * np.sqrt(2 / 4000)).all()
    if loadings == "gamma":
        shape = (drawn.gamma * drawn.strengths.T).T[:, None]
        rate = drawn.gamma[:, None, None] * np.exp(-np.clip(f @ drawn.row_weights, -20, 20))
        shape = np.broadcast_to(shape, rate.shape)
        usual = (shape > 0.5) & (drawn.loadings > 1e-12) & (drawn.loadings < 1e12)
        uniform = scipy.stats.gamma.cdf(drawn.loadings * rate, shape)[usual]
        assert scipy.stats.kstest(uniform[::7], "uniform").pvalue > 5e-4


def test_nothing_known_leaves_the_model_as_it_is():
    model = gamma_process(rank=2)
    assert informed(model, Features()) is model
