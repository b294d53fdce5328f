"""Recorded ratings as problems: only what exists is available, and the key draws the columns."""

import jax
import numpy as np
import pytest

from smc_jax.data.recorded import recorded


def table():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(4, 30)), rng.uniform(size=(4, 30)) < 0.7
    return np.where(mask, values, np.nan), mask


def test_all_columns_are_taken_as_they_are():
    values, mask = table()
    problem = recorded(values, mask)(jax.random.key(0), 3)
    np.testing.assert_array_equal(problem.available, mask)
    np.testing.assert_allclose(problem.entries, np.where(mask, values, 0.0), rtol=1e-6)
    assert problem.noise == 0
    assert problem.truth is None


def test_the_key_draws_whole_columns_without_replacement():
    values, mask = table()
    make = jax.jit(recorded(values, mask, columns=12))
    drawn = []
    for seed in range(3):
        problem = make(jax.random.key(seed))
        entries, available = np.asarray(problem.entries), np.asarray(problem.available)
        held = np.where(mask, values, 0.0).astype(np.float32)
        found = [int(np.flatnonzero((held == column[:, None]).all(0))[0]) for column in entries.T]
        assert len(set(found)) == 12
        np.testing.assert_array_equal(available, mask[:, found])
        drawn.append(found)
    assert drawn[0] != drawn[1] != drawn[2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_exists_must_be_a_number(value):
    values, mask = table()
    values[2, 7], mask[2, 7] = value, True
    message = (
        rf"^values: must be finite under the mask, got {value} at row 2, column 7;"
        r" correct it, or set the mask to False there$"
    )
    with pytest.raises(ValueError, match=message):
        recorded(values, mask)
    mask[2, 7] = False
    assert np.isfinite(recorded(values, mask)(jax.random.key(0)).entries).all()
