"""How good the suggestions of a campaign are, and whether its intervals hold.

python -m benchmarks.suggestions                              # twenty suggestions on five tables
python -m benchmarks.suggestions --study=intervals --data=DIR  # 90 % intervals of answers

The first study shows a fifth of a table and asks for twenty entries: the mean of their true values,
in parts of the mean of the best twenty that were unknown. The second begins with a tenth of a table
and asks for twenty entries again and again: how many of the answers lie in their 90 % intervals, on
synthetic tables and on real ones under --data (those that are there).
"""

import csv
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import app, flags
from tqdm import tqdm

import smc_jax

STUDY = flags.DEFINE_enum("study", "values", ["values", "intervals"], "What is measured.")
DATA = flags.DEFINE_string("data", None, "The folder with the real tables.")
FIRST = flags.DEFINE_integer("first", 0, "The number of the first table or start.")
TABLES = flags.DEFINE_integer("tables", 5, "How many tables or starts of each kind.")
ROUNDS = flags.DEFINE_integer("rounds", 8, "Of the intervals: asks a start.")
NUMBER = flags.DEFINE_integer("number", 20, "Entries an ask.")
REAL = {
    "direct arylation": "direct_arylation/matrix_ligand-base_x_solvent-conc-temp.csv",
    "Davis kinases": "davis/davis_matrix_pKd.csv",
    "PKIS1 kinases": "pkis1/pkis1_matrix_pct_inhibition_1uM_clipped.csv",
    "Buchwald-Hartwig": "buchwald_hartwig/matrix_45x88_halide-base_x_additive-ligand.csv",
}


def synthetic(kind: str, seed: int) -> np.ndarray:
    """A 60 x 200 table of rank 4: signed, of nonnegative loadings, or all positive."""
    rng = np.random.default_rng(seed)
    if kind == "signed":
        return rng.normal(size=(60, 4)) @ rng.normal(size=(4, 200))
    if kind == "uniform":
        return rng.uniform(size=(60, 4)) @ rng.normal(size=(4, 200))
    return rng.gamma(2.0, 1.0, (60, 4)) @ rng.gamma(2.0, 0.7, (4, 200))


def noisy(kind: str, seed: int) -> np.ndarray:
    """What is measured of a table: noise of a tenth of its spread."""
    table = synthetic(kind, seed)
    return table + 0.1 * table.std() * np.random.default_rng([seed, 1]).normal(size=table.shape)


def read_matrix(path: pathlib.Path) -> np.ndarray:
    """A wide table; NaN where a cell is empty."""
    with path.open(newline="") as file:
        _, *lines = csv.reader(file)
    return np.array([[float(cell or "nan") for cell in line[1:]] for line in lines])


def begin(measured: np.ndarray, seen: np.ndarray, folder: str, seed: int) -> smc_jax.Campaign:
    """A campaign that knows a part of a table."""
    campaign = smc_jax.Campaign.new(pathlib.Path(folder) / "lab.db", seed=seed)
    campaign.add(rows=map(str, range(len(seen))), columns=map(str, range(seen.shape[1])))
    campaign.close((str(i), str(j)) for i, j in np.argwhere(np.isnan(measured)))
    campaign.tell((str(i), str(j), measured[i, j]) for i, j in np.argwhere(seen))
    return campaign


def quality(kind: str, seed: int) -> float:
    """Mean true value of the suggestions in parts of that of the best unknown entries."""
    truth, measured = synthetic(kind, seed), noisy(kind, seed)
    seen = np.random.default_rng([seed, 2]).random(truth.shape) < 0.2
    with tempfile.TemporaryDirectory() as folder, begin(measured, seen, folder, seed) as campaign:
        batch = campaign.ask(NUMBER.value)
    found = np.mean([truth[int(one.row), int(one.column)] for one in batch])
    return float(found / np.sort(truth[~seen])[-NUMBER.value :].mean())


def coverage(measured: np.ndarray, seed: int) -> list[bool]:
    """Whether each answer lay in the interval that it was asked with."""
    seen = ~np.isnan(measured) & (np.random.default_rng([seed, 3]).random(measured.shape) < 0.1)
    held = []
    with tempfile.TemporaryDirectory() as folder, begin(measured, seen, folder, seed) as campaign:
        for _ in range(ROUNDS.value):
            answers = []
            for one in campaign.ask(NUMBER.value):
                value = float(measured[int(one.row), int(one.column)])
                held.append(one.low <= value <= one.high)
                answers.append((one.row, one.column, value))
            campaign.tell(answers)
    return held


def values_study(seeds: range) -> Iterator[str]:
    """A line a kind of table."""
    for kind in ("signed", "uniform", "positive"):
        parts = [quality(kind, seed) for seed in tqdm(seeds, desc=kind, unit="table")]
        each = " ".join(f"{part:.1%}" for part in parts)
        yield f"{kind:<18} mean {np.mean(parts):.1%}, worst {min(parts):.1%} ({each})"


def intervals_study(seeds: range) -> Iterator[str]:
    """A line a table."""
    tables: dict[str, Callable[[int], np.ndarray]] = {
        "synthetic, uniform": lambda seed: noisy("uniform", seed),
        "synthetic, signed": lambda seed: noisy("signed", seed),
    }
    for name, place in REAL.items():
        path = pathlib.Path(DATA.value or "") / place
        if DATA.value is not None and path.exists():
            matrix = read_matrix(path)
            tables[name] = lambda seed, matrix=matrix: matrix  # type: ignore[misc]
    for name, table in tables.items():
        held = [coverage(table(seed), seed) for seed in tqdm(seeds, desc=name, unit="start")]
        first = np.mean([one[: NUMBER.value] for one in held])
        answers = sum(map(len, held))
        yield f"{name:<20} {np.mean(held):.1%} of {answers} answers, {first:.0%} of the first asks"


def main(arguments: Sequence[str]) -> None:
    """Prints a line a table."""
    del arguments
    seeds = range(FIRST.value, FIRST.value + TABLES.value)
    study = values_study if STUDY.value == "values" else intervals_study
    for line in study(seeds):
        print(line, flush=True)


if __name__ == "__main__":
    app.run(main)
