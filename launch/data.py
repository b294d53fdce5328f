"""From a config to its matrices: drawn, or recorded by somebody."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from ml_collections import ConfigDict
from tqdm import tqdm

from launch.settings import ConfigError, DataUnavailable, entry_noise, horizon, initial_size
from smc_jax.checks import one_of
from smc_jax.data.completed import Completed, cached_completion
from smc_jax.data.download import ARCHIVES, data_folder, fetch
from smc_jax.data.jester import read_jester
from smc_jax.data.movielens import read_movielens
from smc_jax.data.published import PUBLISHED, read_published
from smc_jax.data.ratings import DUPLICATES, DataError, Ratings, densest_block
from smc_jax.data.recorded import recorded
from smc_jax.data.synthetic import synthetic
from smc_jax.data.table import Columns, read_table
from smc_jax.simulation.problem import MakeProblem

HERE = "it is looked for here, and in the folder that SMC_DATA_DIR names"
MOST_ENTRIES = 2**31 - 1  # the initial design draws among all entries by a number of 32 bits
SOURCES = {"jester": "jester", "movielens": "ml-1m", "replay": "ml-1m"}  # what is downloaded
REMEDIES = {  # by the argument of `read_table` that settles it
    "duplicates": "set config.duplicates=last or mean",
    "encoding": "set config.encoding=latin-1, or whichever it is",
    "columns": "set config.read_columns to three that there are",
}


@functools.cache
def _jester() -> tuple[np.ndarray, np.ndarray]:
    """The ratings [jokes, users] of the users who rated every joke, and that they exist."""
    ratings = read_jester(fetch("jester"))
    complete = np.flatnonzero(ratings.column_counts() == ratings.shape[0])
    return ratings.select(columns=complete).dense()


@functools.cache
def _movielens(rows: int, columns: int) -> Ratings:
    """The films rated most, and the users who rated most of these."""
    ratings = read_movielens(fetch("ml-1m"), "ml-1m")
    _check_block(ratings, "MovieLens 1M", rows, columns)
    return densest_block(ratings, rows, columns)


def _published(name: str, rows: int, columns: int) -> Ratings:
    """The first rows and columns of a published matrix."""
    ratings = read_published(name)
    _check_block(ratings, name, rows, columns)
    return ratings.select(np.arange(rows), np.arange(columns))


def _check_block(ratings: Ratings, name: str, rows: int, columns: int) -> None:
    """Refuses more rows or columns than these ratings have."""
    asked = {"rows": rows, "columns": columns}
    for (field, number), there_are in zip(asked.items(), ratings.shape, strict=True):
        if number > there_are:
            raise ConfigError(
                f"config.{field}: must be at most {there_are}, the {field} of {name}, got {number}"
            )


@functools.cache
def _completion(rows: int, columns: int) -> Completed:
    """The films without gaps. Completing takes a while, and is the same every time: it is kept."""
    bar = functools.partial(tqdm, desc="completing", unit="rank", leave=False)
    folder = Path(pooch.os_cache("smc_jax")) / "completed"
    return cached_completion(_movielens(rows, columns), folder, progress=bar)


@functools.cache
def _table(
    path: str, columns: Columns, duplicates: str, encoding: str, checksum: str | None
) -> Ratings:
    """All of a table; the checksum tells it from another that was in its place before."""
    del checksum
    return read_table(
        Path(path).expanduser(), columns=columns, duplicates=duplicates, encoding=encoding
    )


def read_columns(config: ConfigDict) -> Columns:
    """Names in the table's header, or positions."""
    parts = [part.strip() for part in config.read_columns.split(",")]
    if len(parts) != 3 or not all(parts) or len(set(parts)) < 3:
        raise ConfigError(
            "config.read_columns: must be three names or positions, of the row's id, the column's"
            f" id and the rating, separated by commas, got {config.read_columns!r}"
        )
    row, column, rating = (int(part) if part.isdecimal() else part for part in parts)
    return row, column, rating


def check_table(config: ConfigDict) -> None:
    """Raises ConfigError where the fields of a table cannot be used; the table is not read."""
    if not config.path:
        raise ConfigError("config.path: missing; give --config.path=FILE, a table of ratings")
    if Path(config.path).suffix == ".zip":
        raise ConfigError(f"config.path: {config.path} is a zip; unpack the table that is in it")
    try:
        one_of("duplicates", config.duplicates, DUPLICATES)
    except ValueError as error:
        raise ConfigError(f"config.{error}") from error
    read_columns(config)


def _read(config: ConfigDict) -> tuple[Ratings, str]:
    """The whole table and its checksum; ConfigError where it cannot be read."""
    columns = read_columns(config)
    try:
        checksum = pooch.file_hash(str(Path(config.path).expanduser()), "sha256")
        if config.checksum not in (None, checksum):
            raise ConfigError(f"config.checksum: that of {config.path} is {checksum}")
        ratings = _table(config.path, columns, config.duplicates, config.encoding, checksum)
        return ratings, checksum
    except OSError as error:
        raise ConfigError(f"config.path: cannot read {config.path}: {error.strerror}") from error
    except LookupError as error:
        raise ConfigError(f"config.encoding: {error}") from error
    except DataError as error:
        remedy = f"; {REMEDIES[error.argument]}" if error.argument else ""
        raise ConfigError(f"config.path: {error}{remedy}") from error
    except ImportError as error:  # Parquet needs a package of its own
        raise ConfigError(f"config.path: {error}") from error


