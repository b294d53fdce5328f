"""Whether a config can be run: every complaint names the field, and is made before any compute.

The factories of the library refuse what they cannot use. Here their complaints become complaints
about fields, and what crosses fields is checked.
"""

import contextlib
import math
import operator
from collections.abc import Iterator

import jax
from ml_collections import ConfigDict

from configs import (
    arylation,
    buchwald,
    davis,
    jester,
    movielens,
    oboe,
    pkis1,
    replay,
    synthetic,
    table,
)
from launch import data, experiment, offers
from launch.config import may_be_none
from launch.features import checksum_of, make_features
from launch.priors import check_prior, check_taken, make_prior, prior_checksum
from launch.settings import (
    ConfigError,
    entry_noise,
    has_sizes,
    horizon,
    initial_size,
    policy_names,
    policy_settings,
)
from launch.silence import check_unused, check_value_slope
from smc_jax.checks import at_least, one_of, positive
from smc_jax.completion.stopping import held_out_errors
from smc_jax.data.jester import JOKES
from smc_jax.data.published import PUBLISHED
from smc_jax.model.features import Features
from smc_jax.model.gamma_process import gamma_process
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.equalised import equalised
from smc_jax.policies.registry import IGNORING, POLICIES, base_of, make_policy, named
from smc_jax.simulation.delays import check_delays
from smc_jax.simulation.sweep import SHARDS, make_resets

# Which fields an experiment on these data has.
MODULES = (synthetic, jester, movielens, replay, table, davis, pkis1, arylation, buchwald, oboe)
CONFIGS = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def defaults(config: ConfigDict) -> ConfigDict:
    """The fields of an experiment on the same data, as they are where nothing is said."""
    return CONFIGS[config.data].get_config()


def resolve(config: ConfigDict) -> ConfigDict:
    """A config that can be run, with what is left to the data filled in; the data are read.

    Raises ConfigError at the first field that cannot be used.
    """
    validate(config)
    filled = data.fill_in(config)
    if not has_sizes(config):
        validate(filled)
    data.make_data(filled)  # nothing is begun without the ratings
    make_features(filled)
    _stamp(filled, "features_checksum", checksum_of(filled))
    _stamp(filled, "prior_checksum", prior_checksum(filled))
    _stamp(filled, "offers.checksum", offers.checksum_of(filled))
    if (prior := make_prior(filled)) is not None:
        for name in policy_names(filled):
            check_taken(filled, name, experiment.make_policy(filled, name), prior)
    return filled


def _stamp(filled: ConfigDict, field: str, found: str | None) -> None:
    """Fills in the checksum of what was read; a record with another one is refused."""
    told = operator.attrgetter(field)(filled)
    if told not in (None, found):
        raise ConfigError(f"config.{field}: that of the files is {found}")
    filled.update_from_flattened_dict({field: found})


def validate(config: ConfigDict) -> None:
    """Raises ConfigError at the first field that cannot be used; nothing is changed or read."""
    if "panel_field" in config:
        raise ConfigError("config: is that of a figure: use python -m launch.figure")
    if config.get("data") not in CONFIGS:
        known = ", ".join(CONFIGS)
        raise ConfigError(f"config.data: must be one of {known}, got {config.get('data')!r}")
    check_fields(config, defaults(config))
    check_policy_names(config)
    check_seeds(config)
    check_prior(config)
    check_data(config)
    if has_sizes(config):
        check_sizes(config)
    check_model(config)
    check_policies(config)
    check_completable(config)


@contextlib.contextmanager
def naming(config: ConfigDict, group: str | None = None, **fields: str) -> Iterator[None]:
    """A factory's complaint `name: reason` becomes one about the field of that name.

    Args:
      config: the experiment.
      group: where the field is looked for first.
      **fields: names of the factory's settings that the config calls otherwise.
    """
    try:
        yield
    except ConfigError:
        raise
    except ValueError as error:
        name, _, reason = str(error).partition(": ")
        if group and fields.get(name, name) in config[group]:
            told = f"config.{group}.{fields.get(name, name)}: {reason}"
        elif fields.get(name, name) in config:
            told = f"config.{fields.get(name, name)}: {reason}"
        else:
            told = f"config.{group}: {error}" if group else f"config: {error}"
        raise ConfigError(told) from error


def _require(holds: bool, config: ConfigDict, field: str, what: str) -> None:
    if not holds:
        raise ConfigError(f"config.{field}: {what}, got {config[field]!r}")


