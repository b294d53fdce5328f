"""The held-out error of the convex completion: small where the matrix can be completed."""

import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.completion.stopping import HeldOut, completable_at, held_out_errors
from smc_jax.observations import Observations


def seen(share, rank=2, noise=0.1):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(30, rank)) @ rng.normal(size=(rank, 40))
    matrix += noise * rng.normal(size=matrix.shape)
    return Observations.from_matrix(
        jnp.asarray(matrix), jnp.asarray(rng.uniform(size=(30, 40)) < share)
    )


def test_the_error_comes_down_to_the_noise_as_more_is_seen():
    errors = jax.jit(held_out_errors(fraction=0.2, noise_deviation=0.1))
    found = [float(errors(jax.random.key(0), seen(share)).completion) for share in (0.12, 0.3, 0.9)]
    assert found[0] > 6 * 0.1
    assert found[0] > found[1] > found[2]
    assert 0.08 < found[2] < 0.2


def test_the_held_out_entries_are_not_shown():
    """A change of what is held out changes the error, and by just as much as the change."""
    observations = seen(0.5, rank=1, noise=0.0)
    errors = jax.jit(held_out_errors(fraction=0.3, noise_deviation=1e-3))
    key = jax.random.key(1)
    held = observations.seen() & jax.random.bernoulli(key, 0.3, (30, 40))
    assert float(errors(key, observations).completion) < 0.05
    shifted = observations.relative_to(-7.0 * held)
    np.testing.assert_allclose(errors(key, shifted).completion, 7.0, atol=0.05)
    size = np.sqrt(np.mean(np.asarray(shifted.average())[np.asarray(held)] ** 2))
    np.testing.assert_allclose(errors(key, shifted).zero, size, rtol=1e-5)


def test_too_few_entries_are_no_error():
    errors = jax.jit(held_out_errors(fraction=0.5, noise_deviation=0.1))
    for share in (0.0, 0.02):
        assert np.isnan(errors(jax.random.key(0), seen(share))).all()


def test_a_matrix_of_noise_is_never_completable():
    errors = jax.jit(held_out_errors(fraction=0.2, noise_deviation=0.1))
    found = [errors(jax.random.key(n), seen(0.1 * n, rank=0)) for n in range(2, 11)]
    found = HeldOut(*(np.asarray(error)[None] for error in zip(*found, strict=True)))
    assert (found.zero < 0.1).any()
    assert completable_at(found, noise_deviation=0.1, factor=1.3) == -1


def test_the_first_refit_within_the_factor_that_explains_something():
    completion = np.array([[3.0, 1.2, 1.1], [3.0, 3.0, 1.5], [np.nan, 1.2, 1.2], [1.25, 1.25, 1.1]])
    zero = np.array([[4.0, 4.0, 4.0], [4.0, 4.0, 4.0], [np.nan, 1.3, 1.5], [1.25, 1.3, 1.2]])
    settings = {"noise_deviation": 1.0, "factor": 1.3}
    # Row 2: 0.44 of noise-free error is more than half of 0.69, and less than half of 1.25.
    # Row 3: as bad as predicting 0, twice; then 0.21 against half of 0.44.
    found = completable_at(HeldOut(completion, zero), **settings)
    np.testing.assert_array_equal(found, [1, -1, 2, 2])
    below = np.array([[0.9]])  # the held-out entries happen to be smaller than the noise
    assert completable_at(HeldOut(below, below), **settings) == -1
    nothing = HeldOut(np.zeros((2, 0)), np.zeros((2, 0)))
    np.testing.assert_array_equal(completable_at(nothing, **settings), [-1, -1])
