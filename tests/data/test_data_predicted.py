"""Predictions of the values from elsewhere, by ids."""

import numpy as np
import pytest

from smc_jax.data.predicted import read_predicted_cells, read_prediction
from smc_jax.data.ratings import DataError

ROWS, COLUMNS = np.array(["a", "b"]), np.array([7, 8, 9])
EXPECTED = [[1.5, np.nan, np.nan], [np.nan, -2.0, np.nan]]


@pytest.mark.parametrize(
    "text",
    [
        "drug,target,score\na,7,1.5\nb,8,-2\nz,8,3\na,9,NA\n",
        "target,drug,score\n7,a,1.5\n8,b,-2\n8,z,3\n9,a,NA\n",
        "id,7,8,6\na,1.5,,1\nb,,-2,1\nz,5,5,5\n",
        ";a;b;z\n7;1.5;;2\n8;;-2;2\n",
    ],
    ids=["long", "columns first", "matrix", "turned matrix"],
)
def test_cells_are_found_by_id(tmp_path, text):
    (tmp_path / "scores.csv").write_text(text)
    np.testing.assert_array_equal(read_prediction(tmp_path / "scores.csv", ROWS, COLUMNS), EXPECTED)


def test_cells_of_other_ids_can_be_had_too(tmp_path):
    """They turn as the others do; a line or a column of blanks is left out."""
    (tmp_path / "scores.csv").write_text(";a;b;z;\n7;1.5;;2;\n8;;-2;;\n6;;4;5;NA\n;;;;\n")
    found = read_predicted_cells(tmp_path / "scores.csv", ROWS, COLUMNS)
    cells = zip(found.rows, found.columns, found.values.tolist(), strict=True)
    assert sorted(cells) == [
        *(("a", "7", 1.5), ("b", "6", 4.0), ("b", "8", -2.0), ("z", "6", 5.0), ("z", "7", 2.0)),
    ]
    with pytest.raises(DataError, match="no rows and columns yet"):
        read_predicted_cells(tmp_path / "scores.csv", [], COLUMNS)


@pytest.mark.parametrize(
    "text",
    ["id,0,1,2\n0,1,3,5\n1,2,4,6\n", "id,0,1\n0,1,2\n1,3,4\n2,5,6\n"],
    ids=["as is", "turned"],
)
def test_numbers_are_ids_of_the_side_where_more_of_them_fit(tmp_path, text):
    (tmp_path / "scores.csv").write_text(text)
    found = read_prediction(tmp_path / "scores.csv", range(2), range(3))
    np.testing.assert_array_equal(found, [[1, 3, 5], [2, 4, 6]])
    with pytest.raises(DataError, match="line 1: its ids are those of rows and of columns alike"):
        read_prediction(tmp_path / "scores.csv", range(3), range(3))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("drug,target,score\na,7,high\n", "line 2: 'high' is not a finite number"),
        ("drug,target,score\na,7,1e31\n", "line 2: '1e31' is too large"),
        ("drug,target,score\na,7,1\na,7,2\n", "line 3: the entry has a prediction already"),
        ("drug,target,score\nx,7,1\n", "predicts no entry of the matrix"),
        ("drug,target,score,more\na,7,1,1\n", "line 1: neither ids of the matrix"),
        ("drug,target,score\na,7\n", "line 2: 2 columns, not 3"),
        ("id,7,8\na,1\n", "line 2: 2 columns, not 3"),
        ("id,7,7\na,1,1\n", "line 1: an id occurs twice"),
        ("drug,target,score\na,7,1\n,8,2\n", "line 3: an id is empty"),
        ("drug,target,score\na,7,1\nb,,2\n", "line 3: an id is empty"),
        ("id,7,8\na,1,2\n,3,4\n", "line 3: an id is empty"),
        ("id,7,\na,1,2\n", "line 2: an id is empty"),
        ("drug,target,score\n", "line 1: no line follows the first one"),
    ],
)
def test_what_is_no_prediction_is_refused(tmp_path, text, told):
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(DataError, match=told):
        read_prediction(tmp_path / "scores.csv", ROWS, COLUMNS)
    with pytest.raises(DataError, match=told):
        read_predicted_cells(tmp_path / "scores.csv", ROWS, COLUMNS)


NUMBERS = [(0, 1, 3.0), (1, 0, 5.0), (1, 2, 4.0)]  # ids of rows and of columns alike


@pytest.mark.parametrize(
    ("head", "turned"),
    [
        ("row,column,prediction", False),
        ("column,row,prediction", True),
        ("Drug,target,score", False),
        ("target,DRUG,score", True),
        ("target,compound,score", True),
        ("compound,drug,score", True),
        ("compound,target,score", False),
    ],
)
def test_the_first_line_says_which_side_comes_first(tmp_path, head, turned):
    """Also where the other way round as many entries, or more, would be found."""
    lines = [f"{one},{other},{value}" for one, other, value in NUMBERS]
    (tmp_path / "scores.csv").write_text("\n".join([head, *lines]) + "\n")
    expected = np.full((3, 3), np.nan)
    for one, other, value in NUMBERS:
        expected[(other, one) if turned else (one, other)] = value
    given = tmp_path / "scores.csv", range(3), range(3)
    np.testing.assert_array_equal(read_prediction(*given, names=("drug", "target")), expected)
    found = read_predicted_cells(*given, names=("drug", "target"))
    pair = ("1", "0") if turned else ("0", "1")
    assert (found.rows[0], found.columns[0]) == pair


def test_a_matrix_is_what_its_first_cell_says(tmp_path):
    (tmp_path / "scores.csv").write_text("target,0,1\n0,1,2\n1,3,4\n")
    found = read_prediction(tmp_path / "scores.csv", range(2), range(2), names=("drug", "target"))
    np.testing.assert_array_equal(found, [[1, 3], [2, 4]])


@pytest.mark.parametrize("head", ["compound,protein,score", "row,row,score"])
def test_numbers_without_names_are_not_guessed(tmp_path, head):
    (tmp_path / "scores.csv").write_text(f"{head}\n0,1,3\n1,2,4\n")
    with pytest.raises(DataError, match=r"line 1: its ids are .* alike; .* row,column,prediction$"):
        read_prediction(tmp_path / "scores.csv", range(3), range(3))
