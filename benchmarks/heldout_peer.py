"""Held-out values of published tables by SMURFF (BPMF, Macau) and myFM, as peers.

They run in an environment of their own, which has neither jax nor smc_jax:

python3.11 -m venv .cache/benchmarks/heldout
.cache/benchmarks/heldout/bin/pip install smurff==1.1 myfm==0.4.0 numpy==2.4.6 scipy==1.17.1
.cache/benchmarks/heldout/bin/python -m benchmarks.heldout_peer \
    --tool=bpmf --split=5 --rank=16 --seeds=1 --out=peers.jsonl

The splits, and the data they need, are those of `benchmarks/heldout_movielens.py` and
`benchmarks/heldout_tables.py`. The settings are published ones:

* `bpmf`: Bayesian probabilistic matrix factorisation, 100 samples of burn-in and 400 that are kept,
  the noise adapted to the data, values minus their mean.
* `macau`: the same, with a regression of the latents on the features; it needs `--features`.
* `myfm`: a factorisation machine by Gibbs sampling, 512 iterations of which the last 500 are kept.
  Its variables are the column and the row, with `--features` the features too, a group of its own
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

from benchmarks import heldout_data, heldout_movielens, heldout_tables
from benchmarks.heldout_data import Features, Split, Values

SMURFF = {"burnin": 100, "nsamples": 400}
MYFM = {"n_iter": 512, "n_kept_samples": 500}
PACKAGES = ("smurff", "myfm", "numpy", "scipy")
TASKS = heldout_movielens.TASKS | heldout_tables.TASKS


class Sides(NamedTuple):
    """The features of rows and columns."""

    rows: Features
    columns: Features


def by_smurff(
    split: Split, sides: Sides | None, *, rank: int, seed: int, threads: int
) -> np.ndarray:
    """Predictions of BPMF, or with features of Macau."""
    train, test = split
    shape = (train.row_ids.size, train.column_ids.size)
    mean = train.values.mean()
    priors = ["normal" if sides is None else "macau"] * 2
    session = smurff.TrainSession(
        priors=priors, num_latent=rank, seed=seed, num_threads=threads, verbose=0, **SMURFF
    )
    centred = sp.csr_matrix((train.values - mean, (train.row, train.column)), shape)
    session.setTrain(centred, smurff.AdaptiveNoise())
    # The values are not used, but a zero would not be stored.
    session.setTest(sp.csr_matrix((test.values, (test.row, test.column)), shape))
    for mode, side in enumerate(sides or ()):
        session.addSideInfo(mode, sp.csr_matrix(side.matrix), direct=True)
    session.init()
    while session.step():
        pass
    found = {tuple(one.coords): one.pred_avg for one in session.getTestPredictions()}
    entries = zip(test.row.tolist(), test.column.tolist(), strict=True)
    return mean + np.array([found[entry] for entry in entries])


def by_myfm(split: Split, sides: Sides | None, *, rank: int, seed: int) -> np.ndarray:
    """Predictions of a factorisation machine with a block of variables a column and a row."""
    sizes = (split.train.column_ids.size, split.train.row_ids.size)
    given = (None, None) if sides is None else (sides.columns, sides.rows)
    variables, groups = [], []
    for size, features in zip(sizes, given, strict=True):
        parts, own = [sp.identity(size)], [size]
        if features is not None:
            parts, own = [*parts, features.matrix], [*own, *features.groups.values()]
        variables.append(sp.csr_matrix(sp.hstack(parts)))
        groups += own

    def blocks(values: Values) -> list:
        indices = (values.column, values.row)
        return [myfm.RelationBlock(*pair) for pair in zip(indices, variables, strict=True)]

    machine = myfm.MyFMRegressor(rank=rank, random_seed=seed)
    machine.fit(None, split.train.values, X_rel=blocks(split.train), group_shapes=groups, **MYFM)
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
    parser = argparse.ArgumentParser(description="SMURFF and myFM on held-out values.")
    parser.add_argument("--tool", choices=("bpmf", "macau", "myfm"), required=True)
    parser.add_argument("--split", choices=tuple(TASKS), default="5")
    parser.add_argument("--rank", type=int, default=16, help="Latent dimensions.")
    parser.add_argument("--seeds", type=int, default=1, help="How many seeds.")
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--features", action="store_true", help="Of rows and columns.")
    parser.add_argument("--threads", type=int, default=1, help="Of SMURFF; myFM has one.")
    parser.add_argument("--data", help="The folder; its own in SMC_DATA_DIR if none.")
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
    made = heldout_data.versions(PACKAGES)
    task = TASKS[flags.split]
    folder = heldout_data.data_folder(flags.data, task)
    split = task.read(folder)
    sides = None
    if flags.features:
        sides = Sides(task.row_features(folder, split), task.column_features(folder, split))
    wanted = range(flags.first, flags.first + flags.seeds)
    for seed in tqdm(heldout_data.missing_seeds(flags.out, run, wanted), unit="seed"):
        found = heldout_data.measured(
            lambda: program(split, sides, seed), split.test.values, task.bounds
        )
        heldout_data.append(flags.out, {**run, "seed": seed, **found, "versions": made})
        told = f"{flags.tool} {flags.split} seed {seed}: RMSE {found['rmse']:.4f}"
        tqdm.write(f"{told}, {found['seconds']:.0f} s, {found['peak_MiB']} MiB")


if __name__ == "__main__":
    main()
