"""From a config to what is known of the rows, columns and entries of its matrix beforehand."""

import numpy as np
import pooch
from ml_collections import ConfigDict

from launch.data import ids_of, path_of, unreadable
from launch.settings import ConfigError
from smc_jax.data.features import BETWEEN_PARTS, features_of_parts, read_features
from smc_jax.data.predicted import read_prediction
from smc_jax.data.ratings import DataError
from smc_jax.model.features import Features, coordinates, entry_prediction

PARTS = "ids"  # in place of a file: what ids are made of
NOISE = "noise"  # in place of a file: numbers that tell nothing
NOISE_FEATURES = 20
SIDES = ("row_features", "column_features")
ENTRIES = "entry_prediction"


def has_features(config: ConfigDict) -> bool:
    """Whether anything is known beforehand."""
    return any(config[field] is not None for field in (*SIDES, ENTRIES))


def make_features(config: ConfigDict) -> Features:
    """The features that a config names; ConfigError where they cannot be had.

    The config is one that `data.fill_in` returned.
    """
    if not has_features(config):
        return Features()
    sides = zip(SIDES, ids_of(config), strict=True)
    rows, columns = (_side(config, field, ids)[0] for field, ids in sides)
    return Features(rows, columns, _entries(config)[0])


def describe_features(config: ConfigDict) -> list[str]:
    """A line for each file: what was understood of it."""
    if not has_features(config):
        return []
    sides = zip(SIDES, ids_of(config), strict=True)
    told = [f"{field}: {_side(config, field, ids)[1]}" for field, ids in sides if config[field]]
    return told + ([f"{ENTRIES}: {_entries(config)[1]}"] if config[ENTRIES] else [])


def checksum_of(config: ConfigDict) -> str | None:
    """The SHA-256 of the files that features come from, one behind the other; None without any."""
    sources = [config[field] for field in SIDES if config[field] not in (None, PARTS, NOISE)]
    sources += [config[ENTRIES]] if config[ENTRIES] else []
    hashes = [pooch.file_hash(str(path_of(source)), "sha256") for source in sources]
    return "+".join(hashes) or None


def _side(config: ConfigDict, field: str, ids: np.ndarray) -> tuple[np.ndarray | None, str]:
    """The coordinates of one side, and what was understood."""
    source = config[field]
    if source is None:
        return None, ""
    try:
        if source == PARTS:
            parts = len(str(ids[0]).split(BETWEEN_PARTS))
            told = f"{parts} {'category' if parts == 1 else 'categories'}, the parts of the ids"
            return coordinates(features_of_parts(ids)), told
        if source == NOISE:
            random = np.random.default_rng(SIDES.index(field))
            told = f"{NOISE_FEATURES} numbers an id that tell nothing, drawn at random"
            return coordinates(random.normal(size=(len(ids), NOISE_FEATURES))), told
        table = read_features(path_of(source), ids)
        kinds = f"numbers {len(table.numbers)}, categories {len(table.categories)}"
        told = f"{table.found} of {len(ids)} ids have a line; columns of {kinds}"
        return coordinates(table.matrix), told
    except (OSError, DataError, ValueError, ImportError) as error:
        raise _complaint(field, source, error) from error


def _entries(config: ConfigDict) -> tuple[np.ndarray | None, str]:
    """The prediction of the entries as the model takes it, and what was understood."""
    source = config[ENTRIES]
    if source is None:
        return None, ""
    try:
        found = read_prediction(path_of(source), *ids_of(config))
        told = f"{np.isfinite(found).sum()} of {found.size} entries are predicted"
        return entry_prediction(found), told
    except (OSError, DataError, ValueError, ImportError) as error:
        raise _complaint(ENTRIES, source, error) from error


def _complaint(field: str, source: str, error: Exception) -> ConfigError:
    """What is wrong with a file, in a line that names its field."""
    if isinstance(error, OSError):
        return unreadable(field, source, error)
    return ConfigError(f"config.{field}: {error}")
