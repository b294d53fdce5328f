"""From a config to who and what is on offer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pooch
from ml_collections import ConfigDict

from launch.data import ids_of, path_of, unreadable
from launch.settings import ConfigError
from smc_jax.checks import at_least
from smc_jax.data.offered import read_calendar, read_costs
from smc_jax.data.ratings import DataError
from smc_jax.simulation import offers
from smc_jax.simulation.environment import Environment

TABLES: dict[str, Callable[..., Any]] = {"calendar": read_calendar, "costs": read_costs}
DURATION = 100.0  # the default, which means nothing where rows are always in stock
# What the factories call the settings that the config has other names for.
NAMES = {"duration": "stock_duration", "row": "row_budget", "column": "column_budget"}


def wrap(config: ConfigDict, made: Environment, *, read: bool = True) -> Environment:
    """The environment with the offers that a config asks for; ValueError where it cannot be.

    Args:
      config: one that `data.fill_in` returned, where its tables are read.
      made: the standing offer.
      read: whether tables are read; else they are taken to say nothing, to check all the rest.
    """
    asked = config.offers
    at_least("overhead", asked.overhead, 0.0)
    for field in TABLES:
        if config.history and asked[field] is not None:
            raise ValueError(
                f"{field}: does not go with config.history, under which a column has another id at"
                " every seed; set config.history=0"
            )
    if config.arrivals:
        made = offers.arrivals(made, number=config.arrivals, activity=asked.activity)
    elif asked.activity:
        raise ValueError("activity: needs columns that arrive; set config.arrivals")
    if asked.in_stock != 1.0:
        made = offers.stock(made, in_stock=asked.in_stock, duration=asked.stock_duration)
    elif asked.stock_duration != DURATION:
        raise ValueError("stock_duration: needs rows that come and go; set config.offers.in_stock")
    if asked.calendar is not None:
        made = offers.calendar(made, _table(config, "calendar") if read else [])
    if asked.row_budget is not None or asked.column_budget is not None:
        made = offers.budgets(made, row=asked.row_budget, column=asked.column_budget)
    if asked.costs is not None:
        made = offers.costs(made, asked.overhead + (_table(config, "costs") if read else 1.0))
    elif asked.overhead:
        raise ValueError("overhead: is a part of costs; set config.offers.costs")
    return made


def checksum_of(config: ConfigDict) -> str | None:
    """The SHA-256 of the tables, one behind the other; None without any. All of them are read."""
    sources = [field for field in TABLES if config.offers[field] is not None]
    for field in sources:
        _table(config, field)
    paths = [path_of(config.offers[field]) for field in sources]
    return "+".join(pooch.file_hash(str(path), "sha256") for path in paths) or None


def _ids(config: ConfigDict, field: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of rows and columns; their numbers where the data are drawn."""
    if config.data == "synthetic":
        return np.arange(config.rows), np.arange(config.columns)
    if config.data == "jester":
        raise ConfigError(
            f"config.offers.{field}: the columns of jester are others at every seed, and have no"
            " ids, by which a table is read"
        )
    return ids_of(config)


def _table(config: ConfigDict, field: str) -> Any:
    """What a table says; ConfigError where it cannot be read."""
    source = config.offers[field]
    try:
        return TABLES[field](path_of(source), *_ids(config, field))
    except OSError as error:
        raise unreadable(f"offers.{field}", source, error) from error
    except DataError as error:
        raise ConfigError(f"config.offers.{field}: {error}") from error
