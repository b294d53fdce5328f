"""What was seen, against the list of all answers."""

import itertools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from problems import one_by_one

from smc_jax.observations import Observations
from smc_jax.seen import Entry

RNG = np.random.default_rng(0)
ROWS, COLUMNS, RANK = 4, 6, 2


class Answers(NamedTuple):
    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    shape: tuple[int, int]

    def of_entry(self, d, n):
        return self.value[(self.row == d) & (self.column == n)]

    def per_entry(self, function):
        """function(d, n, values seen of that entry), over all entries [D, N]."""
        rows, columns = self.shape
        return np.array(
            [[function(d, n, self.of_entry(d, n)) for n in range(columns)] for d in range(rows)]
        )

    def per_column(self, contribution):
        """The sum [N, ...] of one contribution an answer."""
        return np.array([contribution[self.column == n].sum(0) for n in range(self.shape[1])])

    def per_row(self, contribution):
        return np.array([contribution[self.row == d].sum(0) for d in range(self.shape[0])])


def some_answers():
    """Thirty answers, repeats among them, but none of the last column and none of row 1."""
    row = np.array([0, 2, 3])[RNG.integers(0, 3, 30)]
    column = RNG.integers(0, COLUMNS - 1, 30)
    return Answers(row, column, 2.0 + RNG.normal(size=30), (ROWS, COLUMNS))


ANSWERS = some_answers()
CENTRE = RNG.normal(size=ROWS)  # of the rows
FITTED = RNG.normal(size=(ROWS, COLUMNS))
LOADINGS, LATENTS = RNG.normal(size=(ROWS, RANK)), RNG.normal(size=(RANK, COLUMNS))
OF_COLUMNS = RNG.normal(size=(3, COLUMNS))
VARIANCE = RNG.uniform(0.5, 2.0, COLUMNS)
PAIRS = LOADINGS[:, [0, 0, 1]] * LOADINGS[:, [0, 1, 1]]  # of the upper triangle of w w'
TRIANGLES = RNG.normal(size=(3, COLUMNS))
COVARIANCES = np.moveaxis(TRIANGLES[[[0, 1], [1, 2]]], 2, 0)
SOME = np.array([4, 0, 4, 5])
HIDDEN = np.random.default_rng(1).random((ROWS, COLUMNS)) < 0.4


def observations_of(answers):
    return one_by_one(*answers.shape, answers.row, answers.column, answers.value)


def contents(observations):
    """All that is stored: how often, the mean, and the squares of each entry about it and zero."""
    average = observations.average()
    about = [observations.squared_error(centre) for centre in (average, 0.0)]
    return observations.times_seen(), average, *about


def expected_contents(answers):
    return (
        answers.per_entry(lambda d, n, values: values.size),
        answers.per_entry(lambda d, n, values: values.mean() if values.size else 0.0),
        answers.per_entry(
            lambda d, n, values: ((values - values.mean()) ** 2).sum() if values.size else 0.0
        ),
        answers.per_entry(lambda d, n, values: (values**2).sum()),
    )


def selected(answers, columns):
    """The answers of some columns, which may be named twice."""
    parts = [(np.flatnonzero(answers.column == n), new) for new, n in enumerate(columns)]
    index = np.concatenate([found for found, _ in parts])
    column = np.concatenate([np.full(found.size, new) for found, new in parts])
    return Answers(
        answers.row[index], column, answers.value[index], (answers.shape[0], len(columns))
    )


def transposed(answers):
    return Answers(answers.column, answers.row, answers.value, answers.shape[::-1])


def unseen(answers):
    """The hidden entries that were never seen."""
    return HIDDEN & (expected_contents(answers)[0] == 0)


def scaled_by_entry(answers):
    """The units of what the answers deviate from the mean of their entry."""
    left = answers.value - expected_contents(answers)[1][answers.row, answers.column]
    return left.mean(), left.std()


def residuals():
    """Of each answer, from b + W x."""
    a = ANSWERS
    return a.value - CENTRE[a.row] - (LOADINGS @ LATENTS)[a.row, a.column]


