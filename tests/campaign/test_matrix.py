"""The matrix that a log stands for, against a loop over the log; units there and back."""

import jax
import numpy as np
import pytest

from smc_jax.campaign.log import Log
from smc_jax.campaign.matrix import Units, matrix_of, units_of

SIZES = {"wide": (3, 7), "tall": (7, 3), "square": (4, 4), "one row": (1, 5), "one column": (5, 1)}


def make_log(shape, *, values=12, centre=10.0, seed=0):
    """A log of random values with repeats, and a few entries of every other kind."""
    rng = np.random.default_rng(seed)

    def entries(number):
        return tuple(rng.integers(0, side, number).astype(np.int32) for side in shape)

    row, column = entries(values)
    pending, failed, closed = entries(2), entries(2), entries(1)
    return Log(
        position=9,
        row_ids=[f"r{i}" for i in range(shape[0])],
        column_ids=[f"c{i}" for i in range(shape[1])],
        row=row,
        column=column,
        value=centre + rng.normal(size=values) * 3.0,
        time=np.arange(values, dtype=float),
        asked=np.zeros(values, bool),
        pending_row=pending[0],
        pending_column=pending[1],
        failed_row=failed[0],
        failed_column=failed[1],
        closed_rows=rng.random(shape[0]) < 0.2,
        closed_columns=rng.random(shape[1]) < 0.2,
        closed_row=closed[0],
        closed_column=closed[1],
        last_suggestions=[],
        open_asks=[],
        next_expiry=np.inf,
    )


def by_loop(log, maximise, retry_failed):
    """For each entry its values in units of their spread, and whether it may be asked."""
    shape = len(log.row_ids), len(log.column_ids)
    told = {(i, j): [] for i in range(shape[0]) for j in range(shape[1])}
    centre, scale = np.mean(log.value), np.std(log.value)
    for row, column, value in zip(log.row, log.column, log.value, strict=True):
        told[row, column].append((value - centre) / scale * (1 if maximise else -1))
    pending = set(zip(log.pending_row.tolist(), log.pending_column.tolist(), strict=True))
    blocked = set(zip(log.closed_row.tolist(), log.closed_column.tolist(), strict=True))
    if not retry_failed:
        blocked |= set(zip(log.failed_row.tolist(), log.failed_column.tolist(), strict=True))
    blocked |= {(i, j) for i, j in told if log.closed_rows[i] or log.closed_columns[j]}
    return told, pending, blocked


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("retry_failed", [False, True])
@pytest.mark.parametrize("maximise", [True, False], ids=["max", "min"])
@pytest.mark.parametrize("size", SIZES)
def test_a_matrix_has_what_a_loop_over_the_log_finds(size, maximise, retry_failed):
    log = make_log(SIZES[size], seed=len(size))
    matrix = matrix_of(log, maximise=maximise, retry_failed=retry_failed)
    told, pending, blocked = by_loop(log, maximise, retry_failed)
    assert matrix.transposed == (SIZES[size][0] > SIZES[size][1])
    assert matrix.data.rows <= matrix.data.columns
    data = (matrix.data.counts, matrix.data.sums, matrix.data.scatter)
    counts, sums, scatter = (matrix.turned(np.asarray(x)) for x in data)
    assert max(map(len, told.values())) > 1  # there are repeats
    for (i, j), values in told.items():
        place = matrix.place(i, j)
        assert matrix.place(*place) == (i, j)
        assert counts[i, j] == len(values)
        np.testing.assert_allclose(sums[i, j], sum(values), atol=1e-12)
        spread = len(values) * np.var(values) if values else 0.0
        np.testing.assert_allclose(scatter[i, j], spread, atol=1e-12)
        assert matrix.known[place] == bool(values)
        assert matrix.pending[place] == ((i, j) in pending)
        assert matrix.blocked[place] == ((i, j) in blocked)
        closed = values or (i, j) in pending or (i, j) in blocked
        assert matrix.open[place] == (not closed)
    best = max(np.mean(values) for values in told.values() if values)
    np.testing.assert_allclose(matrix.best, best, rtol=1e-12)


