"""Tables of closures and of costs, by id."""

import numpy as np
import pytest

from smc_jax.data.offered import read_calendar, read_costs
from smc_jax.data.ratings import DataError

ROWS, COLUMNS = ["a", "b"], [7, 8, 9]
COSTS = {
    "row": ("row,cost\nb,2\na,1.5\nz,9\n", [[1.5], [2.0]]),
    "column": ("Column,Cost\n9,3\n7,1\n8,2\n", [[1.0, 2.0, 3.0]]),
    "entry": (
        "row,column,cost\n"
        + "".join(f"{r},{c},{i + 1}\n" for i, r in enumerate("ab") for c in (9, 8, 7)),
        [[1.0] * 3, [2.0] * 3],
    ),
    "matrix": ("id,9,7,8,x\nb,6,4,5,1\na,3,1,2,1\n", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "turned": ("id,b,a\n7,4,1\n8,5,2\n9,6,3\n", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "tabs": ("row\tcost\nb\t2\n\t\na\t1.5\n", [[1.5], [2.0]]),
    "semicolons": ("id;9;7;8\nb;6;4;5\na;3;1;2\n;;;\n", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
}


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "told.csv"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("kind", COSTS)
def test_costs_are_found_by_id(written, kind):
    text, expected = COSTS[kind]
    np.testing.assert_array_equal(read_costs(written(text), ROWS, COLUMNS), expected)


PARTIAL = {  # without the row b, the column 9, or the entry (b, 9)
    "row": ("drug,cost\na,1.5\n", [[True] * 3, [False] * 3]),
    "column": ("target,cost\n7,1\n8,2\n", [[True, True, False]] * 2),
    "entry": (
        "Drug,target,cost\na,7,1\na,8,1\na,9,1\nb,7,2\nb,8,2\n",
        [[True] * 3, [True, True, False]],
    ),
    "matrix": ("id,9,7,8\nb,,4,5\na,3,1,2\n", [[True] * 3, [True, True, False]]),
}


@pytest.mark.parametrize("kind", PARTIAL)
def test_only_the_costs_that_are_needed_must_be_there(written, kind):
    """Also where the first line calls rows and columns as the campaign does."""
    text, needed = PARTIAL[kind]
    path, needed, names = written(text), np.array(needed), ("Drug", "target")
    found = read_costs(path, ROWS, COLUMNS, needed=needed, names=names)
    whole, expected = (np.broadcast_to(x, (2, 3)) for x in (found, COSTS[kind][1]))
    np.testing.assert_array_equal(whole[needed], expected[needed])
    with pytest.raises(DataError, match="no cost of"):
        read_costs(path, ROWS, COLUMNS, names=names)


@pytest.mark.parametrize(("corner", "turned"), [("drug", False), ("Target", True), ("row", False)])
def test_a_matrix_of_costs_is_what_its_first_cell_says(written, corner, turned):
    """Ids of rows and of columns may be the same; where nobody says it, it is not guessed."""
    table, names = np.array([[1.0, 2.0], [3.0, 4.0]]), ("drug", "target")
    path = written(f"{corner},0,1\n0,1,2\n1,3,4\n")
    found = read_costs(path, [0, 1], [0, 1], names=names)
    np.testing.assert_array_equal(found, table.T if turned else table)
    path = written("id,0,1\n0,1,2\n1,3,4\n")
    with pytest.raises(DataError, match=r"line 1: its ids are .* alike; .* row,column,cost$"):
        read_costs(path, [0, 1], [0, 1], names=names)
    # An id that only one side has tells which way round it lies.
    path = written("id,0,1\n0,1,2\n1,3,4\n2,5,6\n")
    found = read_costs(path, [0, 1], [0, 1, 2], names=names)
    np.testing.assert_array_equal(found, [[1, 3, 5], [2, 4, 6]])


def test_costs_of_a_matrix_are_as_precise_as_those_of_a_table(written):
    path = written("id,7,8,9\na,0.1,16777217,3\nb,1,1,1\n")
    assert read_costs(path, ROWS, COLUMNS)[0, :2].tolist() == [0.1, 16777217.0]


def test_a_calendar_is_found_by_id(written):
    text = "row,column,first,last\nb,,0,4\n,9,2,2\na,7,1,3\n,,5,5\nz,7,0,1\n"
    found = read_calendar(written(text), ROWS, COLUMNS)
    assert found == [(1, None, 0, 4), (None, 2, 2, 2), (0, 0, 1, 3), (None, None, 5, 5)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("row,cost\na,1\n", r"no cost of row b, and of 1 in all$"),
        ("row,cost\na,1\nb,0\n", r"line 3: a cost must be positive, got 0$"),
        ("row,cost\na,1\nb,1e-300\n", "line 3: a cost must be a number of 32 bits"),
        ("row,cost\na,1\na,2\n", r"line 3: a has a cost already$"),
        ("row,cost\na,x\n", r"line 2: 'x' is not a finite number$"),
        ("row,cost\na\n", r"line 2: 1 columns, not 2$"),
        ("name,cost\na,1\n", r"the first line must be row,cost or column,cost or"),
        ("id,7,8\na,1,2\nb,1,2\n", r"no matrix of costs with every id of the rows and columns"),
        ("id,7,8,9\na,1,2,\nb,1,2,3\n", r"no cost of row a, column 9, and of 1 in all$"),
        ("row,cost\n", r"no line follows the first one$"),
    ],
)
def test_costs_that_cannot_be_read_are_named(written, text, told):
    with pytest.raises(DataError, match=told) as error:
        read_costs(written(text), ROWS, COLUMNS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("row,column,from,to\na,7,0,1\n", r"the first line must be row,column,first,last$"),
        ("row,column,first,last\na,7,3,1\n", r"line 2: the last pick is before the first$"),
        ("row,column,first,last\na,7,-1,1\n", r"line 2: '-1' is not the number of a pick"),
        ("row,column,first,last\nz,7,0,1\n", r"no line is of the ids of the matrix, such as a$"),
    ],
)
def test_calendars_that_cannot_be_read_are_named(written, text, told):
    with pytest.raises(DataError, match=told):
        read_calendar(written(text), ROWS, COLUMNS)
