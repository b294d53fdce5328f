"""Campaigns on the direct arylation yields, beside the runs of a peer.

python -m benchmarks.arylation --data=DIR/direct_arylation --out=campaign.jsonl \
    --peers=components.jsonl,rows_columns.jsonl

Every start knows ten entries of the 48 x 36 matrix, and measures 30 batches of five. The peer is
run by `benchmarks/arylation_peer.py`, in an environment of its own, from the same starts. A line of
JSON is appended to --out for every finished start; starts that are there already are skipped.
"""

import csv
import json
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import app, flags
from tqdm import tqdm

import smc_jax
from smc_jax.simulation.regret import paired_interval

DATA = flags.DEFINE_string("data", None, "The folder with the matrix.")
OUT = flags.DEFINE_string("out", "results/benchmarks/arylation.jsonl", "Where lines are appended.")
PEERS = flags.DEFINE_list("peers", [], "Lines that the peer left, to be compared with.")
STARTS = flags.DEFINE_integer("starts", 20, "How many starts.")
FIRST = flags.DEFINE_integer("first", 0, "The number of the first start.")
ROUNDS = flags.DEFINE_integer("rounds", 30, "Batches a start.")
BATCH = flags.DEFINE_integer("batch", 5, "Entries a batch.")
MATRIX = "matrix_ligand-base_x_solvent-conc-temp.csv"
KNOWN, TOP = 10, 10


def read_matrix(folder: str | None) -> tuple[list[str], list[str], np.ndarray]:
    """Row ids, column ids and yields."""
    if folder is None:
        raise app.UsageError("give --data=FOLDER, where the matrix lies")
    with (pathlib.Path(folder) / MATRIX).open(newline="") as file:
        header, *lines = csv.reader(file)
    return [line[0] for line in lines], header[1:], np.array([line[1:] for line in lines], float)


def run_start(
    start: int, rows: list[str], columns: list[str], yields: np.ndarray
) -> dict[str, Any]:
    """One campaign: what it had measured after every batch."""
    number_of = {
        (row, column): (i, j) for i, row in enumerate(rows) for j, column in enumerate(columns)
    }
    known = np.random.default_rng(start).choice(yields.size, KNOWN, replace=False)
    measured = [divmod(int(place), len(columns)) for place in known]
    best, seconds = [max(yields[entry] for entry in measured)], 0.0
    with tempfile.TemporaryDirectory() as folder:
        campaign = smc_jax.Campaign.new(pathlib.Path(folder) / "lab.db", seed=start)
        campaign.add(rows=rows, columns=columns)
        campaign.tell([(rows[i], columns[j], yields[i, j]) for i, j in measured])
        for _ in range(ROUNDS.value):
            began = time.monotonic()
            batch = campaign.ask(BATCH.value)
            seconds += time.monotonic() - began
            entries = [number_of[one.row, one.column] for one in batch]
            campaign.tell([(rows[i], columns[j], yields[i, j]) for i, j in entries])
            measured += entries
            best.append(max(best[-1], *(yields[entry] for entry in entries)))
        campaign.disconnect()
    values = sorted((yields[entry] for entry in measured), reverse=True)
    found = [i for i, value in enumerate(best) if value == yields.max()]
    return {
        "start": start,
        "rounds": ROUNDS.value,
        "batch": BATCH.value,
        "found": bool(found),
        "found_round": found[0] if found else None,
        "mean_top": float(np.mean(values[:TOP])),
        "best_so_far": best,
        "seconds_a_round": seconds / ROUNDS.value,
    }


def read_lines(path: pathlib.Path) -> dict[int, dict[str, Any]]:
    """The starts that a file has, by number."""
    if not path.exists():
        return {}
    return {line["start"]: line for line in map(json.loads, path.read_text().splitlines())}


def table(runs: dict[str, dict[int, dict[str, Any]]]) -> str:
    """A line a method, over the starts that all of them have."""
    starts = sorted(set.intersection(*(set(lines) for lines in runs.values())))
    text = [f"{len(starts)} starts; best yield at round 5, 10, 20, 30; mean of the ten best found"]
    first = np.array([next(iter(runs.values()))[start]["mean_top"] for start in starts])
    for name, lines in runs.items():
        chosen = [lines[start] for start in starts]
        best = np.mean([line["best_so_far"] for line in chosen], axis=0)
        found, top = (
            sum(line["found"] for line in chosen),
            np.array([x["mean_top"] for x in chosen]),
        )
        at = " ".join(f"{best[min(r, len(best) - 1)]:6.1f}" for r in (5, 10, 20, 30))
        gap = paired_interval(first, top)
        text.append(
            f"{name:<16} found the best in {found:>2} of {len(starts)}  {at}  {top.mean():6.2f}"
            f"  first - this {gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"
            f"  {np.mean([line['seconds_a_round'] for line in chosen]):.2f} s a round"
        )
    return "\n".join(text)


def main(arguments: Sequence[str]) -> None:
    """Runs what is missing, and prints the table."""
    del arguments
    out = pathlib.Path(OUT.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    rows, columns, yields = read_matrix(DATA.value)
    wanted = range(FIRST.value, FIRST.value + STARTS.value)
    for start in tqdm([start for start in wanted if start not in read_lines(out)], unit="start"):
        line = run_start(start, rows, columns, yields)
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
    done = {start: line for start, line in read_lines(out).items() if start in wanted}
    runs = {"campaign": done} | {
        pathlib.Path(p).stem: read_lines(pathlib.Path(p)) for p in PEERS.value
    }
    print(table(runs))


if __name__ == "__main__":
    app.run(main)