def test_of_an_empty_log_everything_is_open():
    log = make_log((3, 4), values=0)
    none = np.zeros(0, np.int32)
    log = log._replace(
        pending_row=none,
        pending_column=none,
        failed_row=none,
        failed_column=none,
        closed_row=none,
        closed_column=none,
        closed_rows=np.zeros(3, bool),
        closed_columns=np.zeros(4, bool),
    )
    matrix = matrix_of(log, maximise=False)
    assert matrix.open.all()
    assert matrix.best == -np.inf
    assert matrix.data.number() == 0
    assert matrix.units == Units(0.0, 1.0, -1.0)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("maximise", [True, False], ids=["max", "min"])
def test_in_other_units_and_back_it_is_the_same_matrix(maximise):
    matrix = matrix_of(make_log((7, 3)), maximise=maximise)
    other = Units(-4.0, 0.7, matrix.units.sign)
    there = matrix.in_units(other)
    log = make_log((7, 3))
    direct = np.zeros((7, 3))
    np.add.at(direct, (log.row, log.column), other.of(log.value))
    np.testing.assert_allclose(there.turned(np.asarray(there.data.sums)), direct, atol=1e-10)
    best = (np.max if maximise else np.min)(matrix.units.back(matrix.data.average())[matrix.known])
    np.testing.assert_allclose(other.back(there.best), best, rtol=1e-10)
    back = there.in_units(matrix.units)
    for before, after in zip(jax.tree.leaves(matrix), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-10)


@pytest.mark.parametrize("maximise", [True, False], ids=["max", "min"])
def test_units_go_there_and_back_and_the_better_is_the_higher(maximise):
    values = np.array([3.0, -1.0, 8.0, 2.0])
    units = units_of(values, maximise=maximise, noise=None)
    own = units.of(values)
    np.testing.assert_allclose(units.back(own), values)
    np.testing.assert_allclose([own.mean(), own.std()], [0.0, 1.0], atol=1e-12)
    assert np.argmax(own) == (2 if maximise else 1)


@pytest.mark.parametrize("spread", [0.01, 0.4, 1.0, 5.0, 300.0])
def test_with_a_known_noise_the_scale_is_the_noise_times_a_power_of_two(spread):
    """It does not depend on the last digits of the values, and leaves a spread of about 1."""
    values = 50.0 + spread * np.array([-1.0, 1.0])
    scales = {units_of(factor * values, maximise=True, noise=0.3).scale for factor in (1.0, 1.001)}
    assert len(scales) == 1
    power = np.log2(scales.pop() / 0.3)
    assert power == round(power) >= 0
    own = spread / (0.3 * 2.0**power)
    assert own <= 2**0.5
    assert own >= 2**-0.5 or power == 0


@pytest.mark.parametrize("centre", [0.0, 1e6, -1e9])
@pytest.mark.parametrize("spread", [1e-3, 1.0])
def test_values_far_from_zero_have_the_units_of_their_spread(centre, spread):
    """A frequency of 1 GHz to the mHz: the model still sees values of spread 1, in float32."""
    rng = np.random.default_rng(0)
    log = make_log((3, 7))._replace(value=centre + spread * rng.normal(size=12))
    matrix = matrix_of(log, maximise=True)
    np.testing.assert_allclose(matrix.units.scale, log.value.std(), rtol=1e-9)
    own = np.asarray(matrix.data.sums)[matrix.known].sum()
    assert abs(own) < 0.01  # the rounding of what was told
    assert 0.5 < float(matrix.data.variance()) < 1.5


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-20])
def test_values_that_are_all_alike_have_the_units_they_came_in(value):
    assert units_of(np.full(7, value), maximise=True, noise=None).scale == 1.0
