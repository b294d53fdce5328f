"""What a config says, read in one place: names, sizes, and the error of a field that is wrong."""

from typing import Any

from ml_collections import ConfigDict

from smc_jax.policies.registry import named, settings_among
from smc_jax.simulation.loop import batch_size


class ConfigError(ValueError):
    """A field of the config cannot be used; the message names it and says what would do."""


class DataUnavailable(ConfigError):
    """The data of an experiment are not there, or are not what they should be."""


def policy_names(config: ConfigDict) -> tuple[str, ...]:
    """The policies asked for, in order, each once."""
    names = config.policies
    if isinstance(names, str):
        names = names.split(",")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"config.policies: must be names, separated by commas, got {names!r}")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def policy_settings(config: ConfigDict, name: str) -> dict[str, Any]:
    """The settings of a policy: its own group, or what it takes from the groups of others."""
    groups = (name, *named(name).groups)
    return settings_among(name, {group: dict(config[group]) for group in groups if group in config})


def has_sizes(config: ConfigDict) -> bool:
    """Whether rows and columns are known; a table tells them when it is read."""
    return config.rows is not None and config.columns is not None


def horizon(config: ConfigDict) -> int:
    """H: as given, or k (N + D - k)."""
    if config.horizon is not None:
        return config.horizon
    rank = config.rank if config.horizon_rank is None else config.horizon_rank
    return rank * (config.columns + config.rows - rank)


def refits(config: ConfigDict) -> int:
    """Refits that the run makes: at most as many as asked, of batches that are equally large."""
    picks = horizon(config)
    return -(-picks // batch_size(picks, refits=config.refits, asked=config.asked))


def initial_size(config: ConfigDict) -> int:
    """The number of answers in the initial design."""
    return round(config.initial_fraction * horizon(config))


def seeds(config: ConfigDict) -> range:
    """The numbers of the seeds."""
    return range(config.first_seed, config.first_seed + config.seeds)


def entry_noise(config: ConfigDict) -> bool:
    """Whether the noise belongs to the entry, as where no entry is seen twice."""
    return config.once or config.beta == 0.0
