"""Lists of looks and the dense observations of the same values."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from problems import one_by_one

from smc_jax.looks import Looks
from smc_jax.observations import Observations

ROWS, COLUMNS = 13, 17
# Groups that divide 17 columns, that do not, and one column or less in a group.
SHAPES = {
    "as is quick": {},
    "4 groups": {"groups": 4, "width": 4},
    "5 groups": {"groups": 5, "width": 8},
    "a group a column": {"groups": 17, "width": 4},
}


class Listed(NamedTuple):
    looks: Looks
    dense: Observations


def listed(seed=0, *, rows=ROWS, columns=COLUMNS, number=90, weights=False, centre=3.0, **shape):
    """Repeats, a row and a column of nothing, and a column with every other row several times."""
    rng = np.random.default_rng(seed)
    row = np.append(rng.integers(0, rows - 1, number), np.repeat(np.arange(rows - 1), 3))
    column = np.append(rng.integers(1, columns, number), np.full(3 * (rows - 1), 2))
    value = centre + rng.normal(size=row.size)
    weight = rng.uniform(0.2, 2.0, row.size) if weights else np.ones(row.size)
    looks = Looks.of(row, column, value, weight, rows=rows, columns=columns, **shape)
    assert looks.count.dtype == jnp.result_type(float)
    return Listed(looks, one_by_one(rows, columns, row, column, value, weight))