def check_fields(config: ConfigDict, reference: ConfigDict, group: str = "") -> None:
    """Refuses a field that is missing, unknown, of another type than the reference's, or NaN."""
    for field in sorted({*reference.keys(), *config.keys()}):
        name = f"config.{group}.{field}" if group else f"config.{field}"
        if field not in config or field not in reference:
            raise ConfigError(f"{name}: {'missing' if field not in config else 'no such field'}")
        value, kind = config[field], reference.get_type(field)
        if isinstance(reference[field], ConfigDict):
            if not isinstance(value, ConfigDict):
                raise ConfigError(f"{name}: must be a group of fields, got {value!r}")
            check_fields(value, reference[field], field)
            continue
        if value is None and (reference[field] is None or may_be_none(group, field)):
            continue
        number = int | float if kind is float else kind
        fits = isinstance(value, number) and isinstance(value, bool) == (kind is bool)
        if not fits and kind is not object:
            raise ConfigError(f"{name}: must be of type {kind.__name__}, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}: must be finite, got {value!r}")


def check_policy_names(config: ConfigDict) -> None:
    """Refuses names that stand for no policy. Modules that are named are imported."""
    names = policy_names(config)
    _require(bool(names), config, "policies", "must name at least one policy")
    for name in names:
        try:
            named(name)
        except Exception as error:  # importing a module can raise anything
            raise ConfigError(f"config.policies: {error}") from error


def check_seeds(config: ConfigDict) -> None:
    """Refuses seeds that have no key, and a placement that the devices do not allow."""
    with naming(config):
        at_least("seeds", config.seeds, 1)
        at_least("first_seed", config.first_seed, 0)
        last = config.first_seed + config.seeds - 1
        _require(last < 2**32, config, "first_seed", "must leave every seed below 2^32")
        one_of("shard", config.shard, SHARDS)
        # Refuses a placement before it is handed anything to place.
        make_resets(lambda seed: seed, **experiment.placement(config))  # type: ignore[arg-type, return-value]


def check_data(config: ConfigDict) -> None:
    """Refuses what these data cannot do; they are not read."""
    if config.data == "synthetic":
        with naming(config):
            data.make_data(config)
        return
    if config.data == "table":
        data.check_table(config)
    if config.data == "jester":
        _require(config.rows == JOKES, config, "rows", f"must be {JOKES}, the jokes there are")
    if config.oracle.covariance == "true":
        raise ConfigError(
            "config.oracle.covariance: recorded data have none that is true;"
            " choose second_moment or population"
        )
    if config.completable.noise_deviation is None and experiment.checks_completion(config):
        raise ConfigError("config.completable.noise_deviation: must be given with recorded data")


def check_sizes(config: ConfigDict) -> None:
    """Refuses a horizon, a rank or offers that do not go with rows and columns."""
    rows, columns = config.rows, config.columns
    with naming(config):
        for field in ("rows", "columns", "rank", "refits", "asked"):
            at_least(field, config[field], 1)
    _require(config.rank <= rows, config, "rank", f"must be at most rows = {rows}")
    if config.shard == "columns":
        devices = len(jax.devices())
        told = f"must be a multiple of {devices}, the devices that share them"
        _require(columns % devices == 0, config, "columns", told)
    if config.horizon is not None:
        _require(config.horizon >= 1, config, "horizon", "must be at least 1")
    elif config.horizon_rank is not None:
        fits = 1 <= config.horizon_rank <= min(rows, columns)
        _require(fits, config, "horizon_rank", f"must lie in [1, {min(rows, columns)}]")
    picks = horizon(config)
    if picks < 1:
        raise ConfigError(f"config.rank: makes the horizon {picks}; set config.horizon")
    _require(config.initial_fraction >= 0.0, config, "initial_fraction", "must not be negative")
    _check_offers(config)
    _check_silence(config)
    answers = initial_size(config)
    # There the data tell how many entries exist.
    whole = config.data not in ("table", "replay", *PUBLISHED)
    if config.once and whole and picks + answers > rows * columns:
        longest = data.longest_horizon(rows * columns, config.initial_fraction)
        raise ConfigError(
            f"config.horizon: {picks} picks after an initial design of up to {answers} need more"
            f" than the {rows * columns} entries there are; set config.horizon to at most"
            f" {longest}, or config.once=False"
        )
    for field in ("refits", "asked"):
        _require(config[field] <= picks, config, field, f"must be at most the horizon {picks}")


def _check_offers(config: ConfigDict) -> None:
    _require(config.arrivals >= 0, config, "arrivals", "must not be negative")
    most = f"must be at most columns = {config.columns}"
    _require(config.arrivals <= config.columns, config, "arrivals", most)
    with naming(config):
        check_delays(delay=config.delay, told=config.told, asked=config.asked)
    with naming(config, "offers", initial="initial_fraction", **offers.NAMES):
        made = experiment.offered(config, lambda key, seed: None, read=False)  # type: ignore[arg-type, return-value]
    told = "must be 1 where offers change from pick to pick"
    _require(config.asked == 1 or made.standing, config, "asked", told)


