"""What the fields of silence go with."""

from ml_collections import ConfigDict

from launch.settings import ConfigError


def check_unused(config: ConfigDict, usual: ConfigDict) -> None:
    """Refuses fields that are not as usual and mean nothing, because every ask is answered."""
    for field in ("row_spread", "value_slope", "ask_again", "heed", "learn_value_slope"):
        if config.silence[field] != usual.silence[field]:
            raise ConfigError(
                f"config.silence.{field}: means nothing where every ask is answered; set"
                " config.silence.lowest_rate below 1"
            )


def check_value_slope(config: ConfigDict) -> None:
    """Refuses what answers that depend on values are not learned with, where they are learned."""
    if not config.silence.learn_value_slope:
        return
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
