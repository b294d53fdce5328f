"""From a config to the functions that run it."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array
from ml_collections import ConfigDict

from launch import offers
from launch.data import make_data
from launch.features import make_features
from launch.priors import make_prior
from launch.settings import entry_noise, horizon, initial_size, policy_settings
from smc_jax import presets
from smc_jax.beliefs.base import Belief
from smc_jax.completion.stopping import HeldOut, completable_at, held_out_errors
from smc_jax.model.features import Features
from smc_jax.observations import Observations
from smc_jax.policies import registry
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.equalised import equalised
from smc_jax.policies.heeding import heeding_silence
from smc_jax.simulation.environment import Environment, make_environment
from smc_jax.simulation.loop import Loop, make_loop, make_reset
from smc_jax.simulation.problem import MakeProblem
from smc_jax.simulation.silence import silent
from smc_jax.simulation.sweep import Sweep, make_resets, make_sweep


def is_silent(config: ConfigDict) -> bool:
    """Whether not every ask is answered."""
    return config.silence.lowest_rate < 1.0


def learns_value_slope(config: ConfigDict) -> bool:
    """Whether the fitted model learns that answers depend on values."""
    return is_silent(config) and config.silence.heed and config.silence.learn_value_slope


def checks_completion(config: ConfigDict) -> bool:
    """Whether each refit asks how well what was seen can be completed."""
    return config.completable.check or config.stop_when_completable


def first_completable(config: ConfigDict, errors: HeldOut) -> np.ndarray:
    """The first refit [seeds] at which the matrix could be completed, -1 for none."""
    noise = noise_deviation(config)
    return completable_at(errors, noise_deviation=noise, factor=config.completable.factor)


def stops(config: ConfigDict, errors: HeldOut) -> np.ndarray:
    """The refit [seeds] at which the run of each seed ends for that reason, -1 for none."""
    never = np.full(config.seeds, -1)
    return first_completable(config, errors) if config.stop_when_completable else never


def noise_deviation(config: ConfigDict) -> float:
    """The noise that the error of a completion is compared with."""
    given = config.completable.noise_deviation
    return math.sqrt(config.noise_variance) if given is None else given


def make_held_out_errors(config: ConfigDict) -> Callable[[Array, Observations], HeldOut] | None:
    """The errors of the convex completion on a part of what was seen, where they are asked for."""
    if not checks_completion(config):
        return None
    fraction, noise = config.completable.held_out, noise_deviation(config)
    return held_out_errors(fraction=fraction, noise_deviation=noise)


def make_belief(
    config: ConfigDict,
    method: str | None = None,
    features: Features | None = None,
    *,
    learn_value_slope: bool = False,
) -> Belief:
    """The fitted model, by the method of the config unless another is named.

    Args:
      config: of the experiment.
      method: of the inference; where SVI is named, it is the paper's, which knows no features.
      features: what is known of rows and columns; None reads what the config names. Without
        features of rows these have loadings of their own, whatever the config says.
      learn_value_slope: whether it learns who answers, from data that count refusals.
    """
    inference = dict(config.inference) | ({} if method is None else {"method": method})
    if features is None:
        features = Features() if method == "svi" else make_features(config)
    return presets.fitted_belief(
        rank=config.rank,
        standardise=config.standardise,
        model=config.model if features.rows is not None else {**config.model, "residual": True},
        hmc=config.hmc,
        gibbs=config.gibbs,
        features=features,
        learn_value_slope=learn_value_slope,
        **inference,
    )


def make_setting(
    config: ConfigDict,
    picks: int | None = None,
    features: Features | None = None,
    *,
    heeds: bool = True,
) -> Setting:
    """What all policies of the experiment share; its horizon and features, unless others are given.

    The paper's own fit, which some policies have, knows nothing of features, and nor of who answers
    does the model of a policy that does not heed silence.
    """
    learns = heeds and learns_value_slope(config)
    return Setting(
        make_belief(config, features=features, learn_value_slope=learns),
        entry_noise(config),
        config.standardise,
        horizon(config) if picks is None else picks,
        make_belief(config, "svi"),
    )


def make_policy(config: ConfigDict, name: str, setting: Setting | None = None) -> Policy:
    """A policy by its name, with its own settings."""
    heeds = is_silent(config) and config.silence.heed and registry.named(name).heeds
    setting = make_setting(config, heeds=heeds) if setting is None else setting
    policy = registry.make_policy(name, setting, **policy_settings(config, name))
    if config.equalise:
        policy = equalised(policy, strength=config.equalise_strength)
    return heeding_silence(policy) if heeds else policy


def offered(config: ConfigDict, make_problem: MakeProblem, *, read: bool = True) -> Environment:
    """The matrices, and who and what is on offer, whose tables are read."""
    made = make_environment(
        make_problem, initial=initial_size(config), beta=config.beta, once=config.once
    )
    return offers.wrap(config, made, read=read)


def environment(config: ConfigDict, make_problem: MakeProblem, *, read: bool = True) -> Environment:
    """What is offered, and who answers."""
    made = offered(config, make_problem, read=read)
    if is_silent(config):
        settings = {name: config.silence[name] for name in registry.settings_of(silent)}
        made = silent(made, **settings)
    return made


def benchmark(config: ConfigDict) -> str:
    """Whether regret is measured from the best sequence, or from an upper bound on it.

    An entry that can be asked again is closed while its answer is late, which the best sequence
    does not heed. Where several columns arrive, and where rows are in stock, losses count as
    nothing in it, so that it is exact where no offer of it is a loss.
    """
    nothing: Any = lambda key, seed: None  # noqa: E731
    made = environment(config, nothing, read=False)
    late = config.delay > 0 or config.told == "at_refits"
    again = not config.once or (is_silent(config) and config.silence.ask_again)
    if not made.exact or (late and again):
        return "upper bound"
    lossless = config.arrivals <= 1 and config.offers.in_stock == 1.0
    return "exact" if lossless else "exact but for losses"


def placement(config: ConfigDict) -> dict[str, Any]:
    """All seeds of an experiment, or the columns of its matrices, over the devices."""
    devices = jax.devices() if config.shard == "columns" else jax.devices()[: config.seeds]
    return {"shard": config.shard, "vmap_width": config.vmap_width, "devices": devices}


def build(config: ConfigDict, name: str, world: Environment | None = None) -> Loop:
    """The experiment with one policy, in an environment that several may share."""
    return make_loop(
        environment(config, make_data(config)) if world is None else world,
        make_policy(config, name),
        horizon=horizon(config),
        refits=config.refits,
        asked=config.asked,
        delay=config.delay,
        told=config.told,
        held_out_errors=make_held_out_errors(config),
        prior=make_prior(config),
    )


def sweeps(config: ConfigDict) -> Callable[[str], tuple[Loop, Sweep]]:
    """From a policy's name to its loop and sweep; data and resets are made once for all."""
    world, place = environment(config, make_data(config)), placement(config)
    resets = make_resets(make_reset(world, horizon=horizon(config)), **place)

    def of_policy(name: str) -> tuple[Loop, Sweep]:
        loop = build(config, name, world)
        return loop, make_sweep(loop, resets=resets, **place)

    return of_policy
