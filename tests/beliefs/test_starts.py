"""Where a fit starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import low_rank_data

from smc_jax.beliefs.starts import STARTS, leading_component
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations

MODEL = gamma_process(rank=4)
DATA = {"rows": 12, "columns": 20, "rank": 2}


def test_leading_component_of_rank_one():
    """Everything seen of w x' without noise: w, but for the shrinkage and the diagonal."""
    w = np.linspace(0.5, 2, 30)
    latents = np.random.default_rng(0).normal(size=400)
    latents /= np.sqrt((latents**2).mean())
    values = jnp.asarray(np.outer(w, latents), jnp.float32)
    observations = Observations.from_matrix(values, jnp.ones_like(values))
    np.testing.assert_allclose(leading_component(observations, jnp.zeros(30)), w, rtol=0.08)


@pytest.mark.parametrize("seed", [4, 5])
def test_map_start_is_well_posed(seed):
    """Columns together have the data's scale, and the joint density is above where it began."""
    observations = low_rank_data(seed, **DATA)
    points = {
        name: jax.jit(STARTS[name](MODEL))(jax.random.key(0), observations)
        for name in ("spectral", "map")
    }
    value = {name: float(MODEL.log_joint(u, observations)) for name, u in points.items()}
    assert value["map"] > value["spectral"] + 10
    # E y^2 = |w_d|^2 + sigma^2 on average over rows.
    rows = DATA["rows"]
    scale = np.sqrt(observations.squared_error(0.0).sum() / observations.number())
    norms = np.linalg.norm(MODEL.constrain(points["map"]).loadings, axis=0) / np.sqrt(rows)
    assert norms.max() < 3 * scale
    assert np.sqrt((norms**2).sum()) > scale / 3
