"""Matrices with ids on both sides: what is read, its order, and the place that an error names."""

import gzip
import re

import numpy as np
import pytest

from smc_jax.data.ratings import DataError
from smc_jax.data.wide import read_wide

ROWS, COLUMNS = ["r9", "r10", "a"], ["z", "7", "b c", "B"]  # in no order of letters or numbers
VALUES = np.array([[1.5, np.nan, -2.0, 0.0], [np.nan] * 4, [4.0, 5.25, np.nan, 7e-3]])
PLAIN = "id,z,7,b c,B\nr9,1.5,,-2,0\nr10,,,,\na,4,5.25,,7e-3\n"


def write(folder, content, name="matrix.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def check(ratings, rows, columns, expected):
    values, mask = ratings.dense()
    assert ratings.row_ids.tolist() == rows
    assert ratings.column_ids.tolist() == columns
    np.testing.assert_array_equal(mask, ~np.isnan(expected))
    np.testing.assert_array_equal(values[mask], expected[mask].astype(np.float32))
    assert (ratings.row.dtype, ratings.column.dtype) == (np.int32, np.int32)
    assert ratings.value.dtype == np.float32
    assert ratings.bounds is None


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.rstrip("\n"),
        PLAIN.replace("\n", "\r\n"),
        "\ufeff\n" + PLAIN.replace("\n", "\n\n"),
        PLAIN.replace("id,", ","),
        PLAIN.replace(",", " , "),
        PLAIN.replace("b c", '"b c"').replace("5.25", '"+525e-2"'),
    ],
    ids=["plain", "no last line end", "crlf", "blank lines", "no corner", "spaces", "quoted"],
)
def test_the_same_matrix_in_many_dresses(tmp_path, content):
    check(read_wide(write(tmp_path, content)), ROWS, COLUMNS, VALUES)


def test_gzip_by_content(tmp_path):
    path = write(tmp_path, gzip.compress(PLAIN.encode()), "matrix.txt")
    check(read_wide(path), ROWS, COLUMNS, VALUES)


def test_rows_and_columns_turned(tmp_path):
    ratings = read_wide(write(tmp_path, PLAIN), turned=True)
    check(ratings, COLUMNS, ROWS, VALUES.T)
    order = np.lexsort((ratings.column, ratings.row))  # as all ratings are: by row, then column
    np.testing.assert_array_equal(order, np.arange(order.size))


def test_ids_are_texts_just_as_written(tmp_path):
    ratings = read_wide(write(tmp_path, 'x,007,7,7.0,"A, B"\n東京,1,2,3,4\n10,1,2,3,4\n'))
    assert ratings.column_ids.tolist() == ["007", "7", "7.0", "A, B"]
    assert ratings.row_ids.tolist() == ["東京", "10"]


def test_other_encodings(tmp_path):
    path = write(tmp_path, "x,Amélie\na,1\n".encode("latin-1"))
    assert read_wide(path, encoding="latin-1").column_ids.tolist() == ["Amélie"]
    with pytest.raises(DataError, match=r"matrix.csv, line 1: not utf-8 text$"):
        read_wide(path)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("c,1,nan", "line 4, column 'v w': 'nan' is not a finite number"),
        ("c,-inf,1", "line 4, column 'u': '-inf' is not a finite number"),
        ("c,NA,1", "line 4, column 'u': 'NA' is not a finite number"),
        ("c,1,<5", "line 4, column 'v w': '<5' is not a finite number"),
        ("c,1,1_0", "line 4, column 'v w': '1_0' is not a finite number"),
        ("c,1e39,1", "line 4, column 'u': '1e39' is not a finite number"),  # in 32 bits it is none
        ("c,1,-1e999", "line 4, column 'v w': '-1e999' is not a finite number"),
        ("c,1", "line 4: 2 columns, not 3"),
        ("c,1,2,", "line 4: 4 columns, not 3"),
        (" ", "line 4: 1 columns, not 3"),
        (" ,1,2", "line 4: an id is empty"),
        ("a ,1,2", "line 4: the id 'a' occurs twice"),
        ('c,1,"2', "line 5: unexpected end of data"),
    ],
)
def test_errors_name_file_line_and_column(tmp_path, bad, reason):
    # The blank line must not shift the number of the bad one.
    path = write(tmp_path, f"x,u,v w\r\n\r\na,1,2\r\n{bad}\r\nd,3,4\r\n")
    with pytest.raises(DataError, match=rf"^{re.escape(f'{path}, {reason}')}$"):
        read_wide(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "line 1: the file is empty"),
        ("\r\n\n", "line 1: the file is empty"),
        ("x\na\n", "line 1: no column follows that of the ids"),
        ("x,u\n", "line 2: no row follows the header"),
        ("x,u,v\na,,\nb,, \n", "line 2: every cell is empty"),
        ("x,u,\na,1,2\n", "line 1: an id is empty"),
        ("x,u,v,u\na,1,2,3\n", "line 1: the id 'u' occurs twice"),
    ],
)
def test_files_that_hold_no_matrix(tmp_path, content, reason):
    path = write(tmp_path, content)
    with pytest.raises(DataError, match=rf"^{re.escape(f'{path}, {reason}')}$"):
        read_wide(path)
