"""From a config to the functions that run it. All complaints about a config are made here."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array
from ml_collections import ConfigDict

from configs import jester as jester_config
from configs import movielens as movielens_config
from configs import replay as replay_config
from configs import synthetic as synthetic_config
from configs import table as table_config
from launch.data import fill_in_table, longest_horizon, make_data
from launch.settings import ConfigError, entry_noise, horizon, initial_size, policy_names
from smc_jax import beliefs
from smc_jax.completable import HeldOut, completable_at, held_out_errors
from smc_jax.data.jester import JOKES
from smc_jax.data.synthetic import LOADINGS
from smc_jax.environment import Problem
from smc_jax.inference import OPTIMISERS, svi
from smc_jax.loop import Loop, make_loop, make_opening
from smc_jax.model import gamma_process
from smc_jax.policies import POLICIES, Policy, Setting
from smc_jax.policies.equalised import equalised
from smc_jax.start import STARTS
from smc_jax.sweep import SHARDS, Sweep, make_openings, make_sweep
from smc_jax.types import Observations

# Which fields an experiment on these data has.
CONFIGS = {
    "synthetic": synthetic_config,
    "jester": jester_config,
    "movielens": movielens_config,
    "replay": replay_config,
    "table": table_config,
}
HORIZON_READINGS = ("bound", "true_rank")
OPTIONAL = ("best_of", "learning_rate")  # None has a meaning, whatever a config has there
AT_LEAST_ONE = (
    *("greedy.draws", "oracle.draws", "mean_oracle.draws", "optspace.rank", "optspace.steps"),
    *("particle.particles", "particle.rank"),
    *("icf.rank", "icf.draws", "icf.sweeps", "icf.first_sweeps"),
)
POSITIVE = (
    *("empirical.strength", "empirical.floor"),
    *("particle.noise_variance", "particle.factor_variance", "particle.shape", "particle.rate"),
    *("icf.noise_variance", "icf.factor_variance", "icf.shape", "icf.rate"),
    *("completable.factor", "completable.noise_deviation"),
)


def defaults(config: ConfigDict) -> ConfigDict:
    """The fields of an experiment on the same data, as they are where nothing is said."""
    return CONFIGS[config.data].get_config()


def validate(config: ConfigDict) -> None:
    """Raises ConfigError at the first field that cannot be used.

    Fields that are left to the data are filled in, so that what is recorded is what was run.
    """

    def require(holds: bool, field: str, what: str) -> None:
        if not holds:
            value: Any = config
            for part in field.split("."):
                value = value[part]
            raise ConfigError(f"config.{field}: {what}, got {value!r}")

    if "panel_field" in config:
        raise ConfigError("config: is that of a figure: use python -m launch.figure")
    known_data = ", ".join(CONFIGS)
    if config.get("data") not in CONFIGS:
        raise ConfigError(f"config.data: must be one of {known_data}, got {config.get('data')!r}")
    _check_fields(config, defaults(config), "config")
    if config.data == "table":
        fill_in_table(config)
    for name in policy_names(config):
        known = ", ".join(POLICIES)
        if name not in POLICIES:
            raise ConfigError(f"config.policies: unknown policy {name!r}; choose from {known}")
    require(bool(policy_names(config)), "policies", "must name at least one policy")
    for field in ("seeds", "rows", "columns", "rank", "refits"):
        require(config[field] >= 1, field, "must be at least 1")
    last_seed = config.first_seed + config.seeds - 1
    require(config.first_seed >= 0, "first_seed", "must not be negative")
    require(last_seed < 2**32, "first_seed", "must leave every seed below 2^32")
    require(config.shard in SHARDS, "shard", f"must be one of {', '.join(SHARDS)}")
    devices = len(jax.devices()) if config.shard == "columns" else 1
    even = config.columns % devices == 0
    require(even, "columns", f"must be a multiple of {devices}, the devices that share them")
    require(config.rank <= config.rows, "rank", f"must be at most rows = {config.rows}")
    require(0.0 <= config.beta <= 1.0, "beta", "must lie in [0, 1]")
    if config.data == "synthetic":
        bound = f"must lie in [1, rows = {config.rows}]"
        require(1 <= config.true_rank <= config.rows, "true_rank", bound)
        require(config.noise_variance > 0.0, "noise_variance", "must be positive")
        require(config.loadings in LOADINGS, "loadings", f"must be one of {', '.join(LOADINGS)}")
    else:
        if config.data == "jester":
            require(config.rows == JOKES, "rows", f"must be {JOKES}, the jokes there are")
        told = config.oracle.covariance != "true"
        require(told, "oracle.covariance", "recorded data have none that is true")
        given = config.completable.noise_deviation is not None or not checks_completion(config)
        require(given, "completable.noise_deviation", "must be given with recorded data")
        make_data(config)  # nothing is begun without the ratings
    require(config.initial_fraction >= 0.0, "initial_fraction", "must not be negative")
    if config.horizon is not None:
        require(config.horizon >= 1, "horizon", "must be at least 1")
    elif config.horizon_rank is not None:
        widest = min(config.rows, config.columns)
        bound = f"must lie in [1, {widest}]"
        require(1 <= config.horizon_rank <= widest, "horizon_rank", bound)
    picks = horizon(config)
    if picks < 1:
        raise ConfigError(f"config.rank: makes the horizon {picks}; set config.horizon")
    if config.once:
        entries, looks = config.rows * config.columns, initial_size(config)
        if picks + looks > entries:
            longest = longest_horizon(entries, config.initial_fraction)
            raise ConfigError(
                f"config.horizon: {picks} picks after an initial design of up to {looks} need more"
                f" than the {entries} entries there are; set config.horizon to at most {longest},"
                " or config.once=False"
            )
    require(config.refits <= picks, "refits", f"must be at most the horizon {picks}")
    model, inference = config.model, config.inference
    for field in ("intercept_scale", "noise_shape", "noise_rate"):
        require(model[field] > 0.0, f"model.{field}", "must be positive")
    for field in ("noise_spread", "common"):
        require(model[field] >= 0.0, f"model.{field}", "must not be negative")
    if model.fixed_noise is not None:
        require(model.fixed_noise > 0.0, "model.fixed_noise", "must be positive")
    starts, optimisers = ", ".join(STARTS), ", ".join(OPTIMISERS)
    require(inference.start in STARTS, "inference.start", f"must be one of {starts}")
    offered = inference.optimiser in OPTIMISERS
    require(offered, "inference.optimiser", f"must be one of {optimisers}")
    if inference.learning_rate is not None:
        require(inference.learning_rate > 0.0, "inference.learning_rate", "must be positive")
    for field in ("first_steps", "steps", "draws", "window"):
        require(inference[field] >= 1, f"inference.{field}", "must be at least 1")
    some = inference.columns is None or inference.columns >= 1
    require(some, "inference.columns", "must be at least 1")
    steady = inference.columns is None or inference.tolerance == 0.0
    require(steady, "inference.tolerance", "must be 0 where a step looks at some columns")
    require(inference.tolerance >= 0.0, "inference.tolerance", "must not be negative")
    require(inference.start_scale > 0.0, "inference.start_scale", "must be positive")
    require(config.equalise_strength > 0.0, "equalise_strength", "must be positive")
    for group in ("ids", "oracle", "mean_oracle"):
        best_of = config[group].best_of
        require(best_of is None or best_of >= 1, f"{group}.best_of", "must be at least 1")
        one = config.once or config.beta == 0.0 or best_of == 1 or group not in policy_names(config)
        require(one, f"{group}.best_of", "must be 1 where entries are chosen again and again")
    chosen_once = config.once or not config.equalise
    require(chosen_once, "equalise", "is for entries that are chosen once: set once=True")
    for field in ("draws", "bins", "chunk"):
        least = 2 if field == "bins" else 1
        require(config.ids[field] >= least, f"ids.{field}", f"must be at least {least}")
    for field in AT_LEAST_ONE:
        group, name = field.split(".")
        require(config[group][name] >= 1, field, "must be at least 1")
    for field in POSITIVE:
        group, name = field.split(".")
        value = config[group][name]
        require(value is None or value > 0.0, field, "must be positive")
    for group, name in (("optspace", "penalty"), ("icf", "exploration")):
        require(config[group][name] >= 0.0, f"{group}.{name}", "must not be negative")
    share = config.completable.held_out
    require(0.0 < share < 1.0, "completable.held_out", "must lie between 0 and 1")
    widest = min(config.rows, config.columns)
    if "optspace" in policy_names(config):
        require(config.optspace.rank <= widest, "optspace.rank", f"must be at most {widest}")
    for name in POLICIES:  # those that are not run are recorded too
        try:
            make_policy(config, name)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"config.{error}") from error


def _check_fields(config: ConfigDict, reference: ConfigDict, path: str) -> None:
    """Raises ConfigError where a field is missing, unknown, of the wrong type or not finite."""
    for field in sorted({*reference.keys(), *config.keys()}):
        name = f"{path}.{field}"
        if field not in config or field not in reference:
            raise ConfigError(f"{name}: {'missing' if field not in config else 'no such field'}")
        value, kind = config[field], reference.get_type(field)
        if isinstance(reference[field], ConfigDict):
            if not isinstance(value, ConfigDict):
                raise ConfigError(f"{name}: must be a group of fields, got {value!r}")
            _check_fields(value, reference[field], name)
            continue
        number = int | float if kind is float else kind
        if value is None and (reference[field] is None or field in OPTIONAL):
            continue
        fits = isinstance(value, number) and isinstance(value, bool) == (kind is bool)
        if not fits and kind is not object:
            raise ConfigError(f"{name}: must be of type {kind.__name__}, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}: must be finite, got {value!r}")


def panels(config: ConfigDict) -> dict[str, ConfigDict]:
    """The experiments of a figure, by title: one for each value of its panel field."""
    figure = {"panel_field", "panel_values", "horizon_reading"}
    missing = sorted(figure - set(config.keys()))
    if missing:
        raise ConfigError(f"config.{missing[0]}: missing; a figure's config is configs/figure1.py")
    field, values, reading = (
        config[name] for name in ("panel_field", "panel_values", "horizon_reading")
    )
    if field not in config or field in figure:
        raise ConfigError(f"config.panel_field: no such field of an experiment as {field!r}")
    if not isinstance(values, list | tuple) or not values or len(set(values)) < len(values):
        raise ConfigError(f"config.panel_values: must be different values of {field}, got {values}")
    if reading not in HORIZON_READINGS:
        known = ", ".join(HORIZON_READINGS)
        raise ConfigError(f"config.horizon_reading: must be one of {known}, got {reading!r}")
    if reading == "true_rank" and not (config.horizon is config.horizon_rank is None):
        raise ConfigError("config.horizon_reading: true_rank leaves horizon and horizon_rank unset")
    made = {}
    for value in values:
        panel = ConfigDict({name: config[name] for name in config if name not in figure})
        with panel.ignore_type():  # `validate` judges it
            panel[field] = value
        if reading == "true_rank":
            if "true_rank" not in panel:
                raise ConfigError("config.horizon_reading: these data have no true rank")
            panel.horizon_rank = panel.true_rank
        title = value if field == "data" else f"{field.replace('_', ' ')} {value}"
        made[str(title)] = panel
    return made


def validate_panels(config: ConfigDict) -> dict[str, ConfigDict]:
    """The same, of which each can be run; ConfigError at the first that cannot."""
    made, field = panels(config), config.panel_field
    for panel in made.values():
        try:
            validate(panel)
        except ConfigError as error:
            named, _, reason = str(error).partition(": ")
            if named != f"config.{field}":
                raise
            told = f"config.panel_values: with {field} = {panel[field]}: {reason}"
            raise ConfigError(told) from error
    return made


def checks_completion(config: ConfigDict) -> bool:
    """Whether each refit asks how well what was seen can be completed."""
    return config.completable.check or config.stop_when_completable


def first_completable(config: ConfigDict, errors: HeldOut) -> np.ndarray:
    """The first refit [seeds] that the matrix could be completed at, -1 for none."""
    noise = _noise_deviation(config)
    return completable_at(errors, noise_deviation=noise, factor=config.completable.factor)


def stops(config: ConfigDict, errors: HeldOut) -> np.ndarray:
    """The refit [seeds] at which each seed's run ends for that reason, -1 for none."""
    never = np.full(config.seeds, -1)
    return first_completable(config, errors) if config.stop_when_completable else never


