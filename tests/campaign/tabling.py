"""What tests of tables share."""

import math

import numpy as np
import pytest

from smc_jax.campaign.types import KINDS, CampaignError

LONG = "drug,target,y\n"


def records_of(records):
    """(row, column, kind, value or None) of each record."""
    assert set(records.kinds) <= set(KINDS)
    assert records.values.dtype == np.float64
    assert [math.isnan(v) for v in records.values] == [kind != "value" for kind in records.kinds]
    values = [None if math.isnan(v) else v for v in records.values.tolist()]
    return list(zip(records.rows, records.columns, records.kinds, values, strict=True))


def refusal(reader, path, **arguments):
    """The message, one line that begins with the file and ends with a fix."""
    with pytest.raises(CampaignError) as caught:
        reader(path, **arguments)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(path))
    assert message.removeprefix(str(path)).count(": ") >= 1
    assert caught.value.__cause__ is None
    return message
