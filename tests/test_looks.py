"""Lists of looks against dense observations of the same values."""

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from listing import COLUMNS, ROWS, SHAPES, listed

from smc_jax.looks import Looks
from smc_jax.observations import Observations
from smc_jax.tiles import Tiles

RANK = 3
RNG = np.random.default_rng(0)
# Plain NumPy, so that a test has them in the precision that it is in.
W, X = RNG.normal(size=(ROWS, RANK)), RNG.normal(size=(RANK, COLUMNS))
CENTRE, OFFSETS = RNG.normal(size=ROWS), RNG.normal(size=COLUMNS)
VARIANCE = RNG.uniform(0.5, 2.0, COLUMNS)
TRIANGLES = RNG.normal(size=(RANK * (RANK + 1) // 2, COLUMNS))
SOME = np.array([4, 0, 4, 5, 2], np.int32)


class Given(NamedTuple):
    """The arrays that methods are given."""

    w: Array
    x: Array
    centre: Array
    offsets: Array
    variance: Array
    triangles: Array

    @classmethod
    def now(cls):
        return cls(*map(jnp.asarray, (W, X, CENTRE, OFFSETS, VARIANCE, TRIANGLES)))


by_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def stored(observations):
    dense = observations if isinstance(observations, Observations) else observations.dense()
    return tuple(jax.tree.leaves(dense))


def pulled(o, g):
    """Squares and gradients, by way of blocks as the likelihood takes them."""
    own = {"latents": g.x, "covariance": g.triangles, "variance": g.variance}

    def one(seen, **own):
        found = seen.slopes(g.w, g.centre, **own)
        return found.of_rows, found.squares

    of_rows, squares = o.over_columns(one, own, width=4)
    return o.row_slopes(g.w, of_rows), squares


def centred(left, rows):
    """With as many rows of either as are given, None for all."""

    def found(o, g):
        known = {"rows": g.centre[:rows], "columns": g.offsets, "scale": g.variance}
        return stored(o.less(g.w[:left], g.x.T, **known))

    return found


METHODS = {
    "number": lambda o, g: o.number(),
    "mean": lambda o, g: o.mean(),
    "variance": lambda o, g: o.variance(),
    "units": lambda o, g: o.units(),
    "by_row": lambda o, g: o.by_row(),
    "by_column": lambda o, g: o.by_column(),
    "above": lambda o, g: o.above(g.centre),
    "error_about": lambda o, g: o.error_about(g.centre),
    "relative_to": lambda o, g: stored(o.relative_to(1.5, 2.5)),
    "tempered": lambda o, g: stored(o.tempered(0.25)),
    "less": centred(None, None),
    "less, rows alike": centred(1, 1),
    "less, rows alike but for one number": centred(1, None),
    "transposed": lambda o, g: stored(o.transposed()),
    "column": lambda o, g: stored(o.column(jnp.asarray(2))),
    "at_columns": lambda o, g: stored(o.at_columns(jnp.asarray(SOME))),
    "dense": lambda o, g: stored(o.dense()),
    "entry": lambda o, g: [o.entry(d, n) for d, n in ((0, 2), (3, 3), (ROWS - 1, 0))],
    "gram": lambda o, g: (o.gram(g.w, g.variance), o.gram(g.w, 2.0)),
    "field": lambda o, g: (o.field(g.w, g.centre, g.variance), o.field(g.w, g.centre, 2.0)),
    "misfit": lambda o, g: tuple(o.misfit(g.w, g.centre, g.x)),
    "slopes": pulled,
    "counts_refusals": lambda o, g: (o.counts_refusals, o.of_values().counts_refusals),
}


@by_shape
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("x64")
def test_a_method_says_what_it_says_of_dense_observations(name, weights, shape):
    (looks, dense), given = listed(weights=weights, **shape), Given.now()
    found, wanted = jax.jit(METHODS[name])(looks, given), METHODS[name](dense, given)
    chex.assert_trees_all_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_in_float32_it_differs_by_rounding(name):
    (looks, dense), given = listed(weights=True, groups=4), Given.now()
    assert {x.dtype for x in (looks.count, looks.total, looks.scatter)} == {jnp.dtype("float32")}
    found, wanted = jax.jit(METHODS[name])(looks, given), METHODS[name](dense, given)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_every_method_of_both_kinds_is_compared():
    of_both = {name for name in vars(Looks) if name in vars(Observations)}
    compared = {name.split(",")[0] for name in METHODS} | {
        "of_values",
        "over_columns",
        "row_slopes",
        "blocks",
        "of_block",
    }
    assert {name for name in of_both if not name.startswith("_")} == compared - {"slopes"}
    for_a_fit = {name for name in vars(Tiles) if name in vars(Observations)}
    assert {name for name in for_a_fit if not name.startswith("_")} <= compared


@by_shape
def test_blocks_have_every_column_once_and_what_was_seen_of_it(shape):
    looks, dense = listed(**shape)
    for seen in (looks, dense):
        found = np.zeros(COLUMNS, int)
        for number, columns in enumerate(np.asarray(seen.blocks(2))):
            own = seen.of_block(jnp.asarray(number), jnp.asarray(columns)).dense()
            there = columns < COLUMNS
            found[columns[there]] += 1
            expected = dense.at_columns(jnp.asarray(columns[there]))
            for one, other in zip(own[:3], expected[:3], strict=True):
                np.testing.assert_allclose(np.asarray(one)[:, there], other, atol=1e-6)
                assert not np.asarray(one)[:, ~there].any()
        assert (found >= 1).all()  # the last block of dense ones overlaps
        assert seen is dense or (found == 1).all()


@by_shape
def test_every_look_has_one_slot_and_every_column_one_place(shape):
    looks, dense = listed(**shape)
    layout = looks.layout
    assert (np.asarray(looks.count) > 0).sum() == (np.asarray(dense.seen())).sum()
    members = np.asarray(layout.members).ravel()
    assert sorted(members[members < COLUMNS]) == list(range(COLUMNS))
    np.testing.assert_array_equal(members[np.asarray(layout.position)], np.arange(COLUMNS))
    assert (np.diff(np.asarray(layout.owner), axis=-1) >= 0).all()


def test_groups_have_about_equally_many_tiles():
    rng = np.random.default_rng(1)
    column = np.repeat(np.arange(400), rng.geometric(0.02, 400))
    row = rng.integers(0, 1000, column.size)
    looks = Looks.of(row, column, row, rows=1000, columns=400, groups=10, width=8, turns=False)
    taken = (np.asarray(looks.count) > 0).any(-1).sum(-1)
    assert taken.max() <= 1.05 * taken.mean()
    assert looks.layout.sizes.tiles <= 1.2 * taken.mean()


@pytest.mark.usefixtures("x64")
def test_the_groups_add_up_to_the_whole():
    """Each group once: an estimate from one at random, times their number, is unbiased."""
    looks, _ = listed(groups=5)
    parts = [looks.some_groups(jnp.asarray([g]))[0] for g in range(5)]
    centre = jnp.asarray(CENTRE)
    whole = looks.error_about(centre)
    np.testing.assert_allclose(sum(part.error_about(centre) for part in parts), whole, rtol=1e-12)
    taken = np.concatenate([looks.some_groups(jnp.asarray([g]))[1] for g in range(5)])
    assert sorted(taken[taken < COLUMNS]) == list(range(COLUMNS))


@pytest.mark.usefixtures("x64")
def test_the_moment_is_that_of_the_matrix_without_its_diagonal():
    looks, dense = listed(weights=True, groups=4)
    part = np.sqrt(np.minimum(dense.times_seen(), 1.0))
    z = part * (np.asarray(dense.average()) - CENTRE[:, None])
    matrix = z @ z.T
    wanted = (matrix - np.diag(matrix.diagonal())) @ W[:, 0]
    np.testing.assert_allclose(
        looks.moment(jnp.asarray(CENTRE), jnp.asarray(W[:, 0])), wanted, rtol=1e-10
    )


def test_more_looks_in_the_same_shapes_are_not_compiled_again():
    rng = np.random.default_rng(2)
    entry = rng.choice(200 * 300, 6300, replace=False)
    traces = []

    @jax.jit
    def program(looks):
        traces.append(looks)
        return looks.misfit(jnp.ones((200, 1)), jnp.zeros(200), jnp.ones((1, 300)))

    def some(number, like=None):
        seen = entry[:number]
        value = rng.normal(size=number)
        sides = {"rows": 200, "columns": 300}
        more = {"groups": 6} if like is None else {"like": like}
        return Looks.of(seen // 300, seen % 300, value, **sides, **more)

    looks = some(6000)
    for number in (6000, 6100, 6200, 6300):
        program(looks)
        looks = some(number, looks)
    program(looks)
    assert len(traces) == 1
    assert int(looks.number()) == 6300


def test_nothing_seen():
    looks = Looks.of([], [], [], rows=4, columns=6)
    assert looks.number() == looks.mean() == looks.variance() == 0
    chex.assert_trees_all_equal(looks.dense(), Observations.empty(4, 6))
    assert not looks.transposed().count.any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"row": [0, 4]}, "row: must lie in 0 to 3"),
        ({"row": [0.0, 1.0]}, "row: must be whole numbers"),
        ({"column": [0, -1]}, "column: must lie in 0 to 5"),
        ({"row": [[0, 1]], "column": [[0, 1]]}, "row: must be a list"),
        ({"value": [1.0, np.nan]}, "value: must be finite"),
        ({"weight": [1.0, -1.0]}, "weight: must be finite and not negative"),
    ],
)
def test_impossible_looks_are_refused(changed, message):
    given = {"row": [0, 1], "column": [0, 1], "value": [1.0, 2.0]} | changed
    with pytest.raises(ValueError, match=message):
        Looks.of(**given, rows=4, columns=6)


