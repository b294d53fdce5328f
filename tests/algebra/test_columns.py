"""Columns in blocks are columns all at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, PartitionSpec

from smc_jax.algebra.columns import AXIS, column_spec, each_column, over_columns, shards

RNG = np.random.default_rng(0)
WIDTHS = pytest.mark.parametrize("width", [1, 2, 4, 5, 10, 99])


@pytest.fixture(params=[(1, 10), (2, 10), (2, 11)])
def columns(request):
    """So many on one device, or over two; the mesh, which cannot share out 11 evenly, is left."""
    devices, columns = request.param
    found = np.asarray(jax.devices()[:devices])
    with jax.set_mesh(Mesh(found, (AXIS,), axis_types=(AxisType.Auto,))):
        assert shards(columns) == (devices if columns == 10 else 1)
        yield columns


@WIDTHS
def test_each_column_has_its_own_value_once(width, columns):
    last = jnp.asarray(RNG.normal(size=(3, columns)))
    middle = jnp.asarray(RNG.normal(size=(2, columns, 4)))
    devices = shards(columns)

    def function(last, middle):
        assert last.shape[1] == middle.shape[1]
        assert last.shape[1] == devices * min(max(width // devices, 1), columns // devices)
        return {"sum": last.sum(0) + middle.sum((0, 2)), "product": last[:, None] * middle[..., 0]}

    made = jax.jit(lambda *x: each_column(function, x, axis=1, width=width))(last, middle)
    everything = last.sum(0) + middle.sum((0, 2))
    np.testing.assert_allclose(made["sum"], everything, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["product"], last[:, None] * middle[..., 0], rtol=1e-6)


@WIDTHS
def test_what_is_added_up_counts_every_column_once(width, columns):
    last = jnp.asarray(RNG.normal(size=(3, columns)))
    added = jax.jit(lambda x: over_columns(lambda x: (x.sum(1), 2 * x), (x,), width=width))
    total, each = added(last)
    np.testing.assert_allclose(total, last.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(each, 2 * last, rtol=1e-6)


def test_the_columns_of_an_array_are_its_last_axis_of_that_length_but_not_the_seeds():
    assert column_spec((2, 8, 12), 12) == PartitionSpec(None, None, AXIS)
    assert column_spec((2, 16, 12, 3, 5), 12) == PartitionSpec(None, None, AXIS, None, None)
    assert column_spec((12, 8, 7), 12) == PartitionSpec()
    assert column_spec((12,), 12) == PartitionSpec()
