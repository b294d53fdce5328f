"""Loadings that are what features say: their exact conditional, and rows that nobody ever asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import assert_gaussian, make_problem, with_column_noise

from smc_jax import presets
from smc_jax.beliefs import starts
from smc_jax.beliefs.base import parameter_draws
from smc_jax.beliefs.feature_weights import Weights
from smc_jax.beliefs.features_alone import sample_rows_alone
from smc_jax.beliefs.signed_conditionals import Prior, State
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.model import gaussian
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("common", [2.0, 0.0])
def test_turns_end_in_the_joint_posterior_of_all_weights(common):
    """Twenty rounds of turns against the dense regression on products of features and latents."""
    problem = make_problem(1, rows=6, columns=5, rank=2)
    rng = np.random.default_rng(0)
    given = with_column_noise(problem.parameters, 5)._replace(intercept_scale=jnp.asarray(1.5))
    features = coordinates(rng.normal(size=(6, 2)))
    state = State(
        given,
        jnp.asarray(rng.normal(size=2) * (common > 0.0)),
        jnp.asarray(rng.normal(size=(5, 2))),
        Weights(jnp.asarray(rng.normal(size=(2, 3))), jnp.ones(())),
    )
    model = gamma_process(rank=2, loadings="signed", intercepts=True, common=common, residual=False)
    prior = Prior.of(model)

    @jax.jit
    @jax.vmap
    def end(key):
        def move(state, key):
            after = sample_rows_alone(key, state, problem.observations, prior, features)
            return after, None

        return jax.lax.scan(move, state, jax.random.split(key, 20))[0]

    drawn = end(jax.random.split(jax.random.key(0), 20_000))
    size = np.append(np.asarray(given.strengths), 1.5)
    constant = size * np.append(np.sqrt([common, common]), 1.0)
    scale = np.concatenate([constant, size, size])  # of v and c, and of B and B_b
    f, x = np.column_stack([np.ones(6), features]), np.asarray(state.latents)
    rows = np.concatenate([seen for seen, _ in problem.looks])
    columns = np.repeat(np.arange(5), [len(seen) for seen, _ in problem.looks])
    values = np.concatenate([values for _, values in problem.looks])
    own = np.column_stack([x, np.ones(5)])[columns]
    design = (f[rows, :, None] * own[:, None]).reshape(len(rows), -1) * scale
    variance = np.asarray(given.noise())[columns] ** 2
    covariance = np.linalg.inv(design.T @ (design / variance[:, None]) + np.eye(9))
    mean = covariance @ design.T @ (values / variance)
    c = drawn.parameters.intercepts.mean(1)
    weights = drawn.row_weights.weights
    found = jnp.concatenate([drawn.shared, c[:, None], weights.reshape(len(c), -1)], axis=1)
    free = scale > 0.0
    assert_gaussian(np.asarray(found / scale)[:, free], mean[free], covariance[np.ix_(free, free)])
    made = drawn.shared[:, None] + features @ weights[..., :2]
    np.testing.assert_allclose(drawn.parameters.loadings, made, atol=1e-12)


def test_a_row_that_nobody_ever_asked_is_predicted():
    """Rows are what two features say; a third of the rows have nothing seen."""
    rng = np.random.default_rng(1001)
    features = rng.normal(size=(30, 2))
    truth = (1.0 + features) @ rng.normal(size=(2, 25))
    mask = rng.uniform(size=truth.shape) < 0.4
    mask[::3] = False
    data = Observations.from_matrix(truth + 0.2 * rng.normal(size=truth.shape), mask)
    belief = presets.fitted_belief(
        rank=3,
        model=presets.ALIKE | {"residual": False},
        method="mcmc",
        standardise=True,
        features=Features(rows=coordinates(features)),
        gibbs={"first_sweeps": 100, "draws": 8, "sweeps": 2},
    )
    state = jax.jit(belief.refit)(jax.random.key(1), belief.init(jax.random.key(0), data), data)
    draws = parameter_draws(jax.random.key(2), belief, state, 8)

    def predicted(one):
        return gaussian.entry_moments(one, gaussian.latent_posterior(one, data))[0]

    error = np.asarray(jax.vmap(predicted)(draws).mean(0) - truth)[::3]
    assert np.sqrt((error**2).mean()) < 0.25 * truth[::3].std()


def test_without_features_nothing_is_left_of_the_rows():
    model = gamma_process(rank=2, loadings="signed", residual=False)
    with pytest.raises(ValueError, match=r"^model.residual: False needs features of the rows"):
        signed_gibbs(model, starts.spectral(model))
    for method in ("svi", "mcmc"):
        settings = {"model": {"loadings": "signed", "residual": False}, "method": method}
        with pytest.raises(ValueError, match=r"^model.residual: False needs method=mcmc and"):
            presets.fitted_belief(rank=2, **settings)
    with pytest.raises(ValueError, match=r"^residual: False needs loadings=signed"):
        gamma_process(rank=2, residual=False)
