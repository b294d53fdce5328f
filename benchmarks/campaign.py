"""What a campaign on a large table costs: loading it, its first fit, and the visitors of today.

python -m benchmarks.campaign [--rows=1000 --columns=10000 --values=1000000]

Beside the visitors stands the price of asking among all columns.
"""

import functools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
from absl import app, flags

import smc_jax
from smc_jax.campaign.storage import Storage

ROWS = flags.DEFINE_integer("rows", 1000, "D.")
COLUMNS = flags.DEFINE_integer("columns", 10_000, "N.")
VALUES = flags.DEFINE_integer("values", 1_000_000, "Values that are known.")
REPEATS = flags.DEFINE_integer("repeats", 20, "How often a visitor comes.")


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def make_table(path: pathlib.Path) -> None:
    """A long table of rank four, every entry at most once."""
    rng = np.random.default_rng(0)
    shape = ROWS.value, COLUMNS.value
    entries = rng.choice(shape[0] * shape[1], VALUES.value, replace=False)
    loadings, latents = rng.gamma(2, 1, (shape[0], 4)), rng.normal(size=(4, shape[1]))
    with path.open("w") as file:
        file.write("row,column,value\n")
        for row, column in zip(*np.unravel_index(entries, shape), strict=True):
            value = loadings[row] @ latents[:, column] + 0.3 * rng.normal()
            file.write(f"r{row},c{column},{value:.4f}\n")


def summed_up(milliseconds: Sequence[float]) -> str:
    """The median and the longest of some times."""
    return f"median {statistics.median(milliseconds):.1f} ms, longest {max(milliseconds):.1f} ms"


def main(arguments: Sequence[str]) -> None:
    """Prints a line a figure."""
    del arguments
    with tempfile.TemporaryDirectory() as folder:
        table, path = pathlib.Path(folder) / "table.csv", pathlib.Path(folder) / "large.db"
        make_table(table)
        print(f"{ROWS.value} x {COLUMNS.value}, {VALUES.value} values")
        print(f"new: {seconds(lambda: smc_jax.Campaign.new(path, table).disconnect()):.1f} s")
        with Storage.open(path) as storage:
            print(f"loading the answers: {seconds(lambda: storage.state(time.time())):.1f} s")
        lab = smc_jax.Campaign(path)
        print(f"first fit and ten entries: {seconds(lambda: lab.best(10)):.1f} s", flush=True)
        rng = np.random.default_rng(1)
        for number in (1, 10, 100):
            came = [
                [f"c{c}" for c in rng.choice(COLUMNS.value, number, replace=False)]
                for _ in range(REPEATS.value + 1)
            ]
            lab.best(10, columns=came.pop())  # compiles
            took = [1e3 * seconds(functools.partial(lab.best, 10, columns=one)) for one in came]
            described = f"{number} columns of today, without a refit"
            print(f"the best ten entries of {described}: {summed_up(took)}", flush=True)
            asks = functools.partial(lab.ask, 10, refit=False)
            took = [1e3 * seconds(functools.partial(asks, columns=one)) for one in came]
            print(f"ten entries are asked for of {described}: {summed_up(took)}", flush=True)
        (told,) = lab.ask(1, columns=["c0"], refit=False)
        lab.tell([(told.row, told.column, 0.5)])
        again = seconds(lambda: lab.best(10, columns=["c0"]))
        print(f"the first of them after an answer: {again:.2f} s")
        everyone = statistics.median(seconds(lambda: lab.best(10)) for _ in range(3))
        print(f"ten entries among all columns, without a refit: {everyone:.2f} s")
        lab.disconnect()


if __name__ == "__main__":
    app.run(main)
