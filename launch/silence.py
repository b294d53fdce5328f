"""What answers that depend on values go with."""

from ml_collections import ConfigDict

from launch.settings import ConfigError


def check_value_slope(config: ConfigDict) -> None:
    """Refuses what answers that depend on values are not learned with."""
    signed = config.inference.method == "mcmc" and config.model.loadings == "signed"
    known = config.history or config.prior is not None
    needed = (
        (config.silence.heed, "set config.silence.heed=True"),
        (signed, "set config.inference.method=mcmc and config.model.loadings=signed"),
        (not known, "a history does not count refusals: leave out config.history and config.prior"),
    )
    for holds, told in needed:
        if not holds:
            raise ConfigError(f"config.silence.learn_value_slope: {told}, or set it to False")
