"""Columns in blocks are columns all at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from smc_jax import sharding
from smc_jax.blocks import each_column, over_columns

ROWS, COLUMNS = 3, 10
RNG = np.random.default_rng(0)
LAST = jnp.asarray(RNG.normal(size=(ROWS, COLUMNS)))
MIDDLE = jnp.asarray(RNG.normal(size=(2, COLUMNS, 4)))


@pytest.fixture(params=[1, 2])
def devices(request):
    """The columns on one device, or shared out over two."""
    found = np.asarray(jax.devices()[: request.param])
    with jax.set_mesh(Mesh(found, (sharding.AXIS,), axis_types=(AxisType.Auto,))):
        yield request.param


@pytest.mark.parametrize("width", [1, 4, 5, 10, 99])
def test_each_column_has_its_own_value_once(width, devices):
    def function(last, middle):
        assert last.shape[1] == middle.shape[1]
        assert last.shape[1] == devices * min(max(width // devices, 1), COLUMNS // devices)
        return {"sum": last.sum(0) + middle.sum((0, 2)), "product": last[:, None] * middle[..., 0]}

    made = jax.jit(lambda *x: each_column(function, x, axis=1, width=width))(LAST, MIDDLE)
    everything = LAST.sum(0) + MIDDLE.sum((0, 2))
    np.testing.assert_allclose(made["sum"], everything, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["product"], LAST[:, None] * MIDDLE[..., 0], rtol=1e-6)


@pytest.mark.parametrize("width", [1, 4, 5, 10, 99])
def test_what_is_added_up_counts_every_column_once(width, devices):
    added = jax.jit(lambda x: over_columns(lambda x: (x.sum(1), 2 * x), (x,), width=width))
    total, each = added(LAST)
    np.testing.assert_allclose(total, LAST.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(each, 2 * LAST, rtol=1e-6)
