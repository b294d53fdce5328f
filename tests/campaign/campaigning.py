"""A small table and the campaign on it, for tests in Python."""

import contextlib
import sqlite3

import numpy as np
import pytest

from smc_jax.campaign.types import CampaignError

# One shape for all tests with a model, and no more columns than any offer is rounded up to, so that
# few programs are compiled.
ROWS, COLUMNS = [f"d{i}" for i in range(7)], [f"t{j}" for j in range(8)]


def truth():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(7, 8))
    return {
        (row, column): round(float(values[i, j]), 3)
        for i, row in enumerate(ROWS)
        for j, column in enumerate(COLUMNS)
    }


TRUTH = truth()
# Half of the entries, in an order in which all ids come as they are numbered.
KNOWN = [
    (row, column, value)
    for (row, column), value in TRUTH.items()
    if (int(row[1]) + int(column[1])) % 2 == 0
]
KNOWN.sort(key=lambda line: (line[0] != "d0", line[0] != "d1", line[:2]))
OPEN = set(TRUTH) - {(row, column) for row, column, _ in KNOWN}


def write(path, lines, header=("row", "column", "value")):
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in (header, *lines)))
    return path


def dump(path):
    """Everything in the tables of a campaign."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def pairs(suggestions):
    return [(one.row, one.column) for one in suggestions]


def refused(*parts):
    return pytest.raises(CampaignError, match=".*".join(parts))


def counting(campaign):
    """The list of fits, one number each, that the campaign makes from here on."""
    made = []
    campaign._on_fit = lambda done, total: made.append(total) if done == total else None
    return made
