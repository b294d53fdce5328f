"""The policies by name, as pairs of a rule and a belief.

To add a pair: a line in POLICIES. A policy from elsewhere needs none: `named("module:function")`.
A name can also stand for a policy with some of its settings fixed: see `variant`.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from smc_jax.beliefs.base import Belief
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.told import told
from smc_jax.beliefs.units import standardised
from smc_jax.checks import at_least, one_of
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.completion import completion
from smc_jax.policies.greedy import greedy
from smc_jax.policies.ids import ids
from smc_jax.policies.random import random
from smc_jax.policies.thompson import thompson
from smc_jax.policies.ucb import ucb

IGNORING = "_ignoring"  # behind the name of a policy that takes every answer for certain
SHARED = ("belief", "entry_noise")  # what a rule gets from the experiment


def settings_of(*factories: Callable[..., Any]) -> dict[str, Any]:
    """The keyword settings that have defaults, with these; of equal names the first factory's."""
    found: dict[str, Any] = {}
    for factory in factories:
        for name, parameter in inspect.signature(factory).parameters.items():
            has_default = parameter.default is not parameter.empty
            if parameter.kind is parameter.KEYWORD_ONLY and has_default and name not in SHARED:
                found.setdefault(name, parameter.default)
    return found


class Named(NamedTuple):
    """A policy that can be asked for by its name."""

    make: Callable[..., Policy]  # (setting, **settings)
    settings: Mapping[str, Any]  # names and defaults
    groups: tuple[str, ...] = ()  # other policies whose settings these are, where it has none
    factories: tuple[Callable[..., Any], ...] = ()  # whose docstrings tell what a setting means
    heeds: bool = True  # whether it learns who answers, where not everybody does


def _in_units(factory: Callable[..., Belief]) -> Callable[..., Belief]:
    """The belief on standardised values, where the experiment has them."""

    def make(setting: Setting, **settings: Any) -> Belief:
        belief = factory(**settings)
        return standardised(belief) if setting.standardise else belief

    return make


