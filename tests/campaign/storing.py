"""Tables, suggestions and a clock for tests of the file of a campaign."""

import contextlib

import numpy as np
import pytest

from smc_jax.campaign.types import COLUMN, ROW, CampaignError, Records, Suggestion


def table(*lines, row_ids=(), column_ids=()):
    """Records of (row, column, number or kind)."""
    kinds = [what if isinstance(what, str) else "value" for _, _, what in lines]
    values = [np.nan if isinstance(what, str) else what for _, _, what in lines]
    rows, columns = [line[0] for line in lines], [line[1] for line in lines]
    return Records(
        rows,
        columns,
        kinds,
        np.array(values, float),
        lambda line: f"assay.csv, line {line + 2}",
        [*row_ids, *dict.fromkeys(rows)],
        [*column_ids, *dict.fromkeys(columns)],
        [],
    )


def suggestion(row, column, mean=np.nan):
    return Suggestion(row, column, mean, 1.0, mean - 1.6, mean + 1.6, 0.5, 0.1, "it is uncertain")


class Clock:
    """Seconds that a test sets."""

    now = 1000.0

    def __call__(self):
        return self.now


def ask(campaign, token, *pairs, expires=None, position=None, mean=np.nan):
    campaign.record_ask(
        token,
        [
            (
                campaign.number_of(ROW, row),
                campaign.number_of(COLUMN, column),
                suggestion(row, column, mean),
            )
            for row, column in pairs
        ],
        position=campaign.position() if position is None else position,
        fitted_at=None,
        expires=expires,
        source="test",
    )


def told(loaded):
    """The values that count, by ids."""
    found = zip(loaded.row, loaded.column, loaded.value, strict=True)
    return [(loaded.row_ids[row], loaded.column_ids[column], value) for row, column, value in found]


def named(loaded, what):
    found = zip(getattr(loaded, f"{what}_row"), getattr(loaded, f"{what}_column"), strict=True)
    return [(loaded.row_ids[row], loaded.column_ids[column]) for row, column in found]


@contextlib.contextmanager
def refused(*words):
    """One line that has all the words."""
    with pytest.raises(CampaignError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def grid(campaign, rows="abc", columns="xyz"):
    campaign.add(table(row_ids=list(rows), column_ids=list(columns)), source="test")
    return campaign