# Of each method: what it returns for the answers, and the same by plain NumPy.
METHODS = {
    "rows": (lambda o: o.rows, lambda a: ROWS),
    "columns": (lambda o: o.columns, lambda a: COLUMNS),
    "times_seen": (lambda o: o.times_seen(), lambda a: expected_contents(a)[0]),
    "seen": (lambda o: o.seen(), lambda a: expected_contents(a)[0] > 0),
    "times_refused": (lambda o: o.times_refused(), lambda a: np.zeros(a.shape)),
    "with_refusals": (
        lambda o: o.with_refusals(HIDDEN).relative_to(1.0).add(0, 0, 1.0, 1.0).times_refused(),
        lambda a: 1.0 * HIDDEN,
    ),
    "refuse": (
        lambda o: (
            contents(o.with_refusals(HIDDEN).refuse(1, 5, True)),
            o.with_refusals(HIDDEN).refuse(1, 5, True).refuse(2, 2, False).times_refused(),
            o.refuse(1, 5, True).times_refused(),
        ),
        lambda a: (
            expected_contents(a),
            HIDDEN + (np.arange(ROWS * COLUMNS).reshape(a.shape) == COLUMNS + 5),
            np.zeros(a.shape),
        ),
    ),
    "refused_at": (
        lambda o: [o.with_refusals(HIDDEN).refused_at(d, 1) for d in range(ROWS)],
        lambda a: [1.0 * HIDDEN[d, 1] for d in range(ROWS)],
    ),
    "counts_refusals": (
        lambda o: (o.counts_refusals, o.with_refusals(HIDDEN).counts_refusals),
        lambda a: (False, True),
    ),
    "of_values": (
        lambda o: (
            contents(o.with_refusals(HIDDEN).of_values()),
            o.with_refusals(HIDDEN).of_values().times_refused(),
        ),
        lambda a: (expected_contents(a), np.zeros(a.shape)),
    ),
    "tempered": (
        lambda o: contents(o.tempered(0.25)),
        lambda a: tuple(map(np.multiply, expected_contents(a), (0.25, 1.0, 0.25, 0.25))),
    ),
    "beside": (
        lambda o: contents(o.with_refusals(HIDDEN).beside(o.at_columns(SOME))),
        lambda a: tuple(
            np.concatenate(both, axis=1)
            for both in zip(expected_contents(a), expected_contents(selected(a, SOME)), strict=True)
        ),
    ),
    "at_rows": (
        lambda o: contents(o.at_rows(jnp.asarray([1, -1, 0])).transposed()),
        lambda a: tuple(
            x * np.array([1, 0, 1]) for x in expected_contents(selected(transposed(a), [1, 1, 0]))
        ),
    ),
    "average": (lambda o: o.average(), lambda a: expected_contents(a)[1]),
    "number": (lambda o: o.number(), lambda a: a.value.size),
    "mean": (lambda o: o.mean(), lambda a: a.value.mean()),
    "variance": (lambda o: o.variance(), lambda a: a.value.var()),
    "units": (
        lambda o: (o.units(), o.relative_to(o.average()).units()),
        lambda a: ((a.value.mean(), a.value.std()), scaled_by_entry(a)),
    ),
    "by_row": (
        lambda o: o.by_row(),
        lambda a: (a.per_row(np.ones(a.value.size)), a.per_row(a.value)),
    ),
    "by_column": (lambda o: o.by_column(), lambda a: a.per_column(np.ones(a.value.size))),
    "above": (
        lambda o: o.above(jnp.asarray(CENTRE)),
        lambda a: a.per_column(a.value - CENTRE[a.row]),
    ),
    "squared_error": (
        lambda o: (o.squared_error(FITTED), o.squared_error(1.5)),
        lambda a: (
            a.per_entry(lambda d, n, values: ((values - FITTED[d, n]) ** 2).sum()),
            a.per_entry(lambda d, n, values: ((values - 1.5) ** 2).sum()),
        ),
    ),
    "relative_to": (
        lambda o: [contents(o.relative_to(by, 2.5)) for by in (1.5, CENTRE[:, None], FITTED)],
        lambda a: [
            expected_contents(a._replace(value=(a.value - by) / 2.5))
            for by in (1.5, CENTRE[a.row], FITTED[a.row, a.column])
        ],
    ),
    "add": (
        lambda o: contents(o.add(1, 5, 9.0, 1.0).add(0, 0, 3.0, 1.0).add(2, 4, 1.5, 3.0)),
        lambda a: expected_contents(
            Answers(
                np.append(a.row, [1, 0, 2, 2, 2]),
                np.append(a.column, [5, 0, 4, 4, 4]),
                np.append(a.value, [9.0, 3.0, 1.5, 1.5, 1.5]),
                a.shape,
            )
        ),
    ),
    "counting": (
        lambda o: contents(o.counting(HIDDEN)),
        lambda a: expected_contents(  # at the mean of what was seen, 0 where there is nothing
            Answers(
                np.append(a.row, np.nonzero(HIDDEN)[0]),
                np.append(a.column, np.nonzero(HIDDEN)[1]),
                np.append(a.value, expected_contents(a)[1][HIDDEN]),
                a.shape,
            )
        ),
    ),
    "filled": (
        lambda o: contents(o.filled(FITTED, 1.0 * HIDDEN)),
        lambda a: expected_contents(  # what was never seen alone
            Answers(
                np.append(a.row, np.nonzero(unseen(a))[0]),
                np.append(a.column, np.nonzero(unseen(a))[1]),
                np.append(a.value, FITTED[unseen(a)]),
                a.shape,
            )
        ),
    ),
    "without": (
        lambda o: contents(o.without(HIDDEN)),
        lambda a: expected_contents(
            Answers(*(x[~HIDDEN[a.row, a.column]] for x in a[:3]), a.shape)
        ),
    ),
    "column": (
        lambda o: [contents(o.column(n)) for n in range(COLUMNS)],
        lambda a: [expected_contents(selected(a, [n])) for n in range(COLUMNS)],
    ),
    "row": (
        lambda o: [contents(o.row(d).transposed()) for d in range(ROWS)],
        lambda a: [expected_contents(selected(transposed(a), [d])) for d in range(ROWS)],
    ),
    "at_columns": (
        lambda o: contents(o.at_columns(SOME)),
        lambda a: expected_contents(selected(a, SOME)),
    ),
    "transposed": (
        lambda o: contents(o.transposed()),
        lambda a: expected_contents(transposed(a)),
    ),
    "entry": (
        lambda o: [o.entry(d, n) for d, n in itertools.product(range(ROWS), range(COLUMNS))],
        lambda a: [
            Entry(values.size, values.mean() if values.size else 0.0)
            for d, n in itertools.product(range(ROWS), range(COLUMNS))
            for values in [a.of_entry(d, n)]
        ],
    ),
    "sum_over_columns": (
        lambda o: (o.sum_over_columns(OF_COLUMNS, VARIANCE), o.sum_over_columns(OF_COLUMNS, 2.0)),
        lambda a: (
            a.per_row((OF_COLUMNS / VARIANCE).T[a.column]),
            a.per_row(OF_COLUMNS.T[a.column] / 2.0),
        ),
    ),
    "field": (
        lambda o: o.field(LOADINGS, CENTRE, VARIANCE),
        lambda a: (
            a.per_column(
                LOADINGS[a.row] * ((a.value - CENTRE[a.row]) / VARIANCE[a.column])[:, None]
            ).T
        ),
    ),
    "misfit": (
        lambda o: tuple(o.misfit(LOADINGS, CENTRE, LATENTS)),
        lambda a: (a.per_column(residuals()), a.per_column(residuals() ** 2)),
    ),
    "residual": (
        lambda o: o.residual(LOADINGS, CENTRE, LATENTS),
        lambda a: a._replace(value=residuals()).per_entry(lambda d, n, values: values.sum()),
    ),
    "gram": (
        lambda o: o.gram(LOADINGS, VARIANCE),
        lambda a: a.per_column(PAIRS[a.row] / VARIANCE[a.column][:, None]).T,
    ),
    "slopes": (
        lambda o: o.slopes(LOADINGS, CENTRE, LATENTS, TRIANGLES, VARIANCE).squares,
        lambda a: a.per_column(residuals() ** 2),
    ),
    "row_slopes": (
        lambda o: o.row_slopes(
            LOADINGS, o.slopes(LOADINGS, CENTRE, LATENTS, TRIANGLES, VARIANCE).of_rows
        ),
        lambda a: (
            a.per_row(
                (
                    residuals()[:, None] * LATENTS.T[a.column]
                    - np.einsum("akl,al->ak", COVARIANCES[a.column], LOADINGS[a.row])
                )
                / VARIANCE[a.column][:, None]
            ),
            a.per_row(residuals() / VARIANCE[a.column]),
        ),
    ),
    "less": (
        lambda o: [
            contents(o.less(left, LATENTS.T, rows=rows, columns=VARIANCE, scale=2.0 * VARIANCE))
            for left, rows in ((LOADINGS, CENTRE), (LOADINGS[:1], CENTRE[:1]))
        ],
        lambda a: [
            expected_contents(a._replace(value=left / (2.0 * VARIANCE)[a.column]))
            for left in (
                residuals() - VARIANCE[a.column],
                a.value - (LOADINGS[0] @ LATENTS + CENTRE[0] + VARIANCE)[a.column],
            )
        ],
    ),
    "error_about": (
        lambda o: o.error_about(CENTRE),
        lambda a: ((a.value - CENTRE[a.row]) ** 2).sum(),
    ),
    "over_columns": (
        lambda o: [
            o.over_columns(
                lambda seen, variance: (
                    seen.number(),
                    seen.misfit(LOADINGS, CENTRE, jnp.zeros((RANK, seen.columns))).total * variance,
                ),
                {"variance": jnp.asarray(VARIANCE)},
                width=width,
            )
            for width in (None, 4)
        ],
        lambda a: [
            (a.value.size, a.per_column(a.value - CENTRE[a.row]) * VARIANCE) for _ in range(2)
        ],
    ),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("x64")
def test_a_method_says_what_the_answers_say(name):
    found, expected = METHODS[name]
    made = observations_of(ANSWERS)
    close = {"rtol": 1e-10, "atol": 1e-10}
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, **close), found(made), expected(ANSWERS)
    )
    traced = jax.jit(found)(made)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **close), traced, expected(ANSWERS))