def test_what_needs_a_matrix_says_what_to_do():
    looks, _ = listed(turns=False)
    with pytest.raises(ValueError, match=r"average: .*use dense\(\)"):
        looks.average()
    with pytest.raises(ValueError, match=r"use less\(\)"):
        looks.relative_to(jnp.zeros(COLUMNS))
    with pytest.raises(ValueError, match="turns=True"):
        looks.transposed()
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        looks.other  # noqa: B018


def test_looks_pass_through_vmap():
    looks, g = listed(groups=4).looks, Given.now()
    twice = dataclasses.replace(looks, total=jnp.stack([looks.total, 2 * looks.total]))
    axes = jax.tree.map(lambda x: None, looks)
    axes = dataclasses.replace(axes, total=0)
    found = jax.vmap(lambda o: o.field(g.w, 0 * g.centre, g.variance), in_axes=(axes,))(twice)
    chex.assert_trees_all_close(found[1], 2 * found[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": 0}, r"^groups: must be at least 1, got 0$"),
        ({"width": -3}, r"^width: must be at least 1, got -3$"),
        ({"columns": 5}, r"^like: is of a matrix of \(4, 6\), and this one is \(4, 5\); leave"),
        ({"groups": 2}, r"^like: brings groups and width"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(settings, message):
    like = Looks.of([0], [1], [2.0], rows=4, columns=6)
    given = {"rows": 4, "columns": 6} | settings
    with pytest.raises(ValueError, match=message):
        Looks.of([0], [1], [2.0], **given, like=like if "like" in message else None)


def test_what_looks_do_not_have_is_no_attribute():
    looks = Looks.of([0], [1], [2.0], rows=4, columns=6)
    assert not hasattr(looks, "average")
    assert not hasattr(looks, "_fields")
