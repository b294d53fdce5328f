"""The designed start: balanced, and inside what is open."""

import numpy as np
import pytest

from smc_jax.campaign.design import designed_start


def case(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 7, 2)
    taken = rng.random(shape) < 0.2
    return rng, ~taken & (rng.random(shape) < 0.7), taken


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_is_in_a_column_and_there_in_a_row_that_was_taken_least(seed):
    """Replayed entry by entry; nothing closed, nothing twice, and no more than there is."""
    rng, is_open, taken = case(seed)
    before = is_open.copy(), taken.copy()
    number = int(rng.integers(1, is_open.size + 3))
    found = designed_start(rng, is_open, taken, number)
    np.testing.assert_array_equal((is_open, taken), before)  # what was given stays as it is
    assert len(found) == min(number, is_open.sum())
    left, taken = is_open.copy(), taken.copy()
    for row, column in found:
        assert left[row, column]
        in_column, in_row = taken.sum(0), taken.sum(1)
        assert in_column[column] == in_column[left.any(0)].min()
        assert in_row[row] == in_row[left[:, column]].min()
        left[row, column], taken[row, column] = False, True


@pytest.mark.parametrize("shape", [(4, 9), (5, 5), (1, 6), (6, 1), (8, 3)])
def test_in_an_open_matrix_rows_and_columns_are_tried_equally_often(shape):
    """Columns to within one at any number; rows too, while no column is tried twice."""
    everything = np.ones(shape, bool)
    for number in range(1, everything.size + 1):
        rng = np.random.default_rng(number)
        tried = np.zeros(shape, int)
        for entry in designed_start(rng, everything, ~everything, number):
            tried[entry] += 1
        assert tried.max() == 1
        assert np.ptp(tried.sum(0)) <= 1
        assert number > shape[1] or np.ptp(tried.sum(1)) <= 1


def test_ties_are_broken_at_random():
    """Of 30 first entries in 6 x 6, fewer than 5 different ones come about with odds of 1e-20."""
    everything = np.ones((6, 6), bool)
    first = {
        designed_start(np.random.default_rng(seed), everything, ~everything, 1)[0]
        for seed in range(30)
    }
    assert len(first) >= 5


def test_nothing_open_gives_nothing():
    nothing = np.zeros((3, 4), bool)
    assert designed_start(np.random.default_rng(0), nothing, nothing, 5) == []