def fill_in(config: ConfigDict) -> ConfigDict:
    """A config in which what is left to the data is filled in: a table's size and checksum.

    Raises ConfigError where there is no such table, or it has less than is asked for.
    """
    filled = config.copy_and_resolve_references()
    if config.data != "table":
        return filled
    ratings, checksum = _read(config)
    with filled.ignore_type():
        filled.checksum = checksum
        left = ratings.shape[0], ratings.shape[1] - config.history
        if left[1] < 1:
            raise ConfigError(
                f"config.history: must be below {ratings.shape[1]}, the columns of {config.path},"
                f" got {config.history}"
            )
        for field, there_are in zip(("rows", "columns"), left, strict=True):
            if config[field] is None:
                filled[field] = there_are
            elif config[field] > there_are:
                raise ConfigError(
                    f"config.{field}: must be at most {there_are}, the {field} of {config.path}"
                    f" that are left, got {config[field]}"
                )
    if filled.rows * filled.columns > MOST_ENTRIES:
        raise ConfigError(
            f"config.rows: {filled.rows} x {filled.columns} entries are too many;"
            " set config.rows and config.columns to a smaller block"
        )
    return filled


def checksum(config: ConfigDict) -> str | None:
    """The checksum of the file that the matrices come from, None where there is none."""
    if config.data in SOURCES:
        return ARCHIVES[SOURCES[config.data]].checksum
    if config.data in PUBLISHED:
        return PUBLISHED[config.data].checksum
    return config.get("checksum")


def table_block(config: ConfigDict) -> Ratings:
    """The rows rated most, and the columns with most of these; its ids are those of the table.

    The config is one that `fill_in` returned.
    """
    columns = read_columns(config)
    ratings = _table(config.path, columns, config.duplicates, config.encoding, config.checksum)
    return densest_block(ratings, config.rows, config.columns + config.history)


def ids_of(config: ConfigDict) -> tuple[np.ndarray, np.ndarray]:
    """The ids of rows and columns, of a config filled in; ConfigError where the data have none."""
    if config.data == "table":
        ratings = table_block(config)
    elif config.data in ("replay", "movielens"):
        ratings = _movielens(config.rows, config.columns)
    elif config.data in PUBLISHED:
        ratings = _published(config.data, config.rows, config.columns)
    else:
        raise ConfigError(
            "config.row_features, config.column_features, config.entry_prediction: the rows and"
            f" columns of {config.data} have no ids, by which features are found"
        )
    return ratings.row_ids, ratings.column_ids


def path_of(source: str) -> Path:
    """Where a table is that a config names: here, or in the folder that SMC_DATA_DIR names."""
    given = Path(source).expanduser()
    return given if given.exists() else data_folder() / given


def unreadable(field: str, source: str, error: OSError) -> DataUnavailable:
    """What is wrong with a table that cannot be read, in a line that names its field."""
    return DataUnavailable(f"config.{field}: cannot read {source}: {error.strerror}; {HERE}")


def describe_data(config: ConfigDict) -> dict[str, Any]:
    """What results should tell of the data: of a completion its rank, and each rank's error."""
    if config.data != "movielens":
        return {}
    found = _completion(config.rows, config.columns + config.history)
    errors = {str(rank): error for rank, error in found.errors.items()}
    return {"completion_rank": found.rank, "completion_errors": errors}


def make_data(config: ConfigDict) -> MakeProblem:
    """The function from a key and a seed's number to the matrix, of a config filled in.

    Raises ConfigError where the data cannot be had, or there are too few of them.
    """
    if config.data == "synthetic":
        return _make_synthetic(config)
    width = config.columns + config.history
    try:
        if config.data == "jester":
            values, mask = _jester()
        elif config.data == "table":
            values, mask = table_block(config).dense()
        elif config.data == "replay":
            values, mask = _movielens(config.rows, width).dense()
        elif config.data in PUBLISHED:
            values, mask = _published(config.data, config.rows, width).dense()
        else:
            values = _completion(config.rows, width).values
            mask = np.ones(values.shape, bool)
    except DataError as error:
        raise DataUnavailable(f"config.data: {error}") from error
    users = values.shape[1]
    if width > users:
        there_are = f"{users}, the users there are"
        there_are += f", less a history of {config.history}" if config.history else ""
        raise ConfigError(f"config.columns: must be at most {there_are}")
    picks, answers, existing = horizon(config), initial_size(config), int(mask.sum())
    if config.history:  # at worst, the new columns are those of the fewest ratings
        existing = int(np.sort(mask.sum(0))[: config.columns].sum())
    if config.once and picks + answers > existing:
        longest = longest_horizon(existing, config.initial_fraction)
        raise ConfigError(
            f"config.horizon: {picks} picks after an initial design of up to {answers} need more"
            f" than the {existing} ratings there are; set config.horizon to at most {longest} with"
            f" this config.initial_fraction of {config.initial_fraction:g}"
        )
    return recorded(
        values,
        mask,
        columns=config.columns if config.columns < users else None,
        history=config.history,
        temper=config.prior_temper,
    )


def longest_horizon(existing: int, initial_fraction: float) -> int:
    """The longest horizon that the existing entries allow, the initial design included."""
    longest = int(existing / (1.0 + initial_fraction)) + 1
    while longest + round(initial_fraction * longest) > existing:
        longest -= 1
    return longest


def _make_synthetic(config: ConfigDict) -> MakeProblem:
    return synthetic(
        rows=config.rows,
        columns=config.columns,
        true_rank=config.true_rank,
        loadings=config.loadings,
        noise_variance=config.noise_variance,
        entry_noise=entry_noise(config),
    )
