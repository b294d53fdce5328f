import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.algebra.extremes import argmax, argmin, first_largest, mean_of_largest


def test_the_first_of_the_extreme_values():
    rng = np.random.default_rng(0)
    for size in (1, 7, 400):
        values = jnp.asarray(rng.integers(0, 20, (3, size)).astype(np.float32))
        assert argmax(values) == np.argmax(values)
        assert jax.jit(argmin)(values) == np.argmin(values)
    nothing = jnp.full(4, -jnp.inf)
    assert argmax(nothing) == 0
    assert argmax(nothing.at[2].set(-9.0)) == 2
    assert argmin(jnp.asarray([jnp.inf, 3.0, -jnp.inf, -jnp.inf])) == 2
    assert argmin(jnp.full(4, jnp.inf)) == 0


def test_the_first_row_and_then_the_first_column_of_the_largest():
    rng = np.random.default_rng(2)
    for shape in ((1, 1), (7, 1), (1, 7), (20, 30)):
        values = jnp.asarray(rng.integers(0, 20, shape).astype(np.float32))
        row, column = jax.jit(first_largest)(values)
        assert (row, column) == np.unravel_index(np.argmax(values), shape)
    assert tuple(map(int, first_largest(jnp.full((3, 4), -jnp.inf)))) == (0, 0)
    row, _ = first_largest(jnp.zeros((3, 4)).at[1, 2].set(jnp.nan))
    assert row == 3  # that is no row


def test_nan_gives_no_index():
    values = jnp.asarray([1.0, jnp.nan, 3.0])
    assert argmax(values) == 3
    assert argmin(values) == 3


def test_mean_of_the_largest():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 30)).astype(np.float32)
    values[rng.random((20, 30)) < 0.3] = -np.inf
    there = np.sort(values[np.isfinite(values)])
    for number in (1, 2, 17, there.size, 10_000):
        expected = there[-number:].mean()
        np.testing.assert_allclose(mean_of_largest(values, number), expected, rtol=1e-5, atol=1e-6)
    ties = jnp.asarray([2.0, 2.0, 2.0, 1.0, -jnp.inf])
    np.testing.assert_allclose(mean_of_largest(ties, 2), 2.0, rtol=1e-6)
    np.testing.assert_allclose(mean_of_largest(ties, 4), 1.75, rtol=1e-6)
    assert mean_of_largest(jnp.full(3, -jnp.inf), 2) == 0.0  # of nothing


def test_mean_of_the_largest_is_never_above_them():
    """Many values that are alike, and one that is far from the others."""
    for outlier in (0.0, -1e6):
        values = jnp.ones(100_000).at[7].set(outlier)
        for number in (1, 10, 99_999):
            np.testing.assert_allclose(mean_of_largest(values, number), 1.0, rtol=1e-6)