def _check_silence(config: ConfigDict) -> None:
    """Refuses rates that are none, and what does not go with silence."""
    silence, silent = config.silence, experiment.is_silent(config)
    least = silence.lowest_rate
    if least > 1.0:
        raise ConfigError(f"config.silence.lowest_rate: must be at most 1, got {least!r}")
    if not silent and any(base_of(name) != name for name in policy_names(config)):
        raise ConfigError(
            f"config.policies: NAME{IGNORING} is for asks that may not be answered;"
            " set config.silence.lowest_rate below 1"
        )
    if silent:
        check_value_slope(config)
    else:
        check_unused(config, defaults(config))
    _require(not (silent and config.equalise), config, "equalise", "must be False under silence")
    priced = config.offers.costs is not None
    _require(not (priced and config.equalise), config, "equalise", "must be False under costs")
    with naming(config, "silence", initial="initial_fraction"):
        experiment.benchmark(config)  # which makes the environment


def check_model(config: ConfigDict) -> None:
    """Refuses a model and an inference that cannot be used."""
    with naming(config, "model"):
        gamma_process(rank=config.rank, **config.model)
    with naming(config, "inference"):
        for field in ("first_steps", "steps"):
            at_least(field, config.inference[field], 1)  # or what was seen would change nothing
        experiment.make_belief(config, "svi")
    # The settings of a method that is not used are recorded too.
    with naming(config, "gibbs" if config.model.loadings == "signed" else "hmc"):
        experiment.make_belief(config, "mcmc", Features())
    with naming(config, "inference"):
        experiment.make_belief(config, features=Features())
    known = config.inference.method == "mcmc" and config.row_features is not None
    if not (config.model.residual or known):
        needed = "False needs config.inference.method=mcmc and config.row_features"
        raise ConfigError(f"config.model.residual: {needed}")


def check_policies(config: ConfigDict) -> None:
    """Refuses settings of any policy that cannot be used: those not run are recorded too."""
    # Before a table is read its horizon may not be known; any will do to check the settings.
    picks = horizon(config) if config.horizon is not None or has_sizes(config) else 1
    setting = experiment.make_setting(config, picks, Features())
    with naming(config, strength="equalise_strength"):
        equalised(make_policy("random", setting), strength=config.equalise_strength)
    once = config.once or not config.equalise
    _require(once, config, "equalise", "is for entries that are chosen once: set once=True")
    alone = config.entry_prediction is None or not config.equalise
    _require(alone, config, "equalise", "must be False with config.entry_prediction")
    for name in POLICIES:
        with naming(config, name if name in config else None):
            make_policy(name, setting, **policy_settings(config, name))
    for name in policy_names(config):
        if base_of(name) not in POLICIES:
            _check_foreign(config, name, setting)
        else:
            _check_best_of(config, base_of(name))
    if "optspace" in map(base_of, policy_names(config)) and has_sizes(config):
        rank, widest = config.optspace.rank, min(config.rows, config.columns)
        if rank > widest:
            raise ConfigError(f"config.optspace.rank: must be at most {widest}, got {rank}")


def _check_best_of(config: ConfigDict, name: str) -> None:
    """Refuses the average of several entries where the best one can be chosen every time."""
    best_of = policy_settings(config, name).get("best_of", 1)
    if best_of != 1 and not entry_noise(config):
        group = name if name in config else POLICIES[name].groups[0]
        raise ConfigError(
            f"config.{group}.best_of: must be 1 where entries are chosen again and again,"
            f" got {best_of!r}"
        )


def _check_foreign(config: ConfigDict, name: str, setting: Setting) -> None:
    """Refuses a policy from outside that cannot be made."""
    try:
        made = experiment.make_policy(config, name, setting)
    except Exception as error:  # somebody else's function can raise anything
        told = f"{type(error).__name__}: {error}"
        raise ConfigError(f"config.policies: {name} cannot be made: {told}") from error
    if not isinstance(made, Policy):
        raise ConfigError(
            f"config.policies: {name} must return a smc_jax.Policy, got {type(made).__name__}"
        )


def check_completable(config: ConfigDict) -> None:
    """Refuses settings of the stopping rule that cannot be used."""
    settings = config.completable
    with naming(config, "completable"):
        positive("factor", settings.factor)
        positive("noise_deviation", settings.noise_deviation, optional=True)
        held_out_errors(fraction=settings.held_out, noise_deviation=1.0)
