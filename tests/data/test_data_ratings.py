"""The container of ratings: order, ids, blocks, and pairs that occur twice."""

import numpy as np
import pytest

from smc_jax.data.ratings import DataError, from_triplets


def small():
    return from_triplets([30, 10, 30, 7], ["b", "a", "a", "b"], [3.0, 0.0, -2.5, 1.0])


def test_ids_with_gaps_are_compacted_and_kept():
    ratings = small()
    assert ratings.shape == (3, 2)
    assert ratings.row_ids.tolist() == [7, 10, 30]
    assert ratings.column_ids.tolist() == ["a", "b"]
    triplets = zip(
        ratings.row_ids[ratings.row].tolist(),
        ratings.column_ids[ratings.column].tolist(),
        ratings.value.tolist(),
        strict=True,
    )
    assert list(triplets) == [(7, "b", 1.0), (10, "a", 0.0), (30, "a", -2.5), (30, "b", 3.0)]
    assert (ratings.row.dtype, ratings.value.dtype) == (np.int32, np.float32)


def test_order_of_the_source_does_not_matter():
    rng = np.random.default_rng(0)
    pairs = np.array([(i, j) for i in range(9) for j in range(7)])[rng.permutation(63)[:40]]
    value = rng.normal(size=40)
    one = from_triplets(pairs[:, 0], pairs[:, 1], value)
    order = rng.permutation(40)
    other = from_triplets(pairs[order, 0], pairs[order, 1], value[order])
    for a, b in zip(one[:5], other[:5], strict=True):
        np.testing.assert_array_equal(a, b)


def test_dense_tells_a_zero_from_a_missing_rating():
    values, mask = small().dense()
    np.testing.assert_array_equal(values, [[0, 1], [0, 0], [-2.5, 3]])
    np.testing.assert_array_equal(mask, [[False, True], [True, False], [True, True]])


def test_counts():
    ratings = small()
    assert ratings.row_counts().tolist() == [1, 1, 2]
    assert ratings.column_counts().tolist() == [2, 2]


def test_select_is_the_block_of_the_dense_matrix():
    rng = np.random.default_rng(1)
    mask = rng.random((8, 6)) < 0.5
    row, column = np.nonzero(mask)
    ratings = from_triplets(row, column, rng.normal(size=row.size))
    rows, columns = [5, 0, 3], np.array([4, 1])
    block = ratings.select(rows, columns)
    for whole, part in zip(ratings.dense(), block.dense(), strict=True):
        np.testing.assert_array_equal(part, whole[np.ix_(rows, columns)])
    assert block.row_ids.tolist() == ratings.row_ids[rows].tolist()
    assert block.column_ids.tolist() == ratings.column_ids[columns].tolist()
    assert np.all(np.diff(block.row * 2 + block.column) > 0)
    assert ratings.select(rows=[2]).shape == (1, 6)


def test_select_keeps_rows_without_ratings():
    block = small().select(rows=[0, 1], columns=[1])
    assert block.shape == (2, 1)
    assert block.row_counts().tolist() == [1, 0]


def test_select_refuses_an_index_twice():
    with pytest.raises(ValueError, match="rows: an index occurs twice"):
        small().select(rows=[1, 1])


@pytest.mark.parametrize(("duplicates", "kept"), [("last", 5.0), ("mean", 3.0)])
def test_duplicates(duplicates, kept):
    ratings = from_triplets([1, 2, 1, 1], [1, 1, 1, 1], [1, 4, 3, 5], duplicates=duplicates)
    assert ratings.value.tolist() == [kept, 4.0]
    assert (ratings.row.tolist(), ratings.column.tolist()) == ([0, 1], [0, 0])


def test_the_last_of_many_is_the_last_in_the_source():
    ids = np.arange(3000) % 7
    ratings = from_triplets(ids, ids, np.arange(3000), duplicates="last")
    assert ratings.value.tolist() == [max(range(i, 3000, 7)) for i in range(7)]


def test_duplicates_are_an_error_unless_told():
    rows, columns = [9, 9, 1, 9, 1], ["x", "y", "x", "y", "x"]
    with pytest.raises(DataError, match=r"^rating 3: the pair 9, y was already rated at rating 1$"):
        from_triplets(rows, columns, [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match=r"duplicates: unknown 'first'; choose from error, last"):
        from_triplets(rows, columns, [1, 2, 3, 4, 5], duplicates="first")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_rating_is_finite(value):
    with pytest.raises(DataError, match=r"^rating 1: rating \S+ is not a finite number$"):
        from_triplets([1, 2], [1, 2], [0.0, value])


def test_bounds_are_inclusive():
    ratings = from_triplets([1, 2], [1, 2], [0.5, 5.0], bounds=(0.5, 5.0))
    assert ratings.bounds == (0.5, 5.0)
    with pytest.raises(DataError, match=r"^rating 1: rating 5.5 is outside 0.5 to 5$"):
        from_triplets([1, 2], [1, 2], [0.5, 5.5], bounds=(0.5, 5.0))
