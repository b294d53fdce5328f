"""Looks that grow, against a dense matrix that is told the same."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.growing import Growing, Unseen
from smc_jax.looks import Looks
from smc_jax.observations import Observations

ROWS, COLUMNS = 5, 7


def test_what_was_added_is_seen_beside_what_was_filled():
    row, column, value = np.array([0, 3, 3]), np.array([6, 1, 2]), np.array([1.0, -2.0, 0.5])
    looks = Looks.of(row, column, value, rows=ROWS, columns=COLUMNS, groups=3, width=4)
    values, mask = np.zeros((ROWS, COLUMNS)), np.zeros((ROWS, COLUMNS), bool)
    values[row, column], mask[row, column] = value, True
    told = Observations.from_matrix(values, mask)
    data = Growing.of(looks, 3)
    answers = [(2, 1, 4.0, True), (4, 4, 9.0, False), (0, 0, 3.0, True)]
    for d, n, y, seen in answers:
        data = data.add(d, n, y, jnp.asarray(seen))
        told = told.add(d, n, y, float(seen))
    some = jnp.array([1, 0, 4, 6])
    for own, other in zip(data.at_columns(some)[:3], told.at_columns(some)[:3], strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6)
    scaled, expected = data.relative_to(1.5, 2.0), told.relative_to(1.5, 2.0)
    chex.assert_trees_all_close(scaled.at_columns(some), expected.at_columns(some), atol=1e-6)
    offer = Unseen(data)
    for d in range(ROWS):
        for n in range(COLUMNS):
            is_open = offer.is_open(jnp.asarray(d), jnp.asarray(n))
            assert is_open == (told.counts[d, n] == 0)
    for outside in ((-1, 0), (0, -1), (ROWS, 0), (0, COLUMNS)):
        assert not offer.is_open(*map(jnp.asarray, outside))
    np.testing.assert_array_equal(data.answers(), [[2, 0], [1, 0], [4.0, 3.0]])


def test_more_answers_than_there_is_room_for_are_refused():
    looks = Looks.of([0], [0], [1.0], rows=ROWS, columns=COLUMNS)
    data = Growing.of(looks, 1)
    for n in (1, 2):
        data = data.add(1, n, 2.0, jnp.asarray(True))
    with pytest.raises(ValueError, match=r"^room: there are 2 answers"):
        data.answers()