def _noise_deviation(config: ConfigDict) -> float:
    given = config.completable.noise_deviation
    return math.sqrt(config.noise_variance) if given is None else given


def make_belief(config: ConfigDict) -> beliefs.Belief:
    """The fitted model."""
    model = gamma_process(rank=config.rank, **config.model)
    settings = config.inference
    optimiser = OPTIMISERS[settings.optimiser]
    rate = () if settings.learning_rate is None else (settings.learning_rate,)
    inference = svi(
        model=model,
        optimiser=optimiser(*rate),
        draws=settings.draws,
        columns=settings.columns,
        window=settings.window,
        tolerance=settings.tolerance,
        start_scale=settings.start_scale,
    )
    start = STARTS[settings.start](model)
    belief = beliefs.variational(
        model, start, inference, first_steps=settings.first_steps, steps=settings.steps
    )
    return beliefs.standardised(belief) if config.standardise else belief


def make_policy(config: ConfigDict, name: str) -> Policy:
    """A policy by its name, with its own settings."""
    setting = Setting(make_belief(config), entry_noise(config), config.standardise)
    own = dict(config.get(name, {}))
    if "best_of" in own and own["best_of"] is None:
        own["best_of"] = max(horizon(config) // 2, 1)
    policy = POLICIES[name](setting, **own)
    return equalised(policy, strength=config.equalise_strength) if config.equalise else policy


def make_held_out_errors(config: ConfigDict) -> Callable[[Array, Observations], HeldOut] | None:
    """The errors of the convex completion on a part of what was seen, where they are asked for."""
    if not checks_completion(config):
        return None
    fraction, noise = config.completable.held_out, _noise_deviation(config)
    return held_out_errors(fraction=fraction, noise_deviation=noise)


def _placement(config: ConfigDict) -> dict[str, Any]:
    """All seeds of an experiment, or the columns of its matrices, over the devices."""
    devices = jax.devices() if config.shard == "columns" else jax.devices()[: config.seeds]
    return {"shard": config.shard, "devices": devices}


def _rules(config: ConfigDict) -> dict[str, Any]:
    """What is the same for all policies."""
    return {
        "horizon": horizon(config),
        "initial": initial_size(config),
        "beta": config.beta,
        "once": config.once,
    }


def sweeps(config: ConfigDict) -> Callable[[str], tuple[Loop, Sweep]]:
    """From a policy's name to its loop and sweep; their data and openings are made once for all."""
    make_problem, place = make_data(config), _placement(config)
    openings = make_openings(make_opening(make_problem, **_rules(config)), **place)

    def of_policy(name: str) -> tuple[Loop, Sweep]:
        loop = build(config, name, make_problem)
        return loop, make_sweep(loop, openings=openings, **place)

    return of_policy


def build(
    config: ConfigDict, name: str, make_problem: Callable[..., Problem] | None = None
) -> Loop:
    """The experiment with one policy, on data that several may share."""
    return make_loop(
        make_data(config) if make_problem is None else make_problem,
        make_policy(config, name),
        refits=config.refits,
        held_out_errors=make_held_out_errors(config),
        **_rules(config),
    )
