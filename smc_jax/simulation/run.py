"""From an experiment to its curves in one call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from smc_jax.policies.base import Policy
from smc_jax.policies.registry import settings_among
from smc_jax.presets import Preset, paper
from smc_jax.simulation.environment import Environment, make_environment
from smc_jax.simulation.loop import make_loop, make_reset
from smc_jax.simulation.problem import MakeProblem
from smc_jax.simulation.regret import Curves, curves
from smc_jax.simulation.sweep import make_resets, make_sweep

Wrapper = Callable[[Environment], Environment]


def _check_size(
    make_problem: MakeProblem, preset: Preset | None, *, horizon: int, initial: int, once: bool
) -> None:
    """Refuses a horizon or a rank that the matrix is too small for."""
    problem = jax.eval_shape(lambda seed: make_problem(jax.random.key(seed), seed), jnp.uint32(0))
    rows, columns = problem.entries.shape
    if once and horizon + initial > rows * columns:
        raise ValueError(
            f"horizon: {horizon} picks after an initial design of {initial} need more than the"
            f" {rows * columns} entries of the matrix"
        )
    if preset is not None and preset.rank > rows:
        raise ValueError(f"rank: must be at most the {rows} rows of the matrix, got {preset.rank}")


def _made(
    names: Sequence[str], preset: Preset, *, horizon: int, repeats: bool
) -> dict[str, Policy]:
    """The policies of a preset by their names."""
    for name in names:
        best_of = settings_among(name, preset.policies).get("best_of", 1)
        if repeats and best_of != 1:
            raise ValueError(
                f"preset: best_of of {name} must be 1 where entries are chosen again and again,"
                f" got {best_of}"
            )
    return {name: preset.policy(name, horizon=horizon, entry_noise=not repeats) for name in names}


def run(
    make_problem: MakeProblem,
    policies: str | Sequence[str] | Mapping[str, Policy],
    *,
    horizon: int,
    preset: Preset | None = None,
    seeds: int | Sequence[int] = 10,
    refits: int = 40,
    initial: int | None = None,
    beta: float = 0.0,
    once: bool = True,
    wrappers: Iterable[Wrapper] = (),
    delay: int = 0,
    told: str = "at_once",
    vmap_width: int | None = None,
    shard: str = "seeds",
    devices: Sequence[jax.Device] | None = None,
    on_refit: Callable[[str, int, int], Any] = lambda name, done, total: None,
    prior: Any = None,
) -> dict[str, Curves]:
    """Runs policies on paired seeds: the same matrices, designs, offers and noise for all.

    Args:
      make_problem: draws the matrix from a key and the number of the seed, as `synthetic(...)` and
        `recorded(...)` make it.
      policies: names, or one name, for policies of the preset; or policies by the names that they
        get in the result.
      horizon: H, the number of picks.
      preset: what the named policies fit; `presets.paper()` by default.
      seeds: how many seeds, from 0 on, or their numbers.
      refits: into how many batches the horizon is divided.
      initial: the size of the initial design; a twentieth of the horizon by default.
      beta: discount of a repeated choice.
      once: whether repeats are forbidden.
      wrappers: what is done to the environment, the first one innermost: `arrivals`, `stock`,
        `calendar`, `restricted`, `budgets` and `costs`, and `silent` as the outermost. Policies
        learn who answers only where they are wrapped, as `{"ids": heeding_silence(policy)}`.
      delay: how many picks are made after a pick before its answer is told.
      told: `at_once` after the delay, or `at_refits`; see `make_loop`.
      vmap_width: seeds side by side on one device; None is one on a CPU, all on an accelerator.
      shard: what is shared out over the devices: `seeds`, or the `columns` of one big matrix.
      devices: all by default, at most one a seed.
      on_refit: told (policy, refits done, refits in all) after each refit.
      prior: what every policy but the oracles knows beforehand, such as a `History`.
    """
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    if not len(seeds):
        raise ValueError("seeds: must be at least one number")
    if isinstance(policies, str):
        policies = [policies]
    if not isinstance(policies, Mapping):
        preset = paper() if preset is None else preset
        policies = _made(policies, preset, horizon=horizon, repeats=not once and beta > 0.0)
    initial = round(0.05 * horizon) if initial is None else initial
    _check_size(make_problem, preset, horizon=horizon, initial=initial, once=once)
    environment = make_environment(make_problem, initial=initial, beta=beta, once=once)
    for wrapper in wrappers:
        environment = wrapper(environment)
    if devices is None:
        devices = jax.devices() if shard == "columns" else jax.devices()[: len(seeds)]
    placement: dict[str, Any] = {"vmap_width": vmap_width, "shard": shard, "devices": devices}
    resets = make_resets(make_reset(environment, horizon=horizon), **placement)
    found = {}
    for name, policy in policies.items():
        loop = make_loop(
            environment, policy, horizon=horizon, refits=refits, delay=delay, told=told, prior=prior
        )
        sweep = make_sweep(loop, resets=resets, **placement)
        progress = sweep.start(seeds)
        for progress in sweep.resume(progress):  # noqa: B020
            on_refit(name, progress.batches, loop.batches)
        found[name] = curves(progress)
    return found
