"""Columns in blocks are columns all at once."""

import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.blocks import each_column, over_columns

ROWS, COLUMNS = 3, 10
RNG = np.random.default_rng(0)
LAST = jnp.asarray(RNG.normal(size=(ROWS, COLUMNS)))
FIRST = jnp.asarray(RNG.normal(size=(COLUMNS, 2)))


@pytest.mark.parametrize("width", [1, 4, 5, 10, 99])
def test_each_column_has_its_own_value_once(width):
    def function(last, first):
        assert last.shape[1] == first.shape[0] == min(width, COLUMNS)
        return {"sum": last.sum(0) + first.sum(1), "product": last[:, None] * first.T}

    made = each_column(function, (LAST, FIRST), (1, 0), width=width)
    np.testing.assert_allclose(made["sum"], LAST.sum(0) + FIRST.sum(1), rtol=1e-6)
    np.testing.assert_allclose(made["product"], LAST[:, None] * FIRST.T, rtol=1e-6)


@pytest.mark.parametrize("width", [1, 4, 5, 10, 99])
def test_what_is_added_up_counts_every_column_once(width):
    total, each = over_columns(lambda x: (x.sum(1), 2 * x), (LAST,), width=width)
    np.testing.assert_allclose(total, LAST.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(each, 2 * LAST, rtol=1e-6)
