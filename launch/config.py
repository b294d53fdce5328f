"""The fields of a config that are settings of the library, made from its factories' signatures."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict, FieldReference

from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.variational import svi
from smc_jax.model.gamma_process import gamma_process
from smc_jax.policies.registry import POLICIES, settings_of
from smc_jax.presets import Preset, fitted_belief
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.silence import silent
from smc_jax.simulation.sweep import make_sweep

# Settings that may be None although their factory wants a number: the registry fills it in.
HALF = {"best_of": "None is half of the horizon."}


class Group(NamedTuple):
    """Settings that a config holds, and the factories that they are handed to."""

    factories: tuple[Callable[..., Any], ...]
    settings: Mapping[str, Any]  # names and defaults

    def kind(self, name: str) -> tuple[type, bool]:
        """The type of a setting, and whether it may be None, as its factory annotates it."""
        for factory in self.factories:
            parameters = inspect.signature(factory).parameters
            if name in parameters:
                annotation = parameters[name].annotation
                kinds = typing.get_args(annotation) or (annotation,)
                optional = types.NoneType in kinds or name in HALF
                return next(kind for kind in kinds if kind is not types.NoneType), optional
        raise KeyError(name)

    def meaning(self, name: str) -> str:
        """What the first factory that documents a setting says of it."""
        found = (documented(factory.__doc__ or "").get(name) for factory in self.factories)
        text = next((text for text in found if text), "")
        return text if name not in HALF or "None" in text else f"{text} {HALF[name]}"

    def fields(self) -> ConfigDict:
        """The settings as fields that hold their defaults; one that may be None knows its type."""
        made = ConfigDict()
        for name, default in self.settings.items():
            kind, optional = self.kind(name)
            made[name] = FieldReference(default, field_type=kind) if optional else default
        return made


def _some(factory: Callable[..., Any], *names: str) -> dict[str, Any]:
    settings = settings_of(factory)
    return {name: settings[name] for name in names}


def _but(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


# Settings that are fields of the config itself.
EXPERIMENT = Group(
    (fitted_belief, make_environment, make_loop, make_sweep),
    _some(fitted_belief, "rank", "standardise")
    | _some(make_environment, "beta", "once")
    | _some(make_loop, "refits", "asked", "delay", "told")
    | _some(make_sweep, "shard", "vmap_width"),
)

GROUPS: dict[str, Group] = {
    "model": Group((gamma_process,), settings_of(gamma_process)),
    "inference": Group(
        (fitted_belief, svi),
        _but(
            settings_of(fitted_belief, svi),
            "rank",
            "standardise",
            "model",
            "hmc",
            "gibbs",
            "features",
            "learn_value_slope",  # a field of the group silence
        ),
    ),
    "hmc": Group((hamiltonian,), _but(settings_of(hamiltonian), "first_steps")),
    "gibbs": Group((signed_gibbs,), _but(settings_of(signed_gibbs), "learn_value_slope")),
    "silence": Group((silent,), settings_of(silent)),
} | {
    name: Group(entry.factories, entry.settings)
    for name, entry in POLICIES.items()
    if entry.settings and not entry.groups
}


def library_fields() -> ConfigDict:
    """Everything that a config takes from the library, with the library's defaults."""
    config = EXPERIMENT.fields()
    for name, group in GROUPS.items():
        config[name] = group.fields()
    return config


def apply_preset(config: ConfigDict, preset: Preset) -> None:
    """Writes into the config what a preset says of the model, the inference and the policies."""
    config.rank, config.standardise = preset.rank, preset.standardise
    config.model.update(preset.model)
    config.inference.update(preset.inference)
    config.hmc.update(preset.hmc)
    config.gibbs.update(preset.gibbs)
    for name, settings in preset.policies.items():
        config[name].update(settings)


def may_be_none(group: str, name: str) -> bool:
    """Whether None has a meaning for a setting, whatever a config has there."""
    source = GROUPS.get(group, EXPERIMENT)
    return name in source.settings and source.kind(name)[1]


def documented(docstring: str, section: str = "Args") -> dict[str, str]:
    """The meanings that a docstring gives in one of its sections, `name: meaning`, by name."""
    _, _, body = inspect.cleandoc(docstring).partition(f"{section}:\n")
    found: dict[str, str] = {}
    name = None
    for line in body.splitlines():
        if line and not line.startswith("  "):
            break
        if begun := re.match(r"  (\*{0,2}\w[\w.]*): (.*)", line):
            name = begun[1]
            found[name] = begun[2]
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found
