"""What a config says, read in one place: names, sizes, and the error of a field that is wrong."""

from ml_collections import ConfigDict


class ConfigError(ValueError):
    """A field of the config cannot be used; the message names it and says what would do."""


def policy_names(config: ConfigDict) -> tuple[str, ...]:
    """The policies asked for, in order, each once."""
    names = config.policies
    if isinstance(names, str):
        names = names.split(",")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"config.policies: must be names, separated by commas, got {names!r}")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def horizon(config: ConfigDict) -> int:
    """H: as given, or k (N + D - k)."""
    if config.horizon is not None:
        return config.horizon
    rank = config.rank if config.horizon_rank is None else config.horizon_rank
    return rank * (config.columns + config.rows - rank)


def refits(config: ConfigDict) -> int:
    """Refits that the run makes: at most as many as asked, of batches that are equally large."""
    return -(-horizon(config) // -(-horizon(config) // config.refits))


def initial_size(config: ConfigDict) -> int:
    """Looks of the initial design."""
    return round(config.initial_fraction * horizon(config))


def entry_noise(config: ConfigDict) -> bool:
    """Whether the noise belongs to the entry: so where no entry is seen twice."""
    return config.once or config.beta == 0.0
