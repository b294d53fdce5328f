"""Tables of row, column, rating: what is read, and the line that an error names."""

import gzip
import re
import sys
import zipfile

import numpy as np
import pytest

from smc_jax.data.ratings import DataError
from smc_jax.data.table import read_table


def triplets(ratings):
    rows, columns = ratings.row_ids[ratings.row], ratings.column_ids[ratings.column]
    return list(zip(rows.tolist(), columns.tolist(), ratings.value.tolist(), strict=True))


def write(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


PLAIN = [(3, 5, 4.5), (3, 900, 0.0), (70, 5, -1.25)]


@pytest.mark.parametrize(
    "content",
    [
        "3,5,4.5\n70,5,-1.25\n3,900,0\n",
        "3,5,4.5\r\n70,5,-1.25\r\n3,900,0.0\r\n",
        "3,5,4.5\n70,5,-1.25\n3,900,0",
        "\n3,5,4.5\n\n70,5,-1.25\r\n\r\n3,900,0\n\n",
        "\ufeff3,5,4.5\n70,5,-1.25\n3,900,0\n",
        "\ufeffitem,user,rating\r\n3,5,4.5\r\n70,5,-1.25\r\n3,900,0\r\n",
        "\nitem,user,rating\n\n3,5,4.5\n70,5,-1.25\n3,900,0\n",
        "3\t5\t4.5\n70\t5\t-1.25\n3\t900\t0\n",
        "3;5;4.5\n70;5;-1.25\n3;900;0\n",
        "3::5::4.5\n70::5::-1.25\n3::900::0\n",
        "3::5::4.5::a\tb\n70::5::-1.25::\n3::900::0::c\n",
        "3, 5, 4.5\n70, 5, -1.25\n3, 900, 0\n",
        '"3","5","4.5"\n"70","5","-1.25"\n"3","900","0"\n',
        "3,5,4.5,é\n70,5,-1.25,\n3,900,0,long text\n",
        "3,5,+4.5\n70,5,-125e-2\n3,900,-0\n",
    ],
)
def test_the_same_table_in_many_dresses(tmp_path, content):
    ratings = read_table(write(tmp_path, content))
    assert sorted(triplets(ratings)) == PLAIN
    assert ratings.row_ids.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ('"Film0, The, II";u0;0\n', "Film0, The, II"),
        ('"Say ""a, b, c""";u0;0\n', 'Say "a, b, c"'),
        ('"a;b;c"\tu0\t0\n', "a;b;c"),
        ('5" disc::u0 "::0\n', '5" disc'),
    ],
)
def test_a_delimiter_in_quotation_marks_is_none(tmp_path, text, identity):
    assert read_table(write(tmp_path, text)).row_ids.tolist() == [identity]


def test_gzip_by_content_and_a_member_of_a_zip(tmp_path):
    content = b"3,5,4.5\n70,5,-1.25\n3,900,0\n"
    assert triplets(read_table(write(tmp_path, gzip.compress(content), "t.txt"))) == PLAIN
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("some/folder/other.csv", b"")
        archive.writestr("some/folder/t.csv", content)
    assert triplets(read_table(tmp_path / "t.zip", member="t.csv")) == PLAIN
    with pytest.raises(DataError, match=r"t.zip: no file named u.csv in it, but some/folder/other"):
        read_table(tmp_path / "t.zip", member="u.csv")
    with pytest.raises(DataError, match=r"t.zip/some/folder/other.csv, line 1: the file is empty$"):
        read_table(tmp_path / "t.zip", member="other.csv")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("007,1,1\n7,1,2\n", ["007", "7"]),
        ("7,1,1\n007,1,2\n", ["007", "7"]),
        ("7,1,1\n+7,1,2\n", ["+7", "7"]),
        ("7,1,1\n-0,1,2\n", ["-0", "7"]),
        ("7.0,1,1\n7,1,2\n", ["7", "7.0"]),
        ("1_0,1,1\n10,1,2\n", ["10", "1_0"]),
        ("99999999999999999999,1,1\n7,1,2\n", ["7", "99999999999999999999"]),
        ('"Zürich, HB",a,1\n東京,a,2\n', ["Zürich, HB", "東京"]),
        ("-3,a,1\n5,a,2\n", [-3, 5]),
        ("10,1,1\n9,1,2\n", [9, 10]),
    ],
)
def test_ids_come_back_as_they_were(tmp_path, text, ids):
    assert read_table(write(tmp_path, text)).row_ids.tolist() == ids


def test_leading_zeros_of_both_ids_survive_where_all_are_digits(tmp_path):
    ratings = read_table(write(tmp_path, "1,01,3\n2,1,4\n"))
    assert ratings.row_ids.tolist() == [1, 2]
    assert ratings.column_ids.tolist() == ["01", "1"]


