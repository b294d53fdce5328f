"""The held-out error of the convex completion: small where the matrix can be completed."""

import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.completable import held_out_error
from smc_jax.types import Observations


def looks(share, rank=2, noise=0.1):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(30, rank)) @ rng.normal(size=(rank, 40))
    matrix += noise * rng.normal(size=matrix.shape)
    return Observations.from_matrix(
        jnp.asarray(matrix), jnp.asarray(rng.uniform(size=(30, 40)) < share)
    )


def test_the_error_comes_down_to_the_noise_as_more_is_seen():
    error = jax.jit(held_out_error(fraction=0.2, noise_deviation=0.1))
    errors = [float(error(jax.random.key(0), looks(share))) for share in (0.05, 0.3, 0.9)]
    assert errors[0] > 8 * 0.1
    assert errors[0] > errors[1] > errors[2]
    assert 0.08 < errors[2] < 0.2


def test_the_held_out_entries_are_not_shown():
    """A change of what is held out changes the error, and by just as much as the change."""
    observations = looks(0.5, rank=1, noise=0.0)
    error = jax.jit(held_out_error(fraction=0.3, noise_deviation=1e-3))
    key = jax.random.key(1)
    held = (observations.count > 0) & jax.random.bernoulli(key, 0.3, (30, 40))
    assert float(error(key, observations)) < 0.05
    shifted = observations._replace(total=observations.total + 7.0 * held)
    np.testing.assert_allclose(error(key, shifted), 7.0, atol=0.05)


def test_nothing_seen_is_no_error():
    error = held_out_error(fraction=0.2, noise_deviation=0.1)
    assert jnp.isnan(error(jax.random.key(0), Observations.empty(4, 5)))
