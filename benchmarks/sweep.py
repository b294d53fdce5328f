"""Seeds of one experiment sharded over the devices, against one after another on one device.

python -m benchmarks.sweep [--seeds=1,2,4,10 --horizon=260 --refits=4 --repeats=3]
python -m benchmarks.sweep --shard=columns --seeds=1 --rows=1000 --columns=6040 --steps=100
python -m benchmarks.sweep --widths=1,8 --seeds=8

The second shards the columns of one matrix instead, and compares with all of it on one device. The
third compares widths of the vmap, each on the first device alone, and says where the time goes: it
times the first refit, a later one and a batch of picks of all seeds, as programs of their own.

ids on the synthetic experiment with a shortened horizon. Which of the curves are the same in both,
bit by bit, is printed; the run ends with an error if regret, rewards or picks are not, except
between widths, which round sums otherwise. There is one device a core; JAX_NUM_CPU_DEVICES sets
another number.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags
from jax import Array, lax

from benchmarks import timing
from benchmarks.experiment import Experiment
from smc_jax import presets
from smc_jax.simulation.loop import Carry, Loop
from smc_jax.simulation.regret import Curves, curves
from smc_jax.simulation.sweep import SHARDS, make_sweep

SEEDS = flags.DEFINE_list("seeds", ["1", "2", "4", "10"], "How many seeds, each of these.")
HORIZON = flags.DEFINE_integer("horizon", 260, "Picks a seed.", lower_bound=1)
REFITS = flags.DEFINE_integer("refits", 4, "Batches of it.", lower_bound=1)
SHARD = flags.DEFINE_enum("shard", "seeds", SHARDS, "What is shared out.")
WIDTHS = flags.DEFINE_list("widths", [], "Compares these widths of the vmap on one device.")
ROWS = flags.DEFINE_integer("rows", 50, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 100, "N.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Of the first fit.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 3, "Timings of each program.", lower_bound=1)
MUST_BE_SAME = {"regret", "reward", "rows", "cols"}


class Program:
    """A sweep from start to end; the curves of the last run are kept."""

    def __init__(self, loop: Loop, seeds: int, **placement: Any) -> None:
        self.sweep, self.seeds = make_sweep(loop, **placement), range(seeds)
        self._curves: Curves | None = None

    def __call__(self) -> None:
        """Runs it."""
        *_, last = self.sweep.resume(self.sweep.start(self.seeds))
        self._curves = curves(last)

    @property
    def curves(self) -> Curves:
        """Of the last run."""
        assert self._curves is not None
        return self._curves


def differences(one: Curves, other: Curves) -> dict[str, float]:
    """The curves that are not the same bit by bit, each with its largest relative difference."""
    found = {}
    for name, a, b in zip(Curves._fields, one, other, strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            apart, size = np.abs(np.float64(a) - b), np.maximum(np.abs(np.float64(b)), 1e-30)
            found[name] = float(np.nanmax(apart / size))
    return found


def told_differences(differ: Mapping[str, float]) -> str:
    """A line that names the curves that are the same, and the others."""
    identical = ", ".join(name for name in Curves._fields if name not in differ)
    apart = ", ".join(f"{name} by up to {most:.1e} of it" for name, most in differ.items())
    return f"identical bit by bit: {identical or 'none'}; not: {apart or 'none'}"


def compare(
    title: str, programs: Mapping[str, Program], *, peer: str, repeats: int
) -> dict[str, Any]:
    """Times sweeps in turn, and prints times, rates, and which curves are not those of the peer."""
    timings = timing.interleaved(programs, repeats=repeats)
    print(timing.table(title, timings, peer=peer, unit=1.0))
    picks = programs[peer].curves.regret.size
    rates = {name: picks / one.median for name, one in timings.items()}
    told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
    print(f"  picks a second, fits included: {told}")
    others = [name for name in programs if name != peer]
    differ = {name: differences(programs[name].curves, programs[peer].curves) for name in others}
    for name, found in differ.items():
        beside = f"{name}: " if len(others) > 1 else ""
        print(f"  {beside}{told_differences(found)}")
    seconds = {name: one._asdict() for name, one in timings.items()}
    return {"seconds": seconds, "picks_a_second": rates, "differ": differ}


def of_all_seeds(function: Callable[[Carry, Array], Any], width: int) -> Callable[[Carry], Any]:
    """A part of the loop for all seeds, as a sweep on one device has it."""

    def of_seed(carry: Carry) -> Any:
        return function(carry, carry.key)

    @jax.jit
    def program(carry: Carry) -> Any:
        if width == 1:
            return lax.map(of_seed, carry)
        return lax.map(of_seed, carry, batch_size=width)

    return program


def parts(loop: Loop, seeds: int, widths: Sequence[int]) -> dict[tuple[str, int], Any]:
    """The first refit of all seeds, a later one and a batch of picks, at each width."""
    alone = make_sweep(loop, vmap_width=1, devices=jax.devices()[:1])
    begun = alone.start(range(seeds))
    first, later = begun.carry, next(alone.resume(begun)).carry  # later: all are fitted once
    made: dict[tuple[str, int], Callable[[], Any]] = {}
    for width in widths:
        refit = of_all_seeds(lambda carry, key: loop.refit(carry, key).policy, width)
        picks = of_all_seeds(lambda carry, key: loop.picks(carry, key)[1], width)
        made["the first refit", width] = functools.partial(refit, first)
        made["a later refit", width] = functools.partial(refit, later)
        made[f"a batch of {loop.batch} picks", width] = functools.partial(picks, later)
    return made


def where_time_goes(
    loop: Loop, seeds: int, widths: Sequence[int], *, repeats: int
) -> dict[str, Any]:
    """Times the parts of a sweep at each width, and prints what share of it each part is."""
    timings = timing.interleaved(parts(loop, seeds, widths), repeats=repeats)
    names = list(dict.fromkeys(name for name, _ in timings))
    times = (1, loop.batches - 1, loop.batches)  # that a run makes of each part
    figures: dict[str, Any] = {}
    for name in names:
        each = {f"width {width}": timings[name, width] for width in widths}
        print(timing.table(f"{name}, {seeds} seeds", each, peer=f"width {widths[0]}"))
        figures[name] = {title: one._asdict() for title, one in each.items()}
    for width in widths:
        spent = np.asarray([timings[name, width].median for name in names]) * times
        shares = zip(times, names, spent / spent.sum(), strict=True)
        told = ", ".join(f"{number} x {name} {share:.0%}" for number, name, share in shares)
        print(f"  width {width}, where the time goes: {told}; together {spent.sum():.2f} s")
    return figures


def compare_widths(
    loop: Loop, seeds: int, widths: Sequence[int], *, size: str, repeats: int
) -> dict[str, Any]:
    """Several widths of the vmap on one device; curves need not be the same."""
    devices = jax.devices()[:1]
    programs = {
        f"width {width}": Program(loop, seeds, vmap_width=width, devices=devices)
        for width in widths
    }
    title = f"{seeds} seeds, in vmaps on one device, {size}"
    found = compare(title, programs, peer=f"width {widths[0]}", repeats=repeats)
    return found | {"parts": where_time_goes(loop, seeds, widths, repeats=repeats)}


def compare_devices(
    loop: Loop, seeds: int, shard: str, *, size: str, repeats: int
) -> dict[str, Any]:
    """Seeds or columns over the devices, against everything on one device."""
    devices = jax.devices()
    over = devices[:seeds] if shard == "seeds" else devices
    programs = {
        "sharded": Program(loop, seeds, devices=over, shard=shard),
        "alone": Program(loop, seeds, devices=devices[:1]),
    }
    title = f"{seeds} seeds, {shard} on {len(over)} devices, {size}"
    found = compare(title, programs, peer="alone", repeats=repeats)
    return found | {"differ": found["differ"]["sharded"]}


def main(arguments: Sequence[str]) -> None:
    """Every number of seeds."""
    del arguments
    preset = presets.paper(method="svi", first_steps=STEPS.value)
    initial = round(0.05 * HORIZON.value)
    experiment = Experiment(preset, ROWS.value, COLUMNS.value, HORIZON.value, initial, REFITS.value)
    loop, shard = experiment.loop(experiment.policy("ids")), SHARD.value
    widths = [int(width) for width in WIDTHS.value]
    size = f"{ROWS.value} x {COLUMNS.value}, {HORIZON.value} picks"
    told: dict[str, Any] = {"size": size, "repeats": REPEATS.value}
    figures: dict[str, Any] = {"horizon": HORIZON.value, "refits": REFITS.value}
    broken = []
    for seeds in map(int, SEEDS.value):
        if widths:
            figures[str(seeds)] = compare_widths(loop, seeds, widths, **told)
            continue
        figures[str(seeds)] = found = compare_devices(loop, seeds, shard, **told)
        if shard == "seeds" and found["differ"].keys() & MUST_BE_SAME:
            broken.append(seeds)
    print(timing.closing(timing.keep(f"sweep_{'widths' if widths else shard}", figures)))
    if broken:
        raise SystemExit(f"{broken} seeds: sharded and alone do not pick the same")


if __name__ == "__main__":
    app.run(main)