def test_columns_by_position_and_by_name(tmp_path):
    path = write(tmp_path, "when,user,item,stars\n9,1,2,3.5\n9,1,4,5\n")
    expected = [(2, 1, 3.5), (4, 1, 5.0)]
    assert triplets(read_table(path, columns=("item", "user", "stars"))) == expected
    assert triplets(read_table(path, columns=(2, 1, 3))) == expected
    with pytest.raises(DataError, match=r"line 1: no column 'score' among when, user, item, stars"):
        read_table(path, columns=("item", "user", "score"))
    with pytest.raises(DataError, match=r"line 1: 4 columns, none at position 4$"):
        read_table(path, columns=(0, 1, 4))


@pytest.mark.parametrize("delimiter", ["|", "^", "]", " ", "||"])
def test_other_delimiters(tmp_path, delimiter):
    rows = [["3", "5", "4.5"], ["70", "5", "-1.25"], ["3", "900", "0"]]
    path = write(tmp_path, "\n".join(delimiter.join(row) for row in rows))
    assert triplets(read_table(path, delimiter=delimiter)) == PLAIN
    path = write(tmp_path, "\n".join(delimiter.join(row) for row in [*rows, ["7", "01", "2"]]))
    assert read_table(path, delimiter=delimiter).column_ids.tolist() == ["01", "5", "900"]


def test_a_quoted_field_may_hold_line_ends(tmp_path):
    path = write(tmp_path, '1,2,3,"note\n4,5,6,still the note"\n7,8,9,\n7,8,9,\n')
    with pytest.raises(DataError, match=r"line 4: the pair 7, 8 was already rated at .*, line 3$"):
        read_table(path)
    assert triplets(read_table(path, duplicates="last")) == [(1, 2, 3.0), (7, 8, 9.0)]


def test_header_is_found_or_told(tmp_path):
    assert triplets(read_table(write(tmp_path, "a,b,rating\nx,y,1\n"))) == [("x", "y", 1.0)]
    path = write(tmp_path, "a,b,r2d2\nx,y,1\n")
    with pytest.raises(DataError, match=r"line 1: 'r2d2' is not a finite number$"):
        read_table(path)
    assert triplets(read_table(path, header=True)) == [("x", "y", 1.0)]
    with pytest.raises(DataError, match=r"line 1: 'rating' is not a finite number$"):
        read_table(write(tmp_path, "a,b,rating\n"), header=False)


def test_other_encodings(tmp_path):
    path = write(tmp_path, "Amélie,1,3\n".encode("latin-1"))
    assert triplets(read_table(path, encoding="latin-1")) == [("Amélie", 1, 3.0)]
    with pytest.raises(DataError, match=r"line 1: not utf-8 text$"):
        read_table(path)


@pytest.mark.parametrize("ids", ["integers", "texts"])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{},2", "2 columns, not 3"),
        ("{},2,3,4", "4 columns, not 3"),
        ("{},2,nan", "'?nan'? is not a finite number"),
        ("{},2,inf", "'?inf'? is not a finite number"),
        ("{},2,1e999", "is not a finite number"),
        ("{},2,", "'' is not a finite number"),
        ("{},2,four", "'four' is not a finite number"),
        ("{},2,1_0", "'1_0' is not a finite number"),
        ("{},2,٣", "'٣' is not a finite number"),
        ("{},2,5.5", "rating 5.5 is outside 1 to 5"),
        ("{},2,0", "rating 0 is outside 1 to 5"),
        ("{},,3", "an id is empty"),
        (" ", "1 columns, not 3"),
        ("{},1,3", r"the pair \w+, 1 was already rated at .*, line 1"),
    ],
)
def test_errors_name_file_and_line(tmp_path, ids, bad, reason):
    first, other = ("1", "8") if ids == "integers" else ("a", "b")
    # A blank line and CRLF before the bad line must not shift its number.
    text = f"{first},1,3\r\n\r\n{other},1,3\r\n{bad.format(first)}\r\n{other},7,3\r\n"
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}, line 4: .*{reason}$") as caught:
        read_table(path, bounds=(1, 5))
    assert "\n" not in str(caught.value)


def test_line_numbers_behind_a_header(tmp_path):
    path = write(tmp_path, "i,u,r\n1,1,3\n\n2,1,9\n")
    with pytest.raises(DataError, match=r"table.csv, line 4: rating 9 is outside 1 to 5$"):
        read_table(path, bounds=(1, 5))


def test_duplicate_pairs_by_the_last_and_the_mean(tmp_path):
    path = write(tmp_path, "1,1,3\n2,1,1\n1,1,4\n")
    assert triplets(read_table(path, duplicates="last")) == [(1, 1, 4.0), (2, 1, 1.0)]
    assert triplets(read_table(path, duplicates="mean")) == [(1, 1, 3.5), (2, 1, 1.0)]


