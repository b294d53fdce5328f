"""From a config to its matrices: drawn, or recorded by somebody."""

import functools
from collections.abc import Callable

import numpy as np
from ml_collections import ConfigDict

from launch.settings import ConfigError, entry_noise, horizon, initial_size
from smc_jax.data.completed import completed
from smc_jax.data.download import fetch
from smc_jax.data.jester import read_jester
from smc_jax.data.movielens import movielens_block, read_movielens
from smc_jax.data.ratings import DataError
from smc_jax.data.recorded import recorded
from smc_jax.data.synthetic import synthetic
from smc_jax.environment import Problem


@functools.cache
def _jester() -> tuple[np.ndarray, np.ndarray]:
    """The ratings [jokes, users] of the users who rated every joke, and that they exist."""
    ratings = read_jester(fetch("jester"))
    complete = np.flatnonzero(ratings.column_counts() == ratings.shape[0])
    return ratings.select(columns=complete).dense()


@functools.cache
def _movielens(rows: int, columns: int, replay: bool) -> tuple[np.ndarray, np.ndarray]:
    """The block's ratings [films, users], completed unless replayed, and which may be chosen."""
    block = movielens_block(read_movielens(fetch("ml-1m"), "ml-1m"), rows, columns)
    if replay:
        return block.dense()
    values = completed(block).values
    return values, np.ones(values.shape, bool)


def make_data(config: ConfigDict) -> Callable[..., Problem]:
    """The function from a key and a seed's number to the matrix."""
    if config.data == "synthetic":
        return _make_synthetic(config)
    try:
        if config.data == "jester":
            values, mask = _jester()
        else:
            values, mask = _movielens(config.rows, config.columns, config.data == "replay")
    except DataError as error:
        raise ConfigError(f"config.data: {error}") from error
    users = values.shape[1]
    if config.columns > users:
        raise ConfigError(f"config.columns: must be at most {users}, the users there are")
    looks, existing = horizon(config) + initial_size(config), int(mask.sum())
    if config.once and looks > existing:
        raise ConfigError(f"config.horizon: {looks} looks need more than the {existing} ratings")
    return recorded(values, mask, columns=config.columns if config.columns < users else None)


def _make_synthetic(config: ConfigDict) -> Callable[..., Problem]:
    return synthetic(
        rows=config.rows,
        columns=config.columns,
        true_rank=config.true_rank,
        loadings=config.loadings,
        noise_variance=config.noise_variance,
        entry_noise=entry_noise(config),
    )
