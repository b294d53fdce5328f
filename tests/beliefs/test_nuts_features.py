"""Chains with features and a prediction against NUTS on the explicit program."""

import functools

import jax
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats

from smc_jax import presets
from smc_jax.model.features import Features, coordinates, entry_prediction
from smc_jax.model.numpyro_model import numpyro_model
from smc_jax.observations import Observations

MODEL = {"loadings": "signed", "intercepts": True, "common": 2.0, "noise_shape": 3.0}


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("residual", [True, False])
def test_gibbs_agrees_with_nuts(residual):
    """Kolmogorov-Smirnov tests at 1e-4 of what the data identify, on 400 thinned draws of each.

    Draws that are still a little alike make a test stricter than it says; with seven quantities
    and two cases about one seed in two hundred fails.
    """
    rng = np.random.default_rng(1000)
    known = rng.normal(size=(5, 2))
    truth = known @ rng.normal(size=(2, 8)) + rng.normal(size=(5, 8))
    features = Features(
        coordinates(known),
        coordinates(rng.normal(size=(8, 2))),
        entry_prediction(truth + rng.normal(size=truth.shape)),
    )
    data = Observations.from_matrix(truth, rng.uniform(size=truth.shape) < 0.7)
    settings = MODEL | {"residual": residual}
    program = functools.partial(numpyro_model, rank=2, features=features, **settings)
    kernel = NUTS(program, target_accept_prob=0.95, max_tree_depth=9)
    sampler = MCMC(
        kernel,
        num_warmup=1500,
        num_samples=4000,
        num_chains=4,
        thinning=40,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(0), data)
    exact = sampler.get_samples()

    belief = presets.fitted_belief(
        rank=2,
        model=settings,
        method="mcmc",
        features=features,
        gibbs={"chains": 4, "draws": 400, "sweeps": 50, "first_sweeps": 1000},
    )
    begun = belief.init(jax.random.key(1), data)
    found = jax.jit(belief.refit)(jax.random.key(2), begun, data)
    drawn = belief.store(found)
    theirs = {
        "sigma": exact["sigma"],
        "prediction weight": exact["prediction_weight"],
        "largest strength": exact["strengths"].max(1),
    }
    ours = {
        "sigma": drawn.sigma,
        "prediction weight": drawn.prediction_weight,
        "largest strength": drawn.strengths.max(1),
    }
    if residual:
        for d in range(2):
            theirs[f"intercept {d}"] = exact["intercepts"][:, d]
            ours[f"intercept {d}"] = drawn.intercepts[:, d]
            products = exact["loadings"][:, d] * exact["loadings"][:, d + 1]
            theirs[f"covariance {d}"] = products.sum(1)
            ours[f"covariance {d}"] = (drawn.loadings[:, d] * drawn.loadings[:, d + 1]).sum(1)
    for name, values in theirs.items():
        value = stats.ks_2samp(np.asarray(values), np.asarray(ours[name])).pvalue
        print(f"{name:<20}{value:.4f}")
        assert value > 1e-4, name
