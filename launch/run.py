"""Runs an experiment: every policy of a config on every seed, to curves, a table and a picture.

python -m launch.run --config=configs/synthetic.py --workdir=DIR [--config.seeds=4 ...]
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import experiment, plot, results
from launch.command import CompileClock, fail, parse
from launch.experiment import ConfigError
from smc_jax.sweep import Curves, Progress, curves, make_sweep

CONFIG = config_flags.DEFINE_config_file("config", help_string="The experiment, configs/*.py.")
WORKDIR = flags.DEFINE_string("workdir", None, "Where the results go.")

SECONDS_BETWEEN_CHECKPOINTS = 20.0


def run_policy(config: ConfigDict, name: str, checkpoint: Path) -> Curves:
    """All seeds of one policy, with a progress bar; goes on from a checkpoint if there is one."""
    loop = experiment.build(config, name)
    sweep = make_sweep(loop, devices=jax.devices()[: config.seeds])
    begun: Progress = sweep.start(range(config.first_seed, config.first_seed + config.seeds))
    if checkpoint.exists():
        begun = results.load_checkpoint(checkpoint, begun)
    progress = begun
    saved = time.monotonic()
    with tqdm(
        total=loop.batches, initial=progress.batches, desc=f"{name:<10}", unit="refit"
    ) as bar:
        try:
            for progress in sweep.go_on(begun):
                bar.update(progress.batches - bar.n)
                if time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                    results.save_checkpoint(checkpoint, progress)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            results.save_checkpoint(checkpoint, progress)
            raise
    return curves(progress)


def checkpoint_path(workdir: Path, name: str) -> Path:
    """Where an unfinished policy waits."""
    return workdir / f"{name}.checkpoint.npz"


def run(config: ConfigDict, workdir: Path) -> dict[str, Any]:
    """Runs what is not finished yet; results are written after each policy."""
    experiment.validate(config)
    results.open_workdir(workdir, config)
    clock = CompileClock()
    finished = results.load_curves(workdir)
    summary_path = workdir / "summary.json"
    old = json.loads(summary_path.read_text())["policies"] if summary_path.exists() else {}
    unknown = {"seconds": None, "compile_seconds": None}
    times = {name: old.get(name, unknown) for name in finished}
    horizon = experiment.horizon(config)
    setting = {
        "horizon": horizon,
        "initial": experiment.initial_size(config),
        "refits": -(-horizon // -(-horizon // config.refits)),
        "seeds": [config.first_seed, config.first_seed + config.seeds - 1],
        "rows": config.rows,
        "columns": config.columns,
        "true_rank": config.true_rank,
        "rank": config.rank,
        "beta": config.beta,
        "once": config.once,
    }
    summary: dict[str, Any] = {}
    asked = experiment.policy_names(config)
    if finished.keys() >= set(asked):
        print(f"nothing left to run: {workdir} holds the results of {', '.join(asked)}")
    for name in asked:
        if name not in finished:
            began, compiled = time.monotonic(), clock.seconds
            finished[name] = run_policy(config, name, checkpoint_path(workdir, name))
            compiling = clock.seconds - compiled
            times[name] = {
                "seconds": time.monotonic() - began - compiling,
                "compile_seconds": compiling,
            }
        summary = {**results.summarise(finished, times), "setting": setting}
        # The summary first: a policy counts as finished once its curves are there.
        results.write_json(summary_path, summary)
        results.save_curves(workdir, finished)
        checkpoint_path(workdir, name).unlink(missing_ok=True)
        plot.regret_plot(workdir / "regret.png", finished, title=describe(config))
    return summary


def describe(config: ConfigDict) -> str:
    """One line for the picture's title."""
    return (
        f"{config.rows} x {config.columns}, true rank {config.true_rank},"
        f" {config.seeds} seed{'s' if config.seeds > 1 else ''}"
    )


def main(arguments: Sequence[str]) -> None:
    """Parses the flags and runs; one line and exit status 2 for whatever the user can mend."""
    if len(arguments) > 1:
        fail(f"unexpected argument {arguments[1]!r}; settings are given as --config.FIELD=VALUE")
    if CONFIG.value is None or not WORKDIR.value:
        fail("give --config=configs/synthetic.py and --workdir=DIR")
    workdir = Path(WORKDIR.value)
    try:
        summary = run(CONFIG.value, workdir)
    except (ConfigError, FloatingPointError, RuntimeError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command goes on from what is in {workdir}", file=sys.stderr)
        sys.exit(130)
    print(results.table(summary))
    print(f"\ncurves.npz, summary.json, config.json and regret.png are in {workdir}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
