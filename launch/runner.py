"""One experiment: every policy of a config on every seed, resumable, with its files and a bar."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
from tqdm import tqdm

from launch import commits, data, experiment, files, offers, plot, settings, tables, validation
from launch.command import CompileClock, announce
from launch.features import describe_features
from smc_jax.completion.stopping import HeldOut
from smc_jax.simulation.loop import Loop
from smc_jax.simulation.regret import Curves, curves
from smc_jax.simulation.sweep import Progress, Sweep

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

    A checkpoint, where there is one, is resumed; its time counts.
    """
    began, compiled = time.monotonic(), clock.seconds
    before = dict.fromkeys(files.TIMES, 0.0)
    mark = files.fingerprint(config, name)

    def times() -> dict[str, float]:
        compiling = clock.seconds - compiled
        running = time.monotonic() - began - compiling
        return {
            "seconds": before["seconds"] + running,
            "compile_seconds": before["compile_seconds"] + compiling,
        }

    bar.set_postfix_str("compiling")
    loop, sweep = sweep_of(name)
    begun: Progress = sweep.start(settings.seeds(config))
    if checkpoint.exists():
        begun, before = files.load_checkpoint(checkpoint, begun, mark)
    bar.initial += begun.batches  # so that they do not count in the bar's speed
    bar.n += begun.batches
    progress, told, saved = begun, begun.batches, time.monotonic()
    wait = SECONDS_BETWEEN_CHECKPOINTS
    remaining = sweep.resume(begun)
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
                files.save_checkpoint(checkpoint, progress, times(), mark)
                saved = time.monotonic()
                wait = max(SECONDS_BETWEEN_CHECKPOINTS, (saved - now) / SHARE_OF_CHECKPOINTS)
    except KeyboardInterrupt:
        files.save_checkpoint(checkpoint, progress, times(), mark)
        raise


def setting(config: ConfigDict) -> dict[str, Any]:
    """What the summary tells of the experiment."""
    seeds = settings.seeds(config)
    return {
        "horizon": settings.horizon(config),
        "initial": settings.initial_size(config),
        "refits": settings.refits(config),
        "seeds": [seeds[0], seeds[-1]],
        "rows": config.rows,
        "columns": config.columns,
        "data": config.data,
        "true_rank": config.get("true_rank"),
        "rank": config.rank,
        "beta": config.beta,
        "once": config.once,
        "arrivals": config.arrivals,
        "offers": config.offers.to_dict(),
        "delay": config.delay,
        "told": config.told,
        "silence": config.silence.to_dict() if experiment.is_silent(config) else None,
        **data.describe_data(config),
    }


def record(
    config: ConfigDict, workdir: Path, finished: dict[str, Curves], times: dict[str, Any]
) -> dict[str, Any]:
    """Writes what is finished, in the order asked for, and returns its summary."""
    order = [*settings.policy_names(config), *finished]  # those of an earlier run last
    ordered = {name: finished[name] for name in order if name in finished}
    summary = tables.summarise(ordered, times, config.reference)
    summary["best"] = experiment.benchmark(config)
    summary["setting"] = setting(config)
    for name, described in summary["policies"].items():
        described["commit"] = commits.made_at(workdir, name)
    if experiment.checks_completion(config):
        for name, one in ordered.items():
            errors = HeldOut(one.completion_error, one.zero_error)
            summary["policies"][name]["completable_at"] = [
                None if refit < 0 else int(refit)
                for refit in experiment.first_completable(config, errors)
            ]
    # The summary first: a policy counts as finished once its curves are there.
    files.write_json(workdir / "summary.json", summary)
    files.save_curves(workdir, ordered)
    stamp = commits.stamp(one["commit"] for one in summary["policies"].values())
    plot.regret_plot(workdir / "regret.png", ordered, title=describe(config), stamp=stamp)
    return summary


def run(config: ConfigDict, workdir: Path, overall: tqdm | None = None) -> dict[str, Any]:
    """Runs what is not finished yet; results are written after each policy.

    `overall` is a bar that counts the refits of several runs; without it, each policy has one.
    """
    config = validation.resolve(config)
    files.open_workdir(workdir, config, validation.defaults(config))
    if config.data == "table":
        block = data.table_block(config)
        if config.history:  # a column has another number in every seed
            block = block._replace(column_ids=block.column_ids[:0])
        files.save_ids(workdir, block)
    clock = CompileClock()
    finished, held = files.load_curves(workdir), files.load_times(workdir)
    times: dict[str, Any] = {name: held.get(name, dict.fromkeys(files.TIMES)) for name in finished}
    asked = settings.policy_names(config)
    waiting = {name: files.checkpoint_path(workdir, name) for name in asked if name not in finished}
    for name, checkpoint in waiting.items():
        if checkpoint.exists():
            files.check_checkpoint(checkpoint, files.fingerprint(config, name))
    if overall is None:
        if waiting:
            announce(experiment.placement(config)["devices"])
            for line in describe_features(config):
                print(line, flush=True)
        else:
            print(f"nothing left to run: {workdir} holds the results of {', '.join(asked)}")
    if not waiting:
        return record(config, workdir, finished, times)
    sweep_of = experiment.sweeps(config)
    for name, checkpoint in waiting.items():
        commits.note(workdir, name, resumed=checkpoint.exists())
        if overall is None:
            with tqdm(total=settings.refits(config), desc=f"{name:<10}", unit="refit") as bar:
                ran = run_policy(config, name, sweep_of, checkpoint, clock, bar)
        else:
            overall.set_description(f"{describe(config)}: {name}")
            ran = run_policy(config, name, sweep_of, checkpoint, clock, overall)
        finished[name], times[name] = ran
        summary = record(config, workdir, finished, times)
        checkpoint.unlink(missing_ok=True)
    return summary


def describe(config: ConfigDict) -> str:
    """One line for the picture's title."""
    kind = f"true rank {config.true_rank}" if config.data == "synthetic" else config.data
    seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
    here = f", {config.arrivals} present at a time" if config.arrivals else ""
    return f"{config.rows} x {config.columns}, {kind}, {seeds}{here}{_differences(config)}"


def _differences(config: ConfigDict) -> str:
    """What is on offer, late or silent otherwise than where nothing is said."""
    plain = validation.defaults(config)
    pairs = [(field, config[field], plain[field]) for field in ("delay", "told")]
    pairs += [(field, value, plain.offers[field]) for field, value in config.offers.items()]
    changed = [(field, value) for field, value, usual in pairs if value != usual]
    told = [
        field if field in offers.TABLES else f"{field} {value}"
        for field, value in changed
        if field != "checksum"
    ]
    told += ["silence"] if experiment.is_silent(config) else []
    return "".join(f", {text}" for text in told)
