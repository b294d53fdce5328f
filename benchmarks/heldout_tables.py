"""Held-out values of two more tables: coats that people rated, and kinases that drugs bind.

Everything here is NumPy alone, for the peers' environment has neither jax nor smc_jax.

* `coat` (Schnabel et al. 2016): people chose the coats of `train.ascii`; those of `test.ascii` were
  given to them at random. Rows are coats, columns people; the folder has the publisher's files.
* `davis` (Davis et al. 2011): a sixth of all entries, at random, as many as the published fold of
  DeepDTA (setting 1) holds out; `RandomState(0).permutation` of the entries says which. Rows are
  kinase targets, columns drugs; the folder has `davis_matrix_pKd.csv`, `target_features_sw50.csv`
  and `drug_features_ecfp4_1024.csv`.
"""

import csv
from pathlib import Path

import numpy as np

from benchmarks.heldout_data import Features, Split, Task, Values

HELD = 6  # one part in six of Davis is held out


def read_coat(folder: Path) -> Split:
    """What people chose to rate, and what they were given to rate."""

    def values(name: str) -> Values:
        stars = np.loadtxt(folder / name).T  # people are lines of the file
        row, column = np.nonzero(stars)
        return Values(row, column, stars[row, column], *map(np.arange, stars.shape))

    return Split(values("train.ascii"), values("test.ascii"))


def coat_features(folder: Path, side: str) -> Features:
    """Features of `item` or `user`, zeros and ones, grouped by what their names begin with."""
    matrix = np.loadtxt(folder / "user_item_features" / f"{side}_features.ascii")
    names = (folder / "user_item_features" / f"{side}_features_map.txt").read_text().split("\n")
    kinds = [name.partition(":")[0] for name in names if name.strip()]
    return Features(matrix, {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})


def coat_weights(folder: Path, values: Values) -> np.ndarray:
    """One over the publisher's estimate of how likely a person chose to rate a coat.

    So weighted, errors on ratings that people chose to give are, on average, those on random ones.
    """
    return 1.0 / np.loadtxt(folder / "propensities.ascii")[values.column, values.row]


def _read_table(path: Path) -> tuple[list[str], np.ndarray]:
    """The ids in the first column of a CSV file, and the numbers in the others."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(file)
    return [line[0] for line in lines], np.array([line[1:] for line in lines], float)


def read_davis(folder: Path) -> Split:
    """All values, a sixth of them held out."""
    path = folder / "davis_matrix_pKd.csv"
    drugs, matrix = _read_table(path)
    with path.open(newline="", encoding="utf-8") as file:
        targets = next(csv.reader(file))[1:]
    row, column = (x.ravel() for x in np.indices(matrix.T.shape))
    everything = Values(row, column, matrix.T.ravel(), np.array(targets), np.array(drugs))
    order = np.random.RandomState(0).permutation(matrix.size)
    held = matrix.size // HELD
    return Split(everything.at(order[held:]), everything.at(order[:held]))


def _features_of(path: Path, ids: np.ndarray) -> Features:
    """The features of some ids, in their order, each with deviation one."""
    found, matrix = _read_table(path)
    position = {identity: i for i, identity in enumerate(found)}
    own = matrix[[position[str(identity)] for identity in ids]]
    deviation = own.std(0)
    own = (own - own.mean(0))[:, deviation > 0] / deviation[deviation > 0]
    return Features(own, {path.stem: own.shape[1]})


TASKS = {
    "coat": Task(
        "coat",
        (1.0, 5.0),
        read_coat,
        lambda folder, split: coat_features(folder, "item"),
        lambda folder, split: coat_features(folder, "user"),
        weights=coat_weights,
    ),
    "davis": Task(
        "davis",
        (5.0, np.inf),
        read_davis,
        lambda folder, split: _features_of(
            folder / "target_features_sw50.csv", split.train.row_ids
        ),
        lambda folder, split: _features_of(
            folder / "drug_features_ecfp4_1024.csv", split.train.column_ids
        ),
    ),
}
