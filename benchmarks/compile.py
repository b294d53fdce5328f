"""What compilation costs `make run`, with an empty cache and with a filled one.

python -m benchmarks.compile [--repeats=1 --policies=ids --seeds=4 --horizon=2600 --refits=40]

Each repeat runs `launch.run` on configs/synthetic.py twice, in fresh processes, with a cache of
compiled programs that is empty at first; what is not given is as the config has it. Times are from
the start of the process, the import of JAX included: to compile is what the run's summary.json
says, the first picks are the first batch of all seeds, and the whole is until the process ends.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from tqdm import tqdm

import launch  # noqa: F401  sets up the machine before JAX is imported
from benchmarks import timing

POLICIES = flags.DEFINE_string("policies", None, "Which policies.")
SEEDS = flags.DEFINE_integer("seeds", None, "Of the run.", lower_bound=1)
HORIZON = flags.DEFINE_integer("horizon", None, "Picks a seed.", lower_bound=1)
REFITS = flags.DEFINE_integer("refits", None, "Batches of it.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 1, "Pairs of runs.", lower_bound=1)
ROOT = Path(__file__).resolve().parent.parent
# `python -m launch.run` whose bars say when the first batch is there.
PROGRAM = """
import runpy, sys, time
import tqdm

class Bar(tqdm.tqdm):
    def update(self, n=1):
        if n and not self.n:
            print("first", time.time(), flush=True)
        return super().update(n)

tqdm.tqdm = Bar
sys.argv = ["launch.run", *sys.argv[1:]]
runpy.run_module("launch.run", run_name="__main__")
"""
KINDS = ("compile", "first picks", "whole run")


def children() -> float:
    """Seconds of the processor that finished child processes have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def settings() -> list[str]:
    """What was given, as flags of `launch.run`."""
    given = {flag.name: flag.value for flag in (POLICIES, SEEDS, HORIZON, REFITS)}
    return [f"--config.{name}={value}" for name, value in given.items() if value is not None]


def run(cache: Path, workdir: Path) -> tuple[dict[str, float], float]:
    """Seconds of one run, by kind, and those of the processor for the whole."""
    command = [
        *(sys.executable, "-c", PROGRAM, f"--config={ROOT / 'configs' / 'synthetic.py'}"),
        *(f"--workdir={workdir}", *settings()),
    ]
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    began, busy = time.time(), children()
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    whole = time.time() - began
    if ran.returncode:
        raise SystemExit(ran.stderr[-2000:])
    first = next(line for line in ran.stdout.splitlines() if line.startswith("first "))
    policies = json.loads((workdir / "summary.json").read_text())["policies"]
    compiling = sum(policy["compile_seconds"] for policy in policies.values())
    told = compiling, float(first.split()[1]) - began, whole
    return dict(zip(KINDS, told, strict=True)), children() - busy


def main(arguments: Sequence[str]) -> None:
    """Runs all pairs, and prints medians, ratios and the share of the second run."""
    del arguments
    seconds: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    processor: dict[str, list[float]] = {"empty": [], "filled": []}
    bar = tqdm(total=2 * REPEATS.value, unit="run", leave=False)
    for _ in range(REPEATS.value):
        with tempfile.TemporaryDirectory() as folder:
            for cache in processor:
                found, busy = run(Path(folder) / "cache", Path(folder) / cache)
                bar.update()
                processor[cache].append(busy)
                for kind, value in found.items():
                    seconds[kind].setdefault(cache, []).append(value)
    bar.close()
    timings = {
        kind: {
            cache: timing.Timing.of(each, processor[cache] if kind == "whole run" else ())
            for cache, each in both.items()
        }
        for kind, both in seconds.items()
    }
    run_of = " ".join(["configs/synthetic.py", *settings()])
    for kind, both in timings.items():
        print(timing.table(f"{kind}, {run_of}", both, peer="empty", unit=1.0))
    share = timings["compile"]["filled"].median / timings["whole run"]["filled"].median
    print(f"compilation is {share:.0%} of the second run")
    figures = {
        kind: {cache: each._asdict() for cache, each in both.items()}
        for kind, both in timings.items()
    }
    kept = timing.keep("compile", {"run": run_of, "share": share, "seconds": figures})
    print(timing.closing(kept))


if __name__ == "__main__":
    app.run(main)