@pytest.mark.parametrize(
    "content",
    [b"", b"\r\n\n", b"\xef\xbb\xbf", gzip.compress(b"")],
    ids=["nothing", "line ends", "byte order mark", "gzip"],  # gzip's bytes hold the time
)
def test_empty_file(tmp_path, content):
    with pytest.raises(DataError, match=r"table.csv, line 1: the file is empty$"):
        read_table(write(tmp_path, content))


def test_too_little_in_the_file(tmp_path):
    for text in ("i,u,r\n", "i,u,r"):
        with pytest.raises(DataError, match=r"line 2: no rating follows the header$"):
            read_table(write(tmp_path, text))
    told = r"line 1: 1 columns, not 3 or more; known delimiters are comma, tab, semicolon and ::$"
    with pytest.raises(DataError, match=told):
        read_table(write(tmp_path, "1|2|3\n"))
    with pytest.raises(DataError, match=r"line 1: 2 columns, not 3 or more$"):
        read_table(write(tmp_path, "1|2\n"), delimiter="|")
    with pytest.raises(DataError, match=r"line 2: unexpected end of data$"):
        read_table(write(tmp_path, '1,2,3\n"4,5,6\n'))


def test_truncated_gzip_and_zip(tmp_path):
    rng = np.random.default_rng(0)
    text = "".join(f"{i},{u},3\n" for i, u in enumerate(rng.integers(1 << 40, size=2000)))
    packed = gzip.compress(text.encode())
    path = write(tmp_path, packed[: len(packed) // 2], "half.csv.gz")
    with pytest.raises(DataError, match=r"half.csv.gz, line \d+: the gzip is cut off") as caught:
        read_table(path)
    line = int(re.search(r"line (\d+)", str(caught.value))[1])
    assert 800 < line < 1200  # half of the bytes hold about half of the lines
    damaged = bytearray(packed)
    damaged[-6] ^= 1  # in the checksum
    with pytest.raises(DataError, match=r"the gzip is cut off or damaged$"):
        read_table(write(tmp_path, bytes(damaged), "bad.gz"))

    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("t.csv", text)
    half = write(tmp_path, (tmp_path / "whole.zip").read_bytes()[:20000], "half.zip")
    with pytest.raises(DataError, match=r"half.zip: the zip is cut off or damaged: [^\n]*$"):
        read_table(half, member="t.csv")


class TestParquet:
    @pytest.fixture
    def table(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def make(**columns):
            parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
            return tmp_path / "t.parquet"

        return make

    def test_ids_of_several_types(self, table):
        days = np.array(["2020-01-02", "2020-01-01"], "datetime64[D]")
        path = table(item=["b", "a"], user=days, rating=[1, 2])
        ratings = read_table(path)
        assert ratings.row_ids.tolist() == ["a", "b"]
        assert ratings.column_ids.astype("datetime64[D]").tolist() == sorted(days.tolist())
        assert ratings.value[ratings.row == 1].tolist() == [1.0]

    def test_columns_by_name(self, table):
        path = table(stars=[1.5, 4.0], who=[7, 900], what=[3, 1])
        assert triplets(read_table(path, columns=("what", "who", "stars"))) == [
            (1, 900, 4.0),
            (3, 7, 1.5),
        ]
        with pytest.raises(DataError, match=r"t.parquet: no column 'x' among stars, who, what$"):
            read_table(path, columns=("what", "who", "x"))

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            ({"i": [1, 2], "u": [1, 2], "r": [1.0, None]}, "row 2: a missing value"),
            ({"i": [1, 2], "u": [1, 2], "r": [1.0, np.nan]}, "row 2: a missing value"),
            ({"i": [1, None], "u": [1, 2], "r": [1.0, 2.0]}, "row 2: a missing value"),
            ({"i": [1, 2], "u": [1, 2], "r": [1.0, 9.0]}, "row 2: rating 9 is outside 1 to 5"),
            ({"i": [1, 2], "u": [1, 2], "r": ["1", "2"]}, "row 1: the ratings are of type string"),
            ({"i": [[1], [2]], "u": [1, 2], "r": [1.0, 2.0]}, "row 1: ids of type list"),
            ({"i": [1, 1], "u": ["x", "x"], "r": [1, 2]}, "row 2: the pair 1, x was already rated"),
            ({"i": np.zeros(0), "u": np.zeros(0), "r": np.zeros(0)}, "row 1: the file is empty"),
        ],
    )
    def test_errors_name_file_and_row(self, table, columns, reason):
        path = table(**columns)
        with pytest.raises(DataError, match=rf"^{re.escape(str(path))}, {reason}[^\n]*$"):
            read_table(path, bounds=(1, 5))

    def test_cut_off(self, table):
        path = table(i=[1], u=[2], r=[3.0])
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(DataError, match=r"t.parquet: not a whole Parquet file: [^\n]+$"):
            read_table(path)

    def test_without_pyarrow_the_error_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ImportError, match=r"t.parquet: .* pip install pyarrow$"):
            read_table(tmp_path / "t.parquet")
