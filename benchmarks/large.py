"""The first picks on a matrix that no array holds, at first of the shape of MovieLens 25M.

python -m benchmarks.large [--rows=59047 --columns=162541 --looks=25000000 --picks=1000]

A matrix of rank 5 by its factors, of which as many values are known as people gave ratings, rows
and columns as unevenly. `ids` has signed loadings with intercepts, K = 20, fitted by SVI with some
groups of columns a step, and 16 draws; it keeps the states of some columns. What is printed is the
time of each part, compilation included, the most memory that the process held, and the regret of
the picks beside that of random ones. Kept in results/benchmarks/large.json.
"""

import time
from collections.abc import Sequence

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from benchmarks import timing
from benchmarks.uneven import uneven_entries
from smc_jax import presets
from smc_jax.policies.ids import ids
from smc_jax.simulation import large

ROWS = flags.DEFINE_integer("rows", 59_047, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 162_541, "N.", lower_bound=1)
LOOKS = flags.DEFINE_integer("looks", 25_000_000, "Values known at first.", lower_bound=1)
PICKS = flags.DEFINE_integer("picks", 1000, "Picks of a batch.", lower_bound=1)
BATCHES = flags.DEFINE_integer("batches", 1, "Refits, and batches of picks.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 100, "Steps of SVI of a refit.", lower_bound=1)
AT_ONCE = flags.DEFINE_integer("at_once", 1024, "Columns of a step, about.", lower_bound=1)
KEPT = flags.DEFINE_integer("kept", 2048, "Columns whose states are kept.", lower_bound=1)
RANK, DRAWS, TRUE_RANK, NOISE = 20, 16, 5, 0.3


def problem(rows: int, columns: int, number: int) -> tuple[large.Factored, large.Lists]:
    """A matrix by its factors, and what was seen of it."""
    rng = np.random.default_rng(0)
    row, column = uneven_entries(rows, columns, number, rng)
    left, right = (rng.normal(size=(side, TRUE_RANK)) for side in (rows, columns))
    mean = rng.normal(size=rows)
    value = np.empty(number, np.float32)
    for some in np.array_split(np.arange(number), max(number // 10**6, 1)):
        value[some] = mean[row[some]] + (left[row[some]] * right[column[some]]).sum(1)
    value += NOISE * rng.normal(size=number)
    made = (jnp.asarray(x, jnp.float32) for x in (mean, left, right, NOISE))
    return large.Factored(*made), large.Lists(row.astype(np.int32), column.astype(np.int32), value)


def main(arguments: Sequence[str]) -> None:
    """Runs, and prints the parts."""
    del arguments
    rows, columns = ROWS.value, COLUMNS.value
    clock = time.perf_counter()
    seconds: dict[str, list[float]] = {}

    def told(phase: str, number: int = 0) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds.setdefault(phase, []).append(round(now - clock, 2))
        print(f"{phase} {number}: {now - clock:.1f} s", flush=True)
        clock = now

    matrix, lists = problem(rows, columns, LOOKS.value)
    told("made")
    preset = presets.ratings(rank=RANK, method="svi", start="random", columns=AT_ONCE.value)
    fitted = preset._replace(standardise=True).belief(first_steps=STEPS.value, steps=STEPS.value)
    horizon = RANK * (rows + columns - RANK)
    policy = ids(fitted, draws=DRAWS, kept=KEPT.value, best_of=max(horizon // 2, 1))
    key, picks = jax.random.key(0), PICKS.value
    filled = large.looks_of(rows, columns)
    best = np.asarray(large.best_rewards(matrix, filled(lists, None), picks * BATCHES.value))
    told("best sequence")
    run = large.run(
        key, matrix, lists, policy, picks=picks, batches=BATCHES.value, filled=filled, told=told
    )
    earned = np.concatenate([np.asarray(batch.steps.expected) for batch in run])
    some = np.random.default_rng(1).integers(0, (rows, columns), (10**5, 2))
    by_chance = float(np.asarray(matrix.at(*some.T)).mean())
    regret, random = float((best - earned).sum()), float((best - by_chance).sum())
    print(f"{rows} x {columns}, {LOOKS.value} values known, {best.size} picks")
    print(f"mean reward: best {best.mean():.3f}, ids {earned.mean():.3f}, random {by_chance:.3f}")
    print(f"regret: ids {regret:.1f}, random {random:.1f}")
    sizes = {"rows": rows, "columns": columns, "looks": LOOKS.value, "picks": best.size}
    figures = {**sizes, "seconds": seconds, "regret": regret, "random": random}
    print(timing.closing(timing.keep("large", figures)))


if __name__ == "__main__":
    app.run(main)
