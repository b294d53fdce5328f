"""Held-out ratings of MovieLens 1M: the splits, the features, the error, and the file of results.

Everything here is NumPy alone, for the peers' environment has neither jax nor smc_jax. The folder
of the data has `ratings.notime.dat.gz` (`UserID::MovieID::Rating`, in the publisher's order),
`users.dat` and `movies.dat`; the first is made from the publisher's file by

sed 's/::[0-9]*$//' ratings.dat | gzip > ratings.notime.dat.gz

Users are numbered by their first appearance in the file, films by their id.
"""

import gzip
import importlib.metadata
import json
import os
import platform
import resource
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RATINGS = "ratings.notime.dat.gz"
BOUNDS = (1.0, 5.0)  # the lowest and the highest number of stars
AGES = ("1", "18", "25", "35", "45", "50", "56")
OCCUPATIONS = tuple(map(str, range(21)))
DIGITS = tuple("0123456789")


class Ratings(NamedTuple):
    """Ratings in the order of the file."""

    user: np.ndarray  # [n] index into `user_ids`
    film: np.ndarray  # [n] index into `film_ids`
    stars: np.ndarray  # [n] float
    user_ids: np.ndarray  # [N] by first appearance
    film_ids: np.ndarray  # [D] sorted

    def at(self, chosen: np.ndarray) -> "Ratings":
        """Some of the ratings; users and films keep their numbers."""
        user, film, stars = (x[chosen] for x in (self.user, self.film, self.stars))
        return self._replace(user=user, film=film, stars=stars)


class Split(NamedTuple):
    """Ratings to learn from, and ratings to predict."""

    train: Ratings
    test: Ratings


def data_folder(named: str | os.PathLike[str] | None) -> Path:
    """The folder that is named, else `ml-1m` in the folder that SMC_DATA_DIR names."""
    if named:
        return Path(named)
    above = os.environ.get("SMC_DATA_DIR")
    if not above:
        raise SystemExit("give --data=FOLDER, or name the folder above ml-1m by SMC_DATA_DIR")
    return Path(above) / "ml-1m"


def read_ratings(folder: Path) -> Ratings:
    """Reads the file of ratings."""
    with gzip.open(folder / RATINGS, "rt", encoding="ascii") as file:
        numbers = np.fromstring(file.read().replace("::", " "), np.int64, sep=" ")
    users, films, stars = numbers.reshape(-1, 3).T
    sorted_ids, first, user = np.unique(users, return_index=True, return_inverse=True)
    order = np.argsort(first)  # from the number by appearance to the number by id
    film_ids, film = np.unique(films, return_inverse=True)
    return Ratings(np.argsort(order)[user], film, stars.astype(float), sorted_ids[order], film_ids)


# A split holds out as many ratings, users or films, and learns from as many ratings (None: all).
SIZES: dict[str, tuple[int, int | None]] = {
    "90": (100_021, None),
    "5": (100_020, 50_010),
    "users": (604, None),
    "films": (370, None),
}


def make_split(
    ratings: Ratings, name: str, *, held: int | None = None, train: int | None = None
) -> Split:
    """One of the four splits, which are the same in every run.

    Args:
      ratings: all ratings.
      name: `90` and `5` hold out ratings, `users` and `films` hold out all ratings of some users
        or films.
      held: how many ratings, users or films are held out; None is the number for MovieLens 1M.
      train: how many of the ratings that `90` and `5` do not hold out are learnt from; None is the
        number for MovieLens 1M, which for `90` is all of them.
    """
    if name not in SIZES:
        raise ValueError(f"name: unknown {name!r}; choose from {', '.join(SIZES)}")
    held = SIZES[name][0] if held is None else held
    train = SIZES[name][1] if train is None else train
    random = np.random.RandomState(0)  # the legacy generator is part of the recipe
    if name in ("users", "films"):
        of_rating, ids = {
            "users": (ratings.user, ratings.user_ids),
            "films": (ratings.film, ratings.film_ids),
        }[name]
        new = np.isin(of_rating, random.permutation(ids.size)[:held])
        return Split(ratings.at(~new), ratings.at(new))
    order = np.arange(ratings.stars.size)
    random.shuffle(order)
    stop = None if train is None else held + train
    return Split(ratings.at(order[held:stop]), ratings.at(order[:held]))


