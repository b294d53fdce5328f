"""Held-out ratings of MovieLens 1M by SMURFF (BPMF, Macau) and myFM, as peers.

They run in an environment of their own, which has neither jax nor smc_jax:

python3.11 -m venv .cache/benchmarks/movielens
.cache/benchmarks/movielens/bin/pip install smurff==1.1 myfm==0.4.0 numpy==2.4.6 scipy==1.17.1
.cache/benchmarks/movielens/bin/python -m benchmarks.movielens_peer \
    --tool=bpmf --split=5 --rank=16 --seeds=1 --out=peers.jsonl

The splits, and the data they need, are those of `benchmarks/movielens_splits.py`. The settings are
published ones:

* `bpmf`: Bayesian probabilistic matrix factorisation, 100 samples of burn-in and 400 that are kept,
  the noise adapted to the data, ratings minus their mean.
* `macau`: the same, with a regression of the latents on the features; it needs `--features`.
* `myfm`: a factorisation machine by Gibbs sampling, 512 iterations of which the last 500 are kept.
  Its variables are the user and the film, with `--features` the features too, a group of its own
  for each kind.

A line of JSON is appended to `--out` for every finished seed; seeds that are there already, with
the same settings, are skipped.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import myfm
import numpy as np
import scipy.sparse as sp
import smurff
from tqdm import tqdm

from benchmarks import movielens_splits as splits

SMURFF = {"burnin": 100, "nsamples": 400}
MYFM = {"n_iter": 512, "n_kept_samples": 500}
PACKAGES = ("smurff", "myfm", "numpy", "scipy")


class Sides(NamedTuple):
    """The features of films and users."""

    films: splits.Features
    users: splits.Features


def by_smurff(
    split: splits.Split, sides: Sides | None, *, rank: int, seed: int, threads: int
) -> np.ndarray:
    """Predictions of BPMF, or with features of Macau; films are rows, users columns."""
    train, test = split
    shape = (train.film_ids.size, train.user_ids.size)
    mean = train.stars.mean()
    priors = ["normal" if sides is None else "macau"] * 2
    session = smurff.TrainSession(
        priors=priors, num_latent=rank, seed=seed, num_threads=threads, verbose=0, **SMURFF
    )
    centred = sp.csr_matrix((train.stars - mean, (train.film, train.user)), shape)
    session.setTrain(centred, smurff.AdaptiveNoise())
    # The values are not used, but a zero would not be stored.
    session.setTest(sp.csr_matrix((test.stars, (test.film, test.user)), shape))
    for mode, side in enumerate(sides or ()):
        session.addSideInfo(mode, sp.csr_matrix(side.matrix), direct=True)
    session.init()
    while session.step():
        pass
    found = {tuple(one.coords): one.pred_avg for one in session.getTestPredictions()}
    entries = zip(test.film.tolist(), test.user.tolist(), strict=True)
    return mean + np.array([found[entry] for entry in entries])


def by_myfm(split: splits.Split, sides: Sides | None, *, rank: int, seed: int) -> np.ndarray:
    """Predictions of a factorisation machine; every user and every film is a block of variables."""
    sizes = (split.train.user_ids.size, split.train.film_ids.size)
    given = (None, None) if sides is None else (sides.users, sides.films)
    variables, groups = [], []
    for size, features in zip(sizes, given, strict=True):
        parts, own = [sp.identity(size)], [size]
        if features is not None:
            parts, own = [*parts, features.matrix], [*own, *features.groups.values()]
        variables.append(sp.csr_matrix(sp.hstack(parts)))
        groups += own

    def blocks(ratings: splits.Ratings) -> list:
        indices = (ratings.user, ratings.film)
        return [myfm.RelationBlock(*pair) for pair in zip(indices, variables, strict=True)]

    machine = myfm.MyFMRegressor(rank=rank, random_seed=seed)
    machine.fit(None, split.train.stars, X_rel=blocks(split.train), group_shapes=groups, **MYFM)
    return machine.predict(None, blocks(split.test))


def make_tool(tool: str, rank: int, threads: int) -> tuple[Callable, dict[str, Any], int]:
    """The program of a tool, its settings, and the samples that it keeps."""
    if tool == "myfm":
        return (
            lambda split, sides, seed: by_myfm(split, sides, rank=rank, seed=seed),
            dict(MYFM),
            MYFM["n_kept_samples"],
        )
    return (
        lambda split, sides, seed: by_smurff(split, sides, rank=rank, seed=seed, threads=threads),
        dict(SMURFF),
        SMURFF["nsamples"],
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description="SMURFF and myFM on MovieLens 1M.")
    parser.add_argument("--tool", choices=("bpmf", "macau", "myfm"), required=True)
    parser.add_argument("--split", choices=tuple(splits.SIZES), default="5")
    parser.add_argument("--rank", type=int, default=16, help="Latent dimensions.")
    parser.add_argument("--seeds", type=int, default=1, help="How many seeds.")
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--features", action="store_true", help="Of users and films.")
    parser.add_argument("--threads", type=int, default=1, help="Of SMURFF; myFM has one.")
    parser.add_argument("--data", help="The folder of the data; ml-1m in SMC_DATA_DIR if none.")
    parser.add_argument("--out", type=Path, required=True, help="File of JSON lines to extend.")
    flags = parser.parse_args(arguments)
    if flags.tool != "myfm" and flags.features != (flags.tool == "macau"):
        parser.error("macau needs --features, and bpmf takes none")
    return flags


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the seeds that are not in the file yet."""
    flags = parse(arguments)
    program, settings, samples = make_tool(flags.tool, flags.rank, flags.threads)
    run = {
        "tool": flags.tool,
        "split": flags.split,
        "features": flags.features,
        "rank": flags.rank,
        "samples": samples,
        "settings": settings,
    }
    made = splits.versions(PACKAGES)
    folder = splits.data_folder(flags.data)
    ratings = splits.read_ratings(folder)
    split = splits.make_split(ratings, flags.split)
    sides = None
    if flags.features:
        films = splits.film_features(folder, ratings)
        sides = Sides(films, splits.user_features(folder, ratings))
    wanted = range(flags.first, flags.first + flags.seeds)
    for seed in tqdm(splits.missing_seeds(flags.out, run, wanted), unit="seed"):
        found = splits.measured(lambda: program(split, sides, seed), split.test.stars)
        splits.append(flags.out, {**run, "seed": seed, **found, "versions": made})
        told = f"{flags.tool} {flags.split} seed {seed}: RMSE {found['rmse']:.4f}"
        tqdm.write(f"{told}, {found['seconds']:.0f} s, {found['peak_MiB']} MiB")


if __name__ == "__main__":
    main()
