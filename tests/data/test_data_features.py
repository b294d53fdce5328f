"""Features by id: numbers, categories, what is missing, and files that cannot be used."""

import gzip

import numpy as np
import pytest

from smc_jax.data.features import features_of_parts, read_features
from smc_jax.data.ratings import DataError

TABLE = "drug,mass,family\na,1,x\nb,3,y\nc,,x\nd,5,\nother,900,z\n"
MASS = np.array([-2.0, 0.0, 0.0, 2.0, 0.0]) / np.sqrt(8 / 3)  # c and e: not known
# Of the three ids with a family two are x: indicators minus their means, of variance 2/9 each.
IS_X = np.array([1 / 3, -2 / 3, 1 / 3, 0.0, 0.0]) / np.sqrt(4 / 9)
IDS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("kind", ["text", "gzip", "parquet"])
def test_numbers_are_standardised_and_categories_counted_as_one_number(tmp_path, kind):
    path = tmp_path / {"text": "f.csv", "gzip": "f.csv.gz", "parquet": "f.parquet"}[kind]
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        columns = {
            "drug": ["a", "b", "c", "d", "other"],
            "mass": [1.0, 3.0, None, 5.0, 900.0],
            "family": ["x", "y", "x", None, "z"],
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    else:
        path.write_bytes(gzip.compress(TABLE.encode()) if kind == "gzip" else TABLE.encode())
    read = read_features(path, np.array(IDS, object))
    assert (read.found, read.numbers, read.categories) == (4, ["mass"], ["family"])
    found = read.matrix
    np.testing.assert_allclose(found, np.column_stack([MASS, IS_X, -IS_X]), atol=1e-12)
    known = found[:3, 1:]
    np.testing.assert_allclose((known**2).mean(0).sum(), 1.0)
    turned = read_features(path, IDS[::-1]).matrix
    np.testing.assert_allclose(turned, found[::-1], atol=1e-12)


def test_ids_that_are_numbers_are_found_by_their_text(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("user,age\n7,1\n12,3\n")
    np.testing.assert_allclose(read_features(path, np.array([12, 7])).matrix, [[1.0], [-1.0]])


def test_a_column_that_never_varies_is_zero(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("id,same,word,none\na,0.1,u,\nb,0.1,u,\nc,0.1,u,\n")
    assert not read_features(path, ["a", "b", "c", "d"]).matrix.any()


@pytest.mark.parametrize("mark", ["", "NA", "nan", "#N/A"])
def test_a_mark_of_a_missing_value_is_no_category(tmp_path, mark):
    path = tmp_path / "f.csv"
    path.write_text(f"id;x\na;1\nb;{mark}\nc;3\n")
    found = read_features(path, ["a", "b", "c"])
    assert found.numbers == ["x"]
    np.testing.assert_allclose(found.matrix[:, 0], [-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,x\na,1\na,2\n", "line 3: the id 'a' occurs twice"),
        ("id,x\n,1\n", "line 2: an id is empty"),
        ("id,x\na,1,2\n", "line 2: 3 columns, not 2"),
        ("id\na\n", "line 1: no feature follows the ids"),
        ("id,x\n", "line 1: no line follows"),
        ("id,x\nq,1\n", "no line is of one of the 2 ids, such as a"),
        ("", "the file is empty"),
        ("id,x\na,3OO\nb,300\n", "column 'x': '3OO' is no number; write numbers alone"),
        ("id,x\na,1e999\n", "column 'x': '1e999' is too large a number"),
        ("id,x,x\na,1,2\n", "two columns have one name"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(tmp_path, content, told):
    path = tmp_path / "f.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=told) as error:
        read_features(path, ["a", "b"])
    assert "\n" not in str(error.value)


def test_parts_of_ids_are_categories():
    found = features_of_parts(["L1|B1", "L1|B2", "L2|B1", "L2|B2"])
    assert found.shape == (4, 4)
    half = np.array([1.0, 1.0, -1.0, -1.0]) / np.sqrt(2)
    np.testing.assert_allclose(found[:, 0], half)
    np.testing.assert_allclose(found[:, 1], -half)
    np.testing.assert_allclose(found[:, 2], half[[0, 2, 1, 3]])
    with pytest.raises(DataError, match="as many parts each"):
        features_of_parts(["L1|B1", "L2"])