def rmse(predicted: np.ndarray, stars: np.ndarray) -> float:
    """The root of the mean squared error of predictions that are clipped to what stars can be."""
    clipped = np.clip(np.asarray(predicted, float), *BOUNDS)
    if not np.isfinite(clipped).all():
        raise ValueError("predicted: a prediction is not a number")
    return float(np.sqrt(np.mean((clipped - stars) ** 2)))


def biases_only(split: Split, *, ridge: float = 5.0, rounds: int = 20) -> np.ndarray:
    """Predictions mean + user's offset + film's offset, offsets by ridge regression.

    The offsets of users and films are solved for in turn.

    Args:
      split: what is learnt from, and what is predicted.
      ridge: the penalty of a squared offset, in ratings.
      rounds: how often both are solved for.
    """
    train, test = split
    mean = train.stars.mean()
    users, films = np.zeros(train.user_ids.size), np.zeros(train.film_ids.size)

    def offsets(left: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
        count = np.bincount(index, minlength=size)
        return np.bincount(index, left, minlength=size) / (count + ridge)

    for _ in range(rounds):
        films = offsets(train.stars - mean - users[train.user], train.film, films.size)
        users = offsets(train.stars - mean - films[train.film], train.user, users.size)
    return mean + users[test.user] + films[test.film]


class Features(NamedTuple):
    """What is known of users or films, in columns of zeros and ones."""

    matrix: np.ndarray  # [n, F] float
    groups: dict[str, int]  # how many of the columns, in order, say what


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


def _joined(groups: dict[str, np.ndarray]) -> Features:
    sizes = {name: columns.shape[1] for name, columns in groups.items()}
    return Features(np.concatenate([*groups.values()], axis=1), sizes)


def _read_records(path: Path, ids: np.ndarray) -> list[list[str]]:
    """The fields after the id of every line whose id is asked for, in the order of the ids."""
    lines = path.read_text(encoding="latin-1").splitlines()
    fields = {int(one[0]): one[1:] for one in (line.split("::") for line in lines)}
    return [fields[int(identity)] for identity in ids]


def user_features(folder: Path, ratings: Ratings) -> Features:
    """Gender, age, occupation and the first digit of the zip code of every user [N, 40]."""
    records = _read_records(folder / "users.dat", ratings.user_ids)
    gender, age, occupation, code = map(list, zip(*records, strict=True))
    return _joined(
        {
            "gender": one_hot(gender, "FM"),
            "age": one_hot(age, AGES),
            "occupation": one_hot(occupation, OCCUPATIONS),
            "zip": one_hot([one[0] for one in code], DIGITS),
        }
    )


def film_features(folder: Path, ratings: Ratings) -> Features:
    """Genres, and the period of five years of the year in the title, of every rated film."""
    records = _read_records(folder / "movies.dat", ratings.film_ids)
    genres = [genre.split("|") for _, genre in records]
    years = [int(title.rstrip()[-5:-1]) for title, _ in records]  # "Toy Story (1995)"
    periods = [str(year // 5 * 5) for year in years]
    return _joined(
        {
            "genres": multi_hot(genres, sorted({one for own in genres for one in own})),
            "period": one_hot(periods, sorted(set(periods))),
        }
    )


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


def measured(predict: Callable[[], np.ndarray], stars: np.ndarray) -> dict[str, Any]:
    """The error of what a program predicts, its seconds, and the most memory it has held.

    Seconds are of the clock and of the processor, and compilation is a part of both.
    """
    before = os.times()
    predicted = predict()
    after = os.times()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    busy = after.user + after.system - before.user - before.system
    return {
        "rmse": rmse(predicted, stars),
        "seconds": round(after.elapsed - before.elapsed, 1),
        "cpu_seconds": round(busy, 1),
        "peak_MiB": round(most / (2**20 if platform.system() == "Darwin" else 2**10)),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of some packages, and of Python."""
    found = {name: importlib.metadata.version(name) for name in packages}
    return found | {"python": platform.python_version()}
