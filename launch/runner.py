"""One experiment: every policy of a config on every seed, resumable, with its files and a bar."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
from tqdm import tqdm

from launch import data, experiment, plot, results, settings
from launch.command import CompileClock
from smc_jax.completable import HeldOut
from smc_jax.loop import Loop
from smc_jax.sweep import Curves, Progress, Sweep, curves

SECONDS_BETWEEN_CHECKPOINTS = 20.0
SHARE_OF_CHECKPOINTS = 0.02  # of the time at most: those of a big matrix take seconds to write


def run_policy(
    config: ConfigDict,
    name: str,
    sweep_of: Callable[[str], tuple[Loop, Sweep]],
    checkpoint: Path,
    clock: CompileClock,
    bar: tqdm,
) -> tuple[Curves, dict[str, float]]:
    """All seeds of one policy, and the time that they took, refits told to the bar.

    Goes on from a checkpoint if there is one; its time counts.
    """
    began, compiled = time.monotonic(), clock.seconds
    before = dict.fromkeys(results.TIMES, 0.0)

    def times() -> dict[str, float]:
        compiling = clock.seconds - compiled
        running = time.monotonic() - began - compiling
        return {
            "seconds": before["seconds"] + running,
            "compile_seconds": before["compile_seconds"] + compiling,
        }

    bar.set_postfix_str("compiling")
    loop, sweep = sweep_of(name)
    begun: Progress = sweep.start(range(config.first_seed, config.first_seed + config.seeds))
    if checkpoint.exists():
        begun, before = results.load_checkpoint(checkpoint, begun)
    bar.initial += begun.batches  # so that they do not count in the bar's speed
    bar.n += begun.batches
    progress, told, saved = begun, begun.batches, time.monotonic()
    wait = SECONDS_BETWEEN_CHECKPOINTS
    remaining = sweep.go_on(begun)
    try:
        while True:
            bar.update(progress.batches - told)
            told = progress.batches
            stop = experiment.stops(config, progress.refits.held_out)
            if progress.batches == loop.batches or (stop >= 0).all():
                bar.update(loop.batches - told)
                return curves(progress, stop), times()
            progress = next(remaining)
            bar.set_postfix_str("")
            now = time.monotonic()
            if now - saved > wait:
                results.save_checkpoint(checkpoint, progress, times())
                saved = time.monotonic()
                wait = max(SECONDS_BETWEEN_CHECKPOINTS, (saved - now) / SHARE_OF_CHECKPOINTS)
    except KeyboardInterrupt:
        results.save_checkpoint(checkpoint, progress, times())
        raise


def checkpoint_path(workdir: Path, name: str) -> Path:
    """Where an unfinished policy waits."""
    return workdir / f"{name}.checkpoint.npz"


def run(config: ConfigDict, workdir: Path, overall: tqdm | None = None) -> dict[str, Any]:
    """Runs what is not finished yet; results are written after each policy.

    `overall` is a bar that counts the refits of several runs; without it, each policy has one.
    """
    experiment.validate(config)
    results.open_workdir(workdir, config, experiment.defaults(config))
    if config.data == "table":
        results.save_ids(workdir, data.table_block(config))
    clock = CompileClock()
    finished = results.load_curves(workdir)
    summary_path = workdir / "summary.json"
    old = json.loads(summary_path.read_text())["policies"] if summary_path.exists() else {}
    unknown = dict.fromkeys(results.TIMES)
    times = {name: old.get(name, unknown) for name in finished}
    setting = {
        "horizon": settings.horizon(config),
        "initial": settings.initial_size(config),
        "refits": settings.refits(config),
        "seeds": [config.first_seed, config.first_seed + config.seeds - 1],
        "rows": config.rows,
        "columns": config.columns,
        "data": config.data,
        "true_rank": config.get("true_rank"),
        "rank": config.rank,
        "beta": config.beta,
        "once": config.once,
        **data.describe_data(config),
    }
    asked = settings.policy_names(config)

    def record() -> dict[str, Any]:
        """Writes what is finished, in the order asked for."""
        order = [*asked, *finished]  # those of an earlier run last
        ordered = {name: finished[name] for name in order if name in finished}
        summary = {**results.summarise(ordered, times), "setting": setting}
        if experiment.checks_completion(config):
            for policy, one in ordered.items():
                errors = HeldOut(one.completion_error, one.zero_error)
                first = experiment.first_completable(config, errors)
                summary["policies"][policy]["completable_at"] = [
                    None if refit < 0 else int(refit) for refit in first
                ]
        # The summary first: a policy counts as finished once its curves are there.
        results.write_json(summary_path, summary)
        results.save_curves(workdir, ordered)
        plot.regret_plot(workdir / "regret.png", ordered, title=describe(config))
        return summary

    remaining = [name for name in asked if name not in finished]
    if not remaining:
        if overall is None:
            print(f"nothing left to run: {workdir} holds the results of {', '.join(asked)}")
        return record()
    sweep_of = experiment.sweeps(config)
    for name in remaining:
        checkpoint = checkpoint_path(workdir, name)
        if overall is None:
            with tqdm(total=settings.refits(config), desc=f"{name:<10}", unit="refit") as bar:
                ran = run_policy(config, name, sweep_of, checkpoint, clock, bar)
        else:
            overall.set_description(f"{describe(config)}: {name}")
            ran = run_policy(config, name, sweep_of, checkpoint, clock, overall)
        finished[name], times[name] = ran
        summary = record()
        checkpoint.unlink(missing_ok=True)
    return summary


def describe(config: ConfigDict) -> str:
    """One line for the picture's title."""
    kind = f"true rank {config.true_rank}" if config.data == "synthetic" else config.data
    seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
    return f"{config.rows} x {config.columns}, {kind}, {seeds}"
