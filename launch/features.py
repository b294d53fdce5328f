"""From a config to what is known of the rows and columns of its matrix beforehand."""

from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from launch.data import ids_of
from launch.settings import ConfigError
from smc_jax.data.download import data_folder
from smc_jax.data.features import features_of_parts, read_features
from smc_jax.data.ratings import DataError
from smc_jax.model.features import Features, coordinates

PARTS = "ids"  # in place of a file: what ids are made of


def has_features(config: ConfigDict) -> bool:
    """Whether anything is known beforehand."""
    return config.row_features is not None or config.column_features is not None


def make_features(config: ConfigDict) -> Features:
    """The features that a config names; ConfigError where they cannot be had.

    The config is one that `data.fill_in` returned.
    """
    if not has_features(config):
        return Features()
    sides = zip(("row_features", "column_features"), ids_of(config), strict=True)
    return Features(*(_side(config, field, ids) for field, ids in sides))


def _side(config: ConfigDict, field: str, ids: np.ndarray) -> np.ndarray | None:
    source = config[field]
    if source is None:
        return None
    try:
        if source == PARTS:
            return coordinates(features_of_parts(ids))
        given = Path(source).expanduser()
        path = given if given.exists() else data_folder() / given
        return coordinates(read_features(path, ids))
    except OSError as error:
        raise ConfigError(
            f"config.{field}: cannot read {source}: {error.strerror}; it is looked for here, and in"
            " the folder that SMC_DATA_DIR names"
        ) from error
    except (DataError, ValueError, ImportError) as error:
        raise ConfigError(f"config.{field}: {error}") from error
