"""A block of ratings whose missing entries are completed by OptSpace, to be taken as the truth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smc_jax.data.ratings import Ratings
from smc_jax.optspace import complete, optspace


class Completed(NamedTuple):
    """A matrix without gaps."""

    values: np.ndarray  # [D, N] float32: the ratings, and the completion where there are none
    rank: int  # of the completion
    errors: dict[int, float]  # of each rank tried, on held-out ratings


def completed(
    ratings: Ratings, *, ranks: Sequence[int] = range(1, 9), held_out: float = 0.1, seed: int = 0
) -> Completed:
    """Completes what deviates from the row means, by the rank that predicts held-out ratings best.

    Ratings stay as they are; the completion is cut to the declared bounds.

    Args:
      ratings: the block.
      ranks: those that are tried.
      held_out: fraction of the ratings that choose the rank.
      seed: which ones these are.
    """
    values, mask = ratings.dense()
    held = mask & (np.random.default_rng(seed).random(mask.shape) < held_out)

    def predict(shown: np.ndarray, rank: int) -> np.ndarray:
        means = (values * shown).sum(1) / np.maximum(shown.sum(1), 1)
        fit = optspace(values - means[:, None], shown, rank=rank)
        return means[:, None] + np.asarray(complete(fit))

    def error(rank: int) -> float:
        return float(np.sqrt(np.mean((predict(mask & ~held, rank) - values)[held] ** 2)))

    errors = {rank: error(rank) for rank in ranks}
    rank = min(errors, key=lambda rank: errors[rank])
    prediction = predict(mask, rank)
    if ratings.bounds is not None:
        prediction = np.clip(prediction, *ratings.bounds)
    return Completed(np.where(mask, values, prediction).astype(np.float32), rank, errors)
