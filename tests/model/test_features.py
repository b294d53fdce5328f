"""Features as orthogonal coordinates."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from smc_jax.model.features import Features, coordinates


@pytest.mark.parametrize("shape", [(12, 3), (5, 40)], ids=["few features", "many features"])
def test_coordinates_are_centred_orthogonal_and_of_scale_one(shape):
    table = np.random.default_rng(0).normal(2.0, 3.0, shape)
    found = coordinates(table)
    assert found.shape == (shape[0], min(shape[0] - 1, shape[1]))
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-12)
    products = found.T @ found
    np.testing.assert_allclose(products, np.diag(products.diagonal()), atol=1e-10)
    np.testing.assert_allclose((found**2).sum(1).mean(), 1.0, rtol=1e-12)
    # F B with independent weights of one variance has the covariance F F', centred.
    centred = table - table.mean(0)
    covariance = centred @ centred.T
    np.testing.assert_allclose(
        found @ found.T, covariance / (covariance.trace() / shape[0]), atol=1e-10
    )


def test_features_that_tell_nothing_new_take_no_room():
    table = np.random.default_rng(1).normal(size=(9, 2))
    more = np.column_stack([table, np.full(9, 7.0), table[:, 0] - 2 * table[:, 1]])
    assert coordinates(more).shape == (9, 2)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (np.ones((4, 2)), "no feature differs"),
        (np.full((7, 2), 0.1), "no feature differs"),  # whose mean is rounded
        (np.array([[1.0], [np.nan]]), "finite numbers"),
        (np.ones(3), "a matrix"),
        (np.zeros((4, 0)), "no feature differs"),
    ],
)
def test_what_is_no_table_of_features_is_refused(table, told):
    with pytest.raises(ValueError, match=rf"^rows: .*{told}"):
        coordinates(table, "rows")


def test_further_columns_are_predicted_to_be_as_their_rows():
    found = Features(entries=np.array([[1.0, 3.0], [-2.0, -2.0]])).beside(None, 2).entries
    np.testing.assert_array_equal(found, [[1.0, 3.0, 2.0, 2.0], [-2.0, -2.0, -2.0, -2.0]])


def test_sparse_features_have_the_same_coordinates_and_never_become_dense():
    """10,000 fingerprint bits of 500 ids: their dense copy would take 40 MB, P x P 800 MB."""
    bits = sparse.random_array((500, 10_000), density=0.004, format="csr", rng=0)
    bits.data[:] = 1.0
    tracemalloc.start()
    found = coordinates(bits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25e6
    table = bits.toarray()
    centred = table - table.mean(0)
    covariance = centred @ centred.T
    np.testing.assert_allclose(found @ found.T, covariance / (covariance.trace() / 500), atol=1e-8)


def test_sparse_features_lose_what_is_rounding_in_their_products():
    """A large constant column is centred only in the products, which keep half of the digits."""
    table = np.zeros((30, 40))
    table[:, 0], table[:, 1] = 1e4, np.random.default_rng(0).normal(size=30)
    found = coordinates(sparse.csr_array(table))
    assert found.shape == coordinates(table).shape == (30, 1)
    with pytest.raises(ValueError, match=r"^bits: no feature differs"):
        coordinates(sparse.csr_array(np.full((7, 30), 1e4 / 3)), "bits")


def test_sparse_features_that_differ_nowhere_are_refused():
    with pytest.raises(ValueError, match=r"^bits: no feature differs"):
        coordinates(sparse.csr_array(np.ones((3, 9))), "bits")
    few = sparse.csr_array(np.eye(5)[:, :2])
    np.testing.assert_allclose(coordinates(few), coordinates(few.toarray()))
