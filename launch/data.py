"""From a config to its matrices: drawn, or recorded by somebody."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from ml_collections import ConfigDict
from tqdm import tqdm

from launch.settings import ConfigError, entry_noise, horizon, initial_size
from smc_jax.data.completed import Completed, cached_completion
from smc_jax.data.download import fetch
from smc_jax.data.jester import read_jester
from smc_jax.data.movielens import read_movielens
from smc_jax.data.ratings import DUPLICATES, DataError, Ratings, densest_block
from smc_jax.data.recorded import recorded
from smc_jax.data.synthetic import synthetic
from smc_jax.data.table import Columns, read_table
from smc_jax.environment import MOST_ENTRIES, Problem

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
    asked = {"rows": rows, "columns": columns}
    for (field, number), there_are in zip(asked.items(), ratings.shape, strict=True):
        if number > there_are:
            raise ConfigError(
                f"config.{field}: must be at most {there_are}, the {field} of MovieLens 1M,"
                f" got {number}"
            )
    return densest_block(ratings, rows, columns)


@functools.cache
def _completion(rows: int, columns: int) -> Completed:
    """The same without gaps. It takes a while, and is the same every time: kept on disk."""
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


def _read_columns(config: ConfigDict) -> Columns:
    """Names in the table's header, or positions."""
    parts = [part.strip() for part in config.read_columns.split(",")]
    if len(parts) != 3 or not all(parts) or len(set(parts)) < 3:
        raise ConfigError(
            "config.read_columns: must be three names or positions, of the row's id, the column's"
            f" id and the rating, separated by commas, got {config.read_columns!r}"
        )
    row, column, rating = (int(part) if part.isdecimal() else part for part in parts)
    return row, column, rating


def fill_in_table(config: ConfigDict) -> None:
    """Sets what an experiment on a table leaves to the table: its rows, columns and checksum.

    Raises ConfigError where there is no such table, or it has less than is asked for.
    """
    if not config.path:
        raise ConfigError("config.path: missing; give --config.path=FILE, a table of ratings")
    if Path(config.path).suffix == ".zip":
        raise ConfigError(f"config.path: {config.path} is a zip; unpack the table that is in it")
    if config.duplicates not in DUPLICATES:
        known = ", ".join(DUPLICATES)
        raise ConfigError(f"config.duplicates: must be one of {known}, got {config.duplicates!r}")
    columns = _read_columns(config)
    try:
        checksum = pooch.file_hash(str(Path(config.path).expanduser()), "sha256")
        if config.checksum not in (None, checksum):
            raise ConfigError(f"config.checksum: that of {config.path} is {checksum}")
        shape = _table(config.path, columns, config.duplicates, config.encoding, checksum).shape
    except OSError as error:
        raise ConfigError(f"config.path: cannot read {config.path}: {error.strerror}") from error
    except LookupError as error:
        raise ConfigError(f"config.encoding: {error}") from error
    except DataError as error:
        remedy = f"; {REMEDIES[error.argument]}" if error.argument else ""
        raise ConfigError(f"config.path: {error}{remedy}") from error
    except ImportError as error:  # Parquet needs a package of its own
        raise ConfigError(f"config.path: {error}") from error
    for field, there_are in zip(("rows", "columns"), shape, strict=True):
        if config[field] is None:
            config[field] = there_are
        elif config[field] > there_are:
            raise ConfigError(
                f"config.{field}: must be at most {there_are}, the {field} of {config.path},"
                f" got {config[field]}"
            )
    if config.rows * config.columns > MOST_ENTRIES:
        raise ConfigError(
            f"config.rows: {config.rows} x {config.columns} entries are too many;"
            " set config.rows and config.columns to a smaller block"
        )
    config.checksum = checksum


def table_block(config: ConfigDict) -> Ratings:
    """The rows rated most, and the columns with most of these; its ids are those of the table.

    The config is one that `fill_in_table` has filled in.
    """
    columns = _read_columns(config)
    ratings = _table(config.path, columns, config.duplicates, config.encoding, config.checksum)
    return densest_block(ratings, config.rows, config.columns)


def describe_data(config: ConfigDict) -> dict[str, Any]:
    """What results should tell of the data: of a completion its rank, and each rank's error."""
    if config.data != "movielens":
        return {}
    found = _completion(config.rows, config.columns)
    errors = {str(rank): error for rank, error in found.errors.items()}
    return {"completion_rank": found.rank, "completion_errors": errors}


def make_data(config: ConfigDict) -> Callable[..., Problem]:
    """The function from a key and a seed's number to the matrix."""
    if config.data == "synthetic":
        return _make_synthetic(config)
    try:
        if config.data == "jester":
            values, mask = _jester()
        elif config.data == "table":
            values, mask = table_block(config).dense()
        elif config.data == "replay":
            values, mask = _movielens(config.rows, config.columns).dense()
        else:
            values = _completion(config.rows, config.columns).values
            mask = np.ones(values.shape, bool)
    except DataError as error:
        raise ConfigError(f"config.data: {error}") from error
    users = values.shape[1]
    if config.columns > users:
        raise ConfigError(f"config.columns: must be at most {users}, the users there are")
    picks, looks, existing = horizon(config), initial_size(config), int(mask.sum())
    if config.once and picks + looks > existing:
        longest = longest_horizon(existing, config.initial_fraction)
        raise ConfigError(
            f"config.horizon: {picks} picks after an initial design of up to {looks} need more than"
            f" the {existing} ratings there are; set config.horizon to at most {longest} with"
            f" this config.initial_fraction of {config.initial_fraction:g}"
        )
    return recorded(values, mask, columns=config.columns if config.columns < users else None)


def longest_horizon(existing: int, initial_fraction: float) -> int:
    """What so many entries allow, the initial design included."""
    longest = int(existing / (1.0 + initial_fraction)) + 1
    while longest + round(initial_fraction * longest) > existing:
        longest -= 1
    return longest


def _make_synthetic(config: ConfigDict) -> Callable[..., Problem]:
    return synthetic(
        rows=config.rows,
        columns=config.columns,
        true_rank=config.true_rank,
        loadings=config.loadings,
        noise_variance=config.noise_variance,
        entry_noise=entry_noise(config),
    )
