"""A block of ratings whose missing entries are completed by OptSpace, to be taken as the truth."""

import contextlib
import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smc_jax.completion import optspace as algorithm
from smc_jax.completion.optspace import complete, optspace
from smc_jax.data.ratings import Ratings

RANKS = range(1, 9)
VERSION = 1  # of what is cached: to be raised when `completed` or the layout of its file changes


class Completed(NamedTuple):
    """A matrix without gaps."""

    values: np.ndarray  # [D, N] float32: the ratings, and the completion where there are none
    rank: int  # of the completion
    errors: dict[int, float]  # of each rank tried, on held-out ratings


Progress = Callable[[Iterable[int]], Iterable[int]]  # passes on what it is given, as tqdm does


def completed(
    ratings: Ratings,
    *,
    ranks: Sequence[int] = RANKS,
    held_out: float = 0.1,
    seed: int = 0,
    progress: Progress = iter,
) -> Completed:
    """Completes what deviates from the row means, by the rank that predicts held-out ratings best.

    Ratings stay as they are; the completion is cut to the declared bounds.

    Args:
      ratings: the block.
      ranks: those that are tried, as far as the block has rows and columns for them.
      held_out: fraction of the ratings that choose the rank.
      seed: which ones these are.
      progress: is given the ranks, and may tell how far they are.
    """
    values, mask = ratings.dense()
    held = mask & (np.random.default_rng(seed).random(mask.shape) < held_out)

    def predict(shown: np.ndarray, rank: int) -> np.ndarray:
        means = (values * shown).sum(1) / np.maximum(shown.sum(1), 1)
        fit = optspace(values - means[:, None], shown, rank=rank)
        return means[:, None] + np.asarray(complete(fit))

    def error(rank: int) -> float:
        return float(np.sqrt(np.mean((predict(mask & ~held, rank) - values)[held] ** 2)))

    possible = [rank for rank in ranks if rank <= min(values.shape)]
    errors = {rank: error(rank) for rank in progress(possible)}
    rank = min(errors, key=lambda rank: errors[rank])
    prediction = predict(mask, rank)
    if ratings.bounds is not None:
        prediction = np.clip(prediction, *ratings.bounds)
    return Completed(np.where(mask, values, prediction).astype(np.float32), rank, errors)


def cached_completion(
    ratings: Ratings,
    folder: str | os.PathLike[str],
    *,
    ranks: Sequence[int] = RANKS,
    held_out: float = 0.1,
    seed: int = 0,
    progress: Progress = iter,
) -> Completed:
    """As `completed`, but kept in a file of `folder`, from which the next call reads it.

    The file's name tells the ratings and the settings. One that cannot be read is written anew;
    where none can be written, nothing is kept.
    """
    settings = tuple(map(int, ranks)), float(held_out), int(seed)
    path = Path(folder) / f"{_digest(ratings, settings)}.npz"
    found = _load(path)
    if found is None or found.values.shape != ratings.shape:
        found = completed(ratings, ranks=ranks, held_out=held_out, seed=seed, progress=progress)
        with contextlib.suppress(OSError):
            _save(path, found)
    return found


def _digest(ratings: Ratings, settings: tuple) -> str:
    bounds = None if ratings.bounds is None else tuple(map(float, ratings.bounds))
    digest = hashlib.sha256(repr((VERSION, ratings.shape, bounds, settings)).encode())
    digest.update(inspect.getsource(algorithm).encode())  # another completion, another truth
    for each in (ratings.row, ratings.column, ratings.value):
        digest.update(each.tobytes())
    return digest.hexdigest()


def _load(path: Path) -> Completed | None:
    """What the file holds, or None."""
    try:
        # Opened here: NumPy leaves a damaged archive open.
        with path.open("rb") as stream, np.load(stream) as file:
            errors = zip(file["ranks"].tolist(), file["errors"].tolist(), strict=True)
            return Completed(file["values"], int(file["rank"]), dict(errors))
    except Exception:  # a damaged file can raise anything, and costs no more than the time
        return None


def _save(path: Path, found: Completed) -> None:
    """Writes the file whole or not at all, whoever else may be writing it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        partial = Path(scratch) / path.name
        ranks, errors = list(found.errors), list(found.errors.values())
        np.savez(partial, values=found.values, rank=found.rank, ranks=ranks, errors=errors)
        os.replace(partial, path)
