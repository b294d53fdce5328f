"""Held-out values: what a split is, the error, predictions by biases, and the file of results.

Everything here is NumPy alone, for the peers' environment has neither jax nor smc_jax.
"""

import importlib.metadata
import json
import os
import platform
import resource
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Values(NamedTuple):
    """Values of entries, in the order of the file."""

    row: np.ndarray  # [n] index into `row_ids`
    column: np.ndarray  # [n] index into `column_ids`
    values: np.ndarray  # [n] float
    row_ids: np.ndarray  # [D]
    column_ids: np.ndarray  # [N]

    def at(self, chosen: np.ndarray) -> "Values":
        """Some of the values; rows and columns keep their numbers."""
        row, column, values = (x[chosen] for x in (self.row, self.column, self.values))
        return self._replace(row=row, column=column, values=values)


class Split(NamedTuple):
    """Values to learn from, and values to predict."""

    train: Values
    test: Values


class Features(NamedTuple):
    """What is known of rows or of columns."""

    matrix: np.ndarray  # [n, F] float
    groups: dict[str, int]  # how many of its columns, in order, say what

    @classmethod
    def joined(cls, groups: dict[str, np.ndarray]) -> "Features":
        """Groups of features side by side."""
        sizes = {name: columns.shape[1] for name, columns in groups.items()}
        return cls(np.concatenate([*groups.values()], axis=1), sizes)


def one_hot(values: Sequence[str], among: Iterable[str]) -> np.ndarray:
    """A column for each value that there may be; a row has a one where its own value is."""
    return multi_hot([[value] for value in values], among)


def multi_hot(values: Sequence[Iterable[str]], among: Iterable[str]) -> np.ndarray:
    """A column for each value that there may be; a row has a one for each of its values."""
    position = {value: i for i, value in enumerate(among)}
    found = np.zeros((len(values), len(position)))
    for row, own in enumerate(values):
        found[row, [position[value] for value in own]] = 1.0
    return found


class Task(NamedTuple):
    """One split of one table.

    `divided` says of each value what is held out with it as a whole, and `weights` how much a
    training value counts that is held out, so that they are like those of the test part.
    """

    folder: str  # of its data, in the folder that SMC_DATA_DIR names
    bounds: tuple[float, float]  # what a value can be; predictions are clipped to it
    read: Callable[[Path], Split]
    row_features: Callable[[Path, Split], Features]
    column_features: Callable[[Path, Split], Features]
    divided: Callable[[Values], np.ndarray] = lambda values: np.arange(values.values.size)
    weights: Callable[[Path, Values], np.ndarray] = lambda folder, values: np.ones(
        values.values.size
    )


def inner(task: Task, train: Values, part: int = 0) -> Split:
    """The training values split again, as the task splits all values, a tenth of them held out.

    Settings are chosen with it, so that the test part is looked at once.
    """
    groups = np.unique(task.divided(train))
    tenth = max(groups.size // 10, 1)
    held = np.random.RandomState(1).permutation(groups)[part * tenth : (part + 1) * tenth]
    chosen = np.isin(task.divided(train), held)
    return Split(train.at(~chosen), train.at(chosen))


def data_folder(named: str | os.PathLike[str] | None, task: Task) -> Path:
    """The folder that is named, else that of the task in the folder that SMC_DATA_DIR names."""
    if named:
        return Path(named)
    above = os.environ.get("SMC_DATA_DIR")
    if not above:
        raise SystemExit(
            f"give --data=FOLDER, or name the folder above {task.folder} by SMC_DATA_DIR"
        )
    return Path(above) / task.folder


def rmse(
    predicted: np.ndarray,
    values: np.ndarray,
    bounds: tuple[float, float],
    weights: np.ndarray | None = None,
) -> float:
    """The root of the mean squared error of predictions that are clipped to what values can be."""
    clipped = np.clip(np.asarray(predicted, float), *bounds)
    if not np.isfinite(clipped).all():
        raise ValueError("predicted: a prediction is not a number")
    return float(np.sqrt(np.average((clipped - values) ** 2, weights=weights)))


def biases_only(split: Split, *, ridge: float = 5.0, rounds: int = 20) -> np.ndarray:
    """Predictions mean + column's offset + row's offset, offsets by ridge regression.

    The offsets of columns and rows are solved for in turn.

    Args:
      split: what is learnt from, and what is predicted.
      ridge: the penalty of a squared offset, in values.
      rounds: how often both are solved for.
    """
    train, test = split
    mean = train.values.mean()
    columns, rows = np.zeros(train.column_ids.size), np.zeros(train.row_ids.size)

    def offsets(left: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
        count = np.bincount(index, minlength=size)
        return np.bincount(index, left, minlength=size) / (count + ridge)

    for _ in range(rounds):
        rows = offsets(train.values - mean - columns[train.column], train.row, rows.size)
        columns = offsets(train.values - mean - rows[train.row], train.column, columns.size)
    return mean + columns[test.column] + rows[test.row]


# What makes two lines runs of the same thing, but for the seed.
IDENTITY = ("tool", "split", "features", "rank", "samples", "settings")


def append(path: Path, line: dict[str, Any]) -> None:
    """Adds one run to a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The runs in a file of results; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def same_runs(lines: Iterable[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that differ from a run in the seed and the outcome alone."""
    return [line for line in lines if all(line[name] == run[name] for name in IDENTITY)]


def missing_seeds(path: Path, run: dict[str, Any], seeds: Iterable[int]) -> list[int]:
    """The seeds for which a file of results has no line of this run."""
    done = {line["seed"] for line in same_runs(read_lines(path), run)}
    return [seed for seed in seeds if seed not in done]


def measured(
    predict: Callable[[], np.ndarray],
    values: np.ndarray,
    bounds: tuple[float, float],
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """The error of what a program predicts, its seconds, and the most memory it has held.

    Seconds are of the clock and of the processor, and compilation is a part of both.
    """
    before = os.times()
    predicted = predict()
    after = os.times()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    busy = after.user + after.system - before.user - before.system
    return {
        "rmse": rmse(predicted, values, bounds, weights),
        "seconds": round(after.elapsed - before.elapsed, 1),
        "cpu_seconds": round(busy, 1),
        "peak_MiB": round(most / (2**20 if platform.system() == "Darwin" else 2**10)),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of some packages, and of Python."""
    found = {name: importlib.metadata.version(name) for name in packages}
    return found | {"python": platform.python_version()}
