"""A table, and how it is written and read, for tests of the command `smc-jax`."""

import contextlib
import csv
import sqlite3

import numpy as np

from smc_jax.campaign.storage import Storage

# One shape for all tests with a model, that of `campaigning`, so that few programs are compiled.
ROWS, COLUMNS = [f"drug{i}" for i in range(7)], [f"target{j}" for j in range(8)]
NAMES = ("drug", "target", "activity")
OPTIONS = ("--rows=drug", "--columns=target", "--maximise=activity", "--rank=2")


def truth():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(7, 8))
    return values.round(3)


TRUTH = truth()
KNOWN = [
    (row, column, float(TRUTH[i, j]))
    for i, row in enumerate(ROWS)
    for j, column in enumerate(COLUMNS)
    if (i + j) % 2 == 0
]
KNOWN_PAIRS = {(row, column) for row, column, _ in KNOWN}


def write(path, *lines):
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    return path


def read(path):
    """The lines of a CSV, as dictionaries."""
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def dump(path):
    """Everything in the tables of a campaign."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def values_of(path):
    with Storage.open(path) as storage:
        log = storage.state(0.0).log
    named = zip(log.row, log.column, log.value.tolist(), strict=True)
    return sorted((log.row_ids[row], log.column_ids[column], value) for row, column, value in named)