def test_every_method_is_compared():
    made_by = {"empty", "from_matrix"}
    stored = set(Observations._fields)
    own = {name for name in vars(Observations) if not name.startswith("_")}
    of_blocks = {"blocks", "of_block", "dense"}  # compared in test_looks.py
    assert own - stored - made_by - of_blocks == set(METHODS)


def test_there_are_repeats_and_entries_and_columns_without_an_answer():
    times = expected_contents(ANSWERS)[0]
    assert times.max() > 1
    assert (times == 0).any()
    assert (times.sum(0) == 0).any()
    assert (times.sum(1) == 0).any()


def test_nothing_seen():
    nothing = Observations.empty(ROWS, COLUMNS)
    assert (nothing.rows, nothing.columns) == (ROWS, COLUMNS)
    assert nothing.number() == nothing.mean() == nothing.variance() == 0
    assert nothing.entry(1, 2) == Entry(0, 0)
    chex.assert_trees_all_equal(contents(nothing), 4 * (jnp.zeros((ROWS, COLUMNS)),))
    misfit = nothing.misfit(LOADINGS, CENTRE, LATENTS)
    assert not misfit.total.any()
    assert not misfit.squares.any()


def test_a_matrix_is_every_entry_under_the_mask_seen_once():
    values = jnp.asarray([[1.0, jnp.nan], [3.0, 4.0]])
    built = Observations.from_matrix(values, jnp.asarray([[True, False], [True, True]]))
    added = Observations.empty(2, 2)
    for row, column, value, weight in [(0, 0, 1, 1), (1, 0, 3, 1), (1, 1, 4, 1), (0, 1, 9, 0)]:
        added = added.add(row, column, value, weight)
    chex.assert_trees_all_equal(built, added)


