"""Programs timed in turn in one run, and what is printed and kept of it."""

import json
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

FOLDER = Path("results") / "benchmarks"


class Timing(NamedTuple):
    """Seconds of one program over the repeats."""

    median: float
    low: float  # quartiles
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Timing":
        """The three figures of all repeats."""
        return cls(*(float(np.percentile(seconds, q)) for q in (50, 25, 75)))

    def each(self, number: int) -> "Timing":
        """Of one of so many things that the program does."""
        return Timing(*(value / number for value in self))


class Told(float):
    """Seconds that a program returns because it has measured itself, in another process."""


def interleaved(programs: Mapping[str, Callable[[], Any]], *, repeats: int) -> dict[str, Timing]:
    """Runs each program once unmeasured, then all in turn, `repeats` times.

    In turn, so that what else the machine does hits all of them alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        jax.block_until_ready(program())
    for _ in range(repeats):
        for name, program in programs.items():
            began = time.perf_counter()
            answer = jax.block_until_ready(program())
            elapsed = time.perf_counter() - began
            seconds[name].append(answer if isinstance(answer, Told) else elapsed)
    return {name: Timing.of(each) for name, each in seconds.items()}


def machine() -> dict[str, Any]:
    """What the figures are of."""
    return {
        "device": jax.devices()[0].device_kind,
        "devices": len(jax.devices()),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "jax": jax.__version__,
    }


def peak_memory() -> float:
    """The most memory that this process has held, in MiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if platform.system() == "Darwin" else 2**10)


def table(title: str, timings: Mapping[str, Timing], *, peer: str, unit: float = 1e-3) -> str:
    """Medians with their quartiles, in units of so many seconds, and ratios to the peer."""
    width = max(map(len, timings)) + 2
    name = {1.0: "s", 1e-3: "ms", 1e-6: "us"}[unit]
    against = f"{peer} / this"
    column = max(len(against) + 2, 13)
    lines = [title, f"  {'':<{width}}{name:>10}{'quartiles':>20}{against:>{column}}"]
    for program, (median, low, high) in timings.items():
        spread = f"{low / unit:.2f}-{high / unit:.2f}"
        ratio = timings[peer].median / median
        lines.append(f"  {program:<{width}}{median / unit:>10.2f}{spread:>20}{ratio:>{column}.2f}")
    return "\n".join(lines)


def keep(name: str, figures: Any) -> Path:
    """Writes the figures of a benchmark, with the machine, as JSON."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    record = {"machine": machine(), "peak_memory_MiB": peak_memory(), "figures": figures}
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def closing(path: Path) -> str:
    """The last line of a benchmark: where its figures are, and what they are of."""
    described = ", ".join(f"{name} {value}" for name, value in machine().items())
    return f"kept in {path}; peak memory {peak_memory():.0f} MiB; {described}"