def half_of_horizon(setting: Setting) -> int:
    """The `best_of` that stands for None: the picks to come share out the best entries."""
    if setting.horizon is None:
        raise ValueError("best_of: None is half of the horizon, which is not known here")
    return max(setting.horizon // 2, 1)


def apply_rule(
    rule: Callable[..., Policy], setting: Setting, belief: Belief, settings: Mapping[str, Any]
) -> Policy:
    """A rule with its own part of the settings on a belief."""
    if belief is not None and belief.learns_answers and not setting.entry_noise:
        raise ValueError(
            "entry_noise: must be True where answers depend on values, for it is the value with its"
            " noise that they depend on; set learn_value_slope=False"
        )
    accepted = inspect.signature(rule).parameters
    own = {name: value for name, value in settings.items() if name in accepted}
    if "best_of" in own and own["best_of"] is None:
        own["best_of"] = half_of_horizon(setting)
    if "entry_noise" in accepted:
        own["entry_noise"] = setting.entry_noise
    return rule(belief, **own)


def pair(
    rule: Callable[..., Policy],
    belief: Callable[..., Belief] | None = None,
    *,
    units: bool = True,
    groups: tuple[str, ...] = (),
    fixed: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Named:
    """A rule on a belief, by default on the fitted model of the experiment.

    Args:
      rule: from a belief and settings to a policy.
      belief: from settings to a belief.
      units: whether the belief is on standardised values where the experiment has them.
      groups: whose settings it takes where it has none of its own.
      fixed: settings that have no meaning for this pair, with their values.
      **defaults: settings whose defaults differ from what the rule and the belief have.
    """
    own = {} if belief is None else settings_of(belief)
    fixed = fixed or {}

    def make(setting: Setting, **settings: Any) -> Policy:
        settings |= fixed
        if belief is None:
            made = setting.belief
        else:
            chosen = {name: value for name, value in settings.items() if name in own}
            in_units = _in_units(belief) if units else lambda setting, **chosen: belief(**chosen)
            made = in_units(setting, **chosen)
        return apply_rule(rule, setting, made, settings)

    factories = (rule,) if belief is None else (rule, belief)  # of equal names the rule's
    everything = {n: v for n, v in settings_of(*factories).items() if n not in fixed}
    return Named(make, everything | defaults, groups, factories)


ICF_RULES: dict[str, Callable[..., Policy]] = {"thompson": thompson, "linucb": ucb}


def icf(
    setting: Setting, *, rule: str = "thompson", exploration: float = 1.0, **settings: Any
) -> Policy:
    """Interactive collaborative filtering (Zhao, Zhang & Wang 2013): bandits on PMF by Gibbs.

    Args:
      setting: of the experiment.
      rule: `thompson` or `linucb`.
      exploration: of linucb, how many standard deviations above the mean the bound is.
      **settings: of `gibbs`, and of the rule.
    """
    one_of("rule", rule, ICF_RULES)
    at_least("exploration", exploration, 0.0)  # whichever rule it is
    made = pair(ICF_RULES[rule], gibbs, fixed={"pool": 0})
    return made.make(setting, exploration=exploration, **settings)


PICKS: dict[str, Callable[..., Policy]] = {"thompson": thompson, "ids": ids, "greedy": greedy}


def oracle(
    setting: Setting,
    *,
    covariance: str = "true",
    picks: str = "thompson",
    noisy: bool = True,
    draws: int = 16,
    best_of: int | None = 1,
) -> Policy:
    """Any rule under parameters that the oracle is told.

    Args:
      setting: of the experiment.
      covariance: what it is told: `true` (what the data were drawn from), or, over all columns of
        the matrix itself, `second_moment` about zero (the paper on real data) or mean and
        covariance (`population`).
      picks: the rule: `thompson` (the paper), `ids` or `greedy`.
      noisy: of thompson, whether draws of an entry have the noise that is part of it.
      draws: of ids, the number of parameter draws.
      best_of: of ids, how many entries R* averages; None is half of the horizon.
    """
    one_of("covariance", covariance, ("true", "second_moment", "population"))
    one_of("picks", picks, PICKS)
    at_least("draws", draws, 1)  # whichever rule it is
    at_least("best_of", best_of, 1, optional=True)
    settings = {"noisy": noisy, "draws": draws, "best_of": best_of}
    return apply_rule(PICKS[picks], setting, told(), settings)._replace(told=covariance)


def mean_oracle(
    setting: Setting,
    *,
    picks: str = "thompson",
    noisy: bool = True,
    draws: int = 16,
    best_of: int | None = 1,
) -> Policy:
    """The oracle that knows mean and covariance of the matrix itself; see `oracle`."""
    return oracle(
        setting, covariance="population", picks=picks, noisy=noisy, draws=draws, best_of=best_of
    )


def _plain(factory: Callable[..., Policy]) -> Named:
    """A rule without draws."""
    made = settings_of(factory)
    return Named(lambda setting, **settings: factory(**settings), made, factories=(factory,))


def variant(group: str, base: Named, unused: tuple[str, ...] = (), **fixed: Any) -> Named:
    """A policy with some of its settings fixed; it takes the other settings from the policy's.

    Args:
      group: the name of the policy.
      base: the policy of that name.
      unused: settings that mean nothing once the others are fixed.
      **fixed: settings with their values.
    """
    left = {n: v for n, v in base.settings.items() if n not in (*fixed, *unused)}

    def make(setting: Setting, **settings: Any) -> Policy:
        return base.make(setting, **{**base.settings, **settings, **fixed})

    return Named(make, left, (group,), base.factories)


def _told(factory: Callable[..., Policy]) -> dict[str, Named]:
    """An oracle, and the same oracle with each rule but its own."""
    name = factory.__name__
    base = Named(factory, settings_of(factory), factories=tuple(dict.fromkeys((factory, oracle))))
    return {
        name: base,
        f"{name}_ids": variant(name, base, ("noisy",), picks="ids"),
        f"{name}_greedy": variant(name, base, ("noisy", "best_of"), picks="greedy"),
    }


def _as_in_the_paper(group: str, base: Named, **fixed: Any) -> Named:
    """A policy with the paper's settings, on the model fitted as the paper does."""
    made = variant(group, base, **fixed)

    def make(setting: Setting, **settings: Any) -> Policy:
        belief = setting.belief if setting.paper is None else setting.paper
        return made.make(setting._replace(belief=belief), **settings)

    return made._replace(make=make)


def _without_history(group: str, base: Named) -> Named:
    """A policy that is told nothing beforehand, where others know a history."""
    made = variant(group, base)

    def make(setting: Setting, **settings: Any) -> Policy:
        return made.make(setting, **settings)._replace(told="nothing")

    return made._replace(make=make)


# Information-Directed Sampling as the paper has it; `draws`, `bins` and `chunk` are left open.
IDS_TO_THE_LETTER: dict[str, Any] = {
    "conditioned": False,
    "scope": "covariance",
    "gain": "histogram",
    "best_of": 1,
    "selection": "deterministic",
}
ICF = settings_of(icf, gibbs) | {"noisy": False}

POLICIES: dict[str, Named] = {
    "ids": pair(ids),
    "ids_without_history": _without_history("ids", pair(ids)),
    "ids_paper": _as_in_the_paper("ids", pair(ids), kept=None, **IDS_TO_THE_LETTER),
    "thompson": pair(thompson),
    "thompson_paper": _as_in_the_paper("thompson", pair(thompson), pool=0),
    **_told(oracle),
    **_told(mean_oracle),
    "empirical": pair(thompson, pairwise, units=False, fixed={"pool": 0}),
    "optspace": _plain(completion),
    "particle": pair(thompson, particles, noisy=False, fixed={"pool": 0}),
    "icf": Named(icf, ICF, factories=(icf, gibbs, thompson)),
    "greedy": pair(greedy),
    "ucb": pair(ucb),
    "random": _plain(random)._replace(heeds=False),  # it reads no probability
    "ids_gibbs": pair(ids, gibbs, groups=("ids", "icf")),
    "greedy_gibbs": pair(greedy, gibbs, groups=("greedy", "icf")),
    "ids_particles": pair(ids, particles, groups=("ids", "particle")),
    "greedy_particles": pair(greedy, particles, groups=("greedy", "particle")),
    "ucb_particles": pair(ucb, particles, groups=("ucb", "particle")),
    "ids_pairwise": pair(ids, pairwise, units=False, groups=("ids", "empirical")),
    "greedy_pairwise": pair(greedy, pairwise, units=False, groups=("greedy", "empirical")),
}

# The policies that are told what others have to learn.
ORACLES = tuple(name for name, entry in POLICIES.items() if oracle in entry.factories)


def base_of(name: str) -> str:
    """The policy of POLICIES that this one is but for IGNORING; else the name itself."""
    base = name.removesuffix(IGNORING)
    return base if base in POLICIES else name


def named(name: str) -> Named:
    """A policy of POLICIES, or `module:function` for a factory (setting, **settings) elsewhere.

    A policy of POLICIES with IGNORING behind its name is the same, but does not learn who answers.
    """
    if name in POLICIES:
        return POLICIES[name]
    base = base_of(name)
    if base != name:
        entry = POLICIES[base]
        return variant(base, entry)._replace(groups=(base, *entry.groups), heeds=False)
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"unknown policy {name!r}; choose from {', '.join(POLICIES)}")
    try:
        factory = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot import the policy {name!r}: {error}") from error
    return Named(factory, settings_of(factory), factories=(factory,))


def settings_among(name: str, by_policy: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of one policy, from the settings of many, by the policies' names.

    A pair that has none of its own takes what it knows of the settings of its groups; where two
    groups have a setting, the first group's counts.
    """
    entry = named(name)
    found: dict[str, Any] = {}
    for group in (*reversed(entry.groups), name):
        settings = by_policy.get(group, {})
        found |= {key: settings[key] for key in settings if group == name or key in entry.settings}
    return found


def make_policy(name: str, setting: Setting, **settings: Any) -> Policy:
    """The policy of that name; settings that are not given have their defaults."""
    entry = named(name)
    for given in settings:
        if given not in entry.settings:
            raise ValueError(f"{given}: the policy {name!r} has no such setting")
    return entry.make(setting, **{**entry.settings, **settings})
