"""Completed blocks: ratings are kept, gaps are predicted by the best rank, within the bounds."""

import numpy as np

from smc_jax.data.completed import completed
from smc_jax.data.ratings import from_triplets


def block(bounds=None):
    rng = np.random.default_rng(0)
    truth = 3.0 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60))
    mask = rng.random(truth.shape) < 0.6
    noisy = truth + 0.1 * rng.normal(size=truth.shape)
    if bounds is not None:
        noisy = np.clip(noisy, *bounds)
    row, column = np.nonzero(mask)
    return truth, mask, from_triplets(row, column, noisy[mask], bounds=bounds)


def test_gaps_are_predicted_by_the_rank_that_held_out_ratings_choose():
    truth, mask, ratings = block()
    found = completed(ratings, ranks=(1, 2, 6))
    np.testing.assert_array_equal(found.values[mask], ratings.value)
    assert found.rank == min(found.errors, key=found.errors.get) != 1
    assert found.errors[2] < 0.25 < 0.7 < found.errors[1]
    # The held-out ratings have noise, and their completion saw less.
    error = np.sqrt(np.mean((found.values - truth)[~mask] ** 2))
    assert error < found.errors[found.rank]


def test_predictions_stay_within_the_bounds():
    _, mask, ratings = block(bounds=(1.0, 5.0))
    found = completed(ratings, ranks=(2,))
    assert found.values.min() >= 1.0
    assert found.values.max() <= 5.0
    assert (found.values[~mask] == 5.0).any()
