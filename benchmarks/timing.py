"""Programs timed in turn in one run, and what is printed and kept of it.

Seconds of the clock are printed beside seconds of the processor, of all threads. On a machine that
is shared, a program shorter than a slice of time is never interrupted and a longer one is: turns do
not make up for that, and the ratio by the clock then flatters the shorter. That by the processor
does not.
"""

import json
import os
import platform
import resource
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from tqdm import tqdm

FOLDER = Path("results") / "benchmarks"
Name = TypeVar("Name", bound=Hashable)


class Timing(NamedTuple):
    """Seconds of one program over the repeats."""

    median: float
    low: float  # quartiles
    high: float
    processor: float | None = None  # median; None where it was not measured

    @classmethod
    def of(cls, seconds: Sequence[float], processor: Sequence[float] = ()) -> "Timing":
        """The figures of all repeats."""
        median, low, high = (float(np.percentile(seconds, q)) for q in (50, 25, 75))
        return cls(median, low, high, float(np.median(processor)) if processor else None)

    def each(self, number: int) -> "Timing":
        """Of one of so many things that the program does."""
        median, low, high = (value / number for value in self[:3])
        return Timing(median, low, high, self.processor and self.processor / number)


class Told(NamedTuple):
    """What a program returns that has measured itself, in another process."""

    seconds: float
    processor: float


def interleaved(programs: Mapping[Name, Callable[[], Any]], *, repeats: int) -> dict[Name, Timing]:
    """Runs each program once unmeasured, then all in turn, `repeats` times.

    In turn, so that what else the machine does hits all of them alike.
    """
    told: dict[Name, list[Told]] = {name: [] for name in programs}
    with tqdm(total=(repeats + 1) * len(programs), desc="timing", leave=False) as bar:
        for program in programs.values():
            jax.block_until_ready(program())
            bar.update()
        for _ in range(repeats):
            for name, program in programs.items():
                began, busy = time.perf_counter(), time.process_time()
                answer = jax.block_until_ready(program())
                ours = Told(time.perf_counter() - began, time.process_time() - busy)
                told[name].append(answer if isinstance(answer, Told) else ours)
                bar.update()
    return {
        name: Timing.of(*([*column] for column in zip(*each, strict=True)))
        for name, each in told.items()
    }


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
    """Medians with their quartiles, in units of so many seconds, and ratios to the peer.

    The second ratio is that of the processor's time. Where the clock ran well ahead of that, a
    line says so.
    """
    width = max(map(len, timings)) + 2
    name = {1.0: "s", 1e-3: "ms", 1e-6: "us"}[unit]
    against = f"{peer} / this"
    column = max(len(against) + 2, 13)
    head = f"{name:>10}{'quartiles':>20}{against:>{column}}{'processor':>12}{against:>{column}}"
    lines = [title, f"  {'':<{width}}{head}"]
    for program, (median, low, high, processor) in timings.items():
        spread = f"{low / unit:.2f}-{high / unit:.2f}"
        line = f"  {program:<{width}}{median / unit:>10.2f}{spread:>20}"
        line += f"{timings[peer].median / median:>{column}.2f}"
        against_processor = timings[peer].processor
        if processor and against_processor:
            line += f"{processor / unit:>12.2f}{against_processor / processor:>{column}.2f}"
        lines.append(line)
    waited = [n for n, one in timings.items() if one.processor and one.median > 1.3 * one.processor]
    if waited:
        lines.append(f"  the processor was shared, compare by its time: {', '.join(waited)}")
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
