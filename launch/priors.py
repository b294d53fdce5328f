"""From a config to what its policies know before the first choice."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pooch
from ml_collections import ConfigDict

from launch.data import ids_of, path_of, read_columns, unreadable
from launch.features import ENTRIES, SIDES
from launch.settings import ConfigError, policy_names
from smc_jax import priors
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.history import History, check_temper
from smc_jax.checks import at_least
from smc_jax.data.published import PUBLISHED
from smc_jax.data.ratings import Ratings
from smc_jax.data.table import read_table
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy
from smc_jax.types import Offer

UNTOLD = "ids_without_history"  # the policy that is told of no prior
WITH_IDS = ("table", "replay", "movielens", *PUBLISHED)


def check_prior(config: ConfigDict) -> None:
    """Raises ConfigError where the fields of the prior do not go together; nothing is read."""
    try:
        at_least("history", config.history, 0)
    except ValueError as error:
        raise ConfigError(f"config.{error}") from error
    try:
        check_temper(config.prior_temper)
    except ValueError as error:
        raise ConfigError(f"config.prior_{error}") from error
    if config.prior_temper != 1.0 and config.prior is None and not config.history:
        raise ConfigError("config.prior_temper: there is nothing to temper; set config.prior")
    if not config.history:
        if config.prior is None and UNTOLD in policy_names(config):
            raise ConfigError(
                f"config.policies: {UNTOLD} is for runs with a history; set config.history or"
                " config.prior"
            )
        return
    if config.data == "synthetic":
        raise ConfigError("config.history: is for recorded data; set it to 0, or set config.prior")
    for field in ("prior", "column_features", "entry_prediction"):
        if config[field] is not None:
            raise ConfigError(
                f"config.{field}: does not go with config.history, whose columns the seed draws;"
                " set one of the two"
            )


def check_fit(config: ConfigDict) -> None:
    """Raises ConfigError where the fit that is written as a prior would lack what is known."""
    for field in (*SIDES, ENTRIES):
        if config[field] is not None:
            raise ConfigError(
                f"config.{field}: a fit is written without features; leave it out, or give"
                " --kind=history"
            )


def prior_checksum(config: ConfigDict) -> str | None:
    """The SHA-256 of the file that the prior comes from; None without one."""
    if config.prior is None:
        return None
    try:
        return pooch.file_hash(str(path_of(config.prior)), "sha256")
    except OSError as error:
        raise unreadable("prior", config.prior, error) from error


def make_prior(config: ConfigDict) -> Any:
    """What every policy but the oracles knows on every seed; None for nothing.

    The config is one that `data.fill_in` returned. ConfigError where the file cannot be used.
    """
    if config.prior is None:
        return None
    path = path_of(config.prior)
    try:
        if path.suffix == ".npz":
            return _saved(config, path)
        return _table(config, path)
    except ConfigError:
        raise
    except OSError as error:
        raise unreadable("prior", config.prior, error) from error
    except (ValueError, ImportError) as error:
        raise ConfigError(f"config.prior: {str(error).removeprefix('prior: ')}") from error


def check_taken(config: ConfigDict, name: str, policy: Policy, prior: Any) -> None:
    """Refuses a prior that a policy cannot start from; nothing is computed."""
    if prior is None or policy.told is not None:
        return
    data = Observations.empty(config.rows, config.columns)
    shape = (config.rows, config.columns)
    offer = Offer(None, jnp.ones(shape, bool), jnp.ones(shape))
    try:
        jax.eval_shape(lambda key: policy.init(key, data, offer, prior), jax.random.key(0))
    except ValueError as error:
        reason = str(error).removeprefix("prior: ")
        raise ConfigError(f"config.prior: {name} cannot start from it: {reason}") from error


def history_of(ratings: Ratings, row_ids: np.ndarray, column_ids: np.ndarray) -> Observations:
    """A table of other columns, with the rows of the data in their order.

    Rows that the data do not have are left out; of rows that it does not have it says nothing.
    """
    _refuse_same(ratings.column_ids, column_ids)
    place = {str(name): number for number, name in enumerate(ratings.row_ids)}
    found = np.asarray([place.get(str(name), -1) for name in row_ids])
    if (found < 0).all():
        raise ConfigError(f"config.prior: none of its rows is one of the data, as {row_ids[0]!r}")
    return Observations.from_matrix(*ratings.dense()).at_rows(jnp.asarray(found))


def _refuse_same(known: Any, column_ids: np.ndarray) -> None:
    """Refuses what is known of columns that the data have too."""
    same = sorted(set(map(str, known)) & set(map(str, column_ids)))
    if same:
        raise ConfigError(
            f"config.prior: {len(same)} of its columns are columns of the data, the first is"
            f" {same[0]!r}; history is of other columns: leave them out"
        )


def _table(config: ConfigDict, path: Path) -> History:
    if config.data not in WITH_IDS:
        raise ConfigError(
            f"config.prior: the rows of {config.data} have no ids, by which those of a table are"
            " found; give a prior that python -m launch.prior wrote"
        )
    layout: dict[str, Any] = {}
    if config.data == "table":  # of which history is a further file, laid out alike
        layout = {"columns": read_columns(config), "encoding": config.encoding}
    ratings = read_table(path, duplicates="mean", **layout)
    data = history_of(ratings, *ids_of(config))
    return History.of(data, temper=config.prior_temper)


def _saved(config: ConfigDict, path: Path) -> Any:
    saved = priors.load(path)
    if config.data in WITH_IDS:
        row_ids, column_ids = ids_of(config)
        _refuse_same(saved.column_ids or (), column_ids)
        saved = saved.of_rows(row_ids)
    elif priors.rows_of(saved.prior) != config.rows:
        rows = priors.rows_of(saved.prior)
        raise ConfigError(f"config.prior: it has {rows} rows, but config.rows is {config.rows}")
    prior = saved.prior
    if isinstance(prior, Parameters):
        raise ConfigError(
            "config.prior: parameters that were told are the prior of smc_jax.told() alone;"
            " give a history or a fit"
        )
    if isinstance(prior, EarlierFit):
        return prior._replace(temper=prior.temper * config.prior_temper)
    return prior._replace(data=History.of(prior.data, temper=config.prior_temper).data)