@pytest.mark.parametrize("precision", [jnp.float32, jnp.float64])
def test_the_precision_in_force_is_kept(precision):
    with jax.enable_x64(precision == jnp.float64):
        made = [
            Observations.empty(2, 3),
            Observations.from_matrix(np.ones((2, 3), np.float32), np.ones((2, 3), bool)),
            Observations.from_matrix(np.ones((2, 3), int), np.ones((2, 3), int)),
        ]
        made += [one.add(0, 1, jnp.asarray(1.0), jnp.asarray(1.0)) for one in made]
        assert {x.dtype for x in jax.tree.leaves(made)} == {jnp.dtype(precision)}


@pytest.mark.usefixtures("x64")
def test_a_weight_of_zero_adds_nothing_and_one_of_minus_one_takes_an_answer_away():
    before = observations_of(ANSWERS)
    for row, column in itertools.product(range(ROWS), range(COLUMNS)):  # some were never seen
        chex.assert_trees_all_equal(before.add(row, column, 7.0, 0.0), before)
        back = before.add(row, column, 7.0, 1.0).add(row, column, 7.0, -1.0)
        chex.assert_trees_all_close(contents(back), contents(before), atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_answers_are_taken_away_in_any_order():
    """Of each entry the first answer is taken away first, and in the end nothing is left."""
    a, left = ANSWERS, observations_of(ANSWERS)
    for taken in range(a.value.size):
        left = left.add(a.row[taken], a.column[taken], a.value[taken], -1.0)
        rest = Answers(*(x[taken + 1 :] for x in a[:3]), a.shape)
        chex.assert_trees_all_close(contents(left), expected_contents(rest), atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_a_weight_is_how_often_a_value_was_seen():
    before, together = (observations_of(ANSWERS) for _ in range(2))
    one_at_a_time = before
    for row, column, value, weight in [(0, 0, 1.3, 4), (1, 5, -2.0, 3), (2, 4, 0.7, 2)]:
        together = together.add(row, column, value, weight)
        for _ in range(weight):
            one_at_a_time = one_at_a_time.add(row, column, value, 1.0)
        chex.assert_trees_all_close(contents(together), contents(one_at_a_time), atol=1e-12)
    for row, column, value, weight in [(1, 5, -2.0, 3), (2, 4, 0.7, 2), (0, 0, 1.3, 4)]:
        together = together.add(row, column, value, -weight)
    chex.assert_trees_all_close(contents(together), contents(before), atol=1e-12)


def test_an_entry_that_was_read_before_is_not_read_again():
    """Whatever it says of the entry is what counts."""
    data = observations_of(ANSWERS)
    for row, column in [(0, 0), (1, 5), (2, 4)]:
        before = data.entry(row, column)
        expected = data.add(row, column, 0.5, 1.0)
        chex.assert_trees_all_equal(data.add(row, column, 0.5, 1.0, before), expected)
    other = data.add(0, 0, 0.5, 1.0, Entry(jnp.asarray(3.0), jnp.asarray(2.5)))
    grown = other.squared_error(other.average()) - data.squared_error(data.average())
    np.testing.assert_allclose(grown[0, 0], 2.0**2 * 3 / 4, rtol=1e-5)


class History(NamedTuple):
    """A sequence of adds, weights below zero among them, and the dense scatter after each."""

    answers: tuple  # row, column, value and weight [T]
    scatter: np.ndarray  # [T, D, N]


def history(seed, mean, steps=300, shape=(2, 3)):
    """A value is taken away as often as it was added, or less often; others come in between."""
    rng = np.random.default_rng(seed)
    held = {}  # of (row, column, value): how often
    answers, scatter = [], []
    for _ in range(steps):
        if held and rng.uniform() < 0.4:
            key = list(held)[rng.integers(len(held))]
            weight = -int(rng.integers(0, held[key] + 1))
        else:
            value = float(np.float32(mean + rng.normal()))
            key = (int(rng.integers(shape[0])), int(rng.integers(shape[1])), value)
            weight = int(rng.integers(0, 4))
        held[key] = held.get(key, 0) + weight
        held = {one: times for one, times in held.items() if times}
        answers.append((*key, float(weight)))
        dense = np.zeros(shape)
        for row, column in np.ndindex(shape):
            seen = [
                v
                for (d, n, v), times in held.items()
                if (d, n) == (row, column)
                for _ in range(times)
            ]
            dense[row, column] = np.sum((seen - np.mean(seen)) ** 2) if seen else 0.0
        scatter.append(dense)
    return History(tuple(map(np.array, zip(*answers, strict=True))), np.array(scatter))


def scatter_after_each(answers, shape):
    """The sum of squared deviations [T, D, N] from the mean of an entry, as it is kept."""

    def add(data, answer):
        data = data.add(*answer)
        return data, data.squared_error(data.average())

    return lax.scan(add, Observations.empty(*shape), tuple(map(jnp.asarray, answers)))[1]


@pytest.mark.parametrize(
    ("precision", "mean", "error"),
    [
        (jnp.float32, 0.0, 1e-4),
        (jnp.float32, 1e3, 1e-2),
        (jnp.float32, 1e6, 5.0),  # of up to 80: values 1/16 apart, and sums of thirty of them 2
        (jnp.float64, 0.0, 1e-12),
        (jnp.float64, 1e6, 1e-6),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_scatter_never_strays_over_many_adds(seed, precision, mean, error):
    """What is taken away again leaves its rounding: errors add up, but they do not grow."""
    with jax.enable_x64(precision == jnp.float64):
        made = history(seed, mean)
        weights = made.answers[3]
        assert {-1.0, 0.0, 1.0, 3.0} <= set(weights)
        found = scatter_after_each(made.answers, made.scatter.shape[1:])
        assert found.dtype == precision
        np.testing.assert_allclose(found, made.scatter, atol=error)


def float32_answers(seed, most, *, mean, deviation):
    """Answers that float32 has, each entry seen up to `most` times, once where that is one."""
    rng = np.random.default_rng(seed)
    shape = (20, 30)
    times = rng.integers(0, most + 1, shape) if most > 1 else np.ones(shape, int)
    row, column = np.repeat(np.indices(shape).reshape(2, -1), times.ravel(), axis=1)
    order = rng.permutation(row.size)
    row, column = row[order], column[order]
    value = rng.normal(size=shape)[row, column] + rng.normal(size=row.size)
    value = np.float32(mean + deviation * value / np.sqrt(2))
    return Answers(row, column, value.astype(float), shape)


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("seed", range(5))
def test_float32_has_the_variance_of_values_far_from_zero(seed, most):
    """Mean 1e6 and deviation 1, where neighbouring numbers are 1/16 apart."""
    answers = float32_answers(seed, most, mean=1e6, deviation=1.0)
    data = observations_of(answers)
    assert {x.dtype for x in jax.tree.leaves(data)} == {jnp.dtype(jnp.float32)}
    np.testing.assert_allclose(data.variance(), answers.value.var(), rtol=0.02)


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("seed", range(5))
def test_float32_has_the_squared_errors_of_values_far_from_zero(seed, most):
    answers = float32_answers(seed, most, mean=1e6, deviation=1.0)
    data = observations_of(answers)
    fitted = np.float32(1e6 + np.random.default_rng(1).normal(size=answers.shape))
    expected = answers.per_entry(lambda d, n, values: ((values - fitted[d, n]) ** 2).sum())
    found = np.asarray(data.squared_error(fitted), float)
    assert (found >= 0).all()
    times = np.asarray(data.times_seen())
    np.testing.assert_allclose(found.sum(), expected.sum(), rtol=0.01)
    # (m + e)^2 - m^2 for a mean that is off by e.
    assert (np.abs(found - expected) <= 0.1 * times * (1 + np.sqrt(expected))).all()


def test_a_row_that_is_not_there_adds_nothing():
    """The loop counts on it: without a valid choice nothing is written."""
    before = observations_of(ANSWERS)
    chex.assert_trees_all_equal(before.add(jnp.asarray(ROWS), jnp.asarray(0), 7.0, 1.0), before)


def test_the_squares_of_a_misfit_are_never_negative():
    """All values of an entry alike, and far from zero: what is left is rounding."""
    values = jnp.linspace(1000.0, 2000.0, 50)[None]
    seen = Observations.empty(1, 50)
    for _ in range(7):
        seen = seen.add(jnp.zeros(50, int), jnp.arange(50), values[0], jnp.ones(50))
    left = seen.misfit(jnp.ones((1, 1)), jnp.zeros(1), values).squares
    rounding = jnp.finfo(left.dtype).eps * seen.squared_error(0.0)[0]
    assert (left >= 0).all()
    assert (left <= 4 * rounding).all()
