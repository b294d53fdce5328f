"""Held-out ratings of MovieLens 1M: four splits, and the features of films and users.

Everything here is NumPy alone, for the peers' environment has neither jax nor smc_jax. The folder
of the data has `ratings.notime.dat.gz` (`UserID::MovieID::Rating`, in the publisher's order),
`users.dat` and `movies.dat`; the first is made from the publisher's file by

sed 's/::[0-9]*$//' ratings.dat | gzip > ratings.notime.dat.gz

Rows are films, numbered by their id; columns are users, numbered by their first appearance in the
file.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.heldout_data import Features, Split, Task, Values, multi_hot, one_hot

RATINGS = "ratings.notime.dat.gz"
BOUNDS = (1.0, 5.0)  # the lowest and the highest number of stars
AGES = ("1", "18", "25", "35", "45", "50", "56")
OCCUPATIONS = tuple(map(str, range(21)))
DIGITS = tuple("0123456789")


def read_ratings(folder: Path) -> Values:
    """Reads the file of ratings."""
    with gzip.open(folder / RATINGS, "rt", encoding="ascii") as file:
        numbers = np.fromstring(file.read().replace("::", " "), np.int64, sep=" ")
    users, films, stars = numbers.reshape(-1, 3).T
    sorted_ids, first, user = np.unique(users, return_index=True, return_inverse=True)
    order = np.argsort(first)  # from the number by appearance to the number by id
    film_ids, film = np.unique(films, return_inverse=True)
    return Values(film, np.argsort(order)[user], stars.astype(float), film_ids, sorted_ids[order])


# A split holds out as many ratings, users or films, and learns from as many ratings (None: all).
SIZES: dict[str, tuple[int, int | None]] = {
    "90": (100_021, None),
    "5": (100_020, 50_010),
    "users": (604, None),
    "films": (370, None),
}


def make_split(
    ratings: Values, name: str, *, held: int | None = None, train: int | None = None
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
            "users": (ratings.column, ratings.column_ids),
            "films": (ratings.row, ratings.row_ids),
        }[name]
        new = np.isin(of_rating, random.permutation(ids.size)[:held])
        return Split(ratings.at(~new), ratings.at(new))
    order = np.arange(ratings.values.size)
    random.shuffle(order)
    stop = None if train is None else held + train
    return Split(ratings.at(order[held:stop]), ratings.at(order[:held]))


def _read_records(path: Path, ids: np.ndarray) -> list[list[str]]:
    """The fields after the id of every line whose id is asked for, in the order of the ids."""
    lines = path.read_text(encoding="latin-1").splitlines()
    fields = {int(one[0]): one[1:] for one in (line.split("::") for line in lines)}
    return [fields[int(identity)] for identity in ids]


def user_features(folder: Path, ratings: Values) -> Features:
    """Gender, age, occupation and the first digit of the zip code of every user [N, 40]."""
    records = _read_records(folder / "users.dat", ratings.column_ids)
    gender, age, occupation, code = map(list, zip(*records, strict=True))
    return Features.joined(
        {
            "gender": one_hot(gender, "FM"),
            "age": one_hot(age, AGES),
            "occupation": one_hot(occupation, OCCUPATIONS),
            "zip": one_hot([one[0] for one in code], DIGITS),
        }
    )


def film_features(folder: Path, ratings: Values) -> Features:
    """Genres, and the period of five years of the year in the title, of every rated film."""
    records = _read_records(folder / "movies.dat", ratings.row_ids)
    genres = [genre.split("|") for _, genre in records]
    years = [int(title.rstrip()[-5:-1]) for title, _ in records]  # "Toy Story (1995)"
    periods = [str(year // 5 * 5) for year in years]
    return Features.joined(
        {
            "genres": multi_hot(genres, sorted({one for own in genres for one in own})),
            "period": one_hot(periods, sorted(set(periods))),
        }
    )


# What the splits by users and by films hold out as a whole.
WHOLE: dict[str, Callable[[Values], np.ndarray]] = {
    "users": lambda ratings: ratings.column,
    "films": lambda ratings: ratings.row,
}


def _task(name: str) -> Task:
    def read(folder: Path) -> Split:
        return make_split(read_ratings(folder), name)

    task = Task(
        "ml-1m",
        BOUNDS,
        read,
        lambda folder, split: film_features(folder, split.train),
        lambda folder, split: user_features(folder, split.train),
    )
    return task._replace(divided=WHOLE.get(name, task.divided))


TASKS = {name: _task(name) for name in SIZES}
