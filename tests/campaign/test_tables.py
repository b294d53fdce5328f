"""Files of tables as people keep them: how they are saved, lists of ids, and pairs."""

import builtins
import gzip
import os
import re

import pytest
from tabling import LONG, records_of, refusal

from smc_jax.campaign import cells
from smc_jax.campaign.tables import read_ids, read_pairs, read_records
from smc_jax.campaign.types import CampaignError
from smc_jax.campaign.writing import write_table

VARIANTS = {
    "plain": lambda text: text.encode(),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "old-mac": lambda text: text.replace("\n", "\r").encode(),
    "utf-16-le": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf-16-be": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "gzip": lambda text: gzip.compress(text.encode(), mtime=0),
    "no-last-line-end": lambda text: text.rstrip("\n").encode(),
    "blank-lines": lambda text: ("\n\n" + text.replace("\n", "\n \n\n")).encode(),
    "tabs": lambda text: text.replace(",", "\t").encode(),
    "semicolons": lambda text: text.replace(",", ";").encode(),
    "spaces": lambda text: text.replace(",", " , ").encode(),
    "quotes": lambda text: re.sub(r"([^,\n]+)", r'"\1"', text).encode(),
    "empty-columns": lambda text: text.replace("\n", ",,\n").encode() + b",,,,\n",
    "empty-ends-below-the-header": lambda text: (
        text[:14].encode() + text[14:].replace("\n", ",,\n").encode()
    ),
}


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("wide", [False, True], ids=["long", "wide"])
def test_a_file_is_read_however_it_was_saved(save, kind, wide):
    text = (
        ",target,b\ndrüg,4.5,3\ne,1,\n"
        if wide
        else f"{LONG}drüg,target,4.5\ndrüg,b,3\ne,target,1\n"
    )
    records = read_records(save(VARIANTS[kind](text)))
    expected = [("drüg", "target", "value", 4.5), ("drüg", "b", "value", 3.0)]
    assert records_of(records) == [*expected, ("e", "target", "value", 1.0)]


BAD_FILES = {
    "empty": (b"", "no text"),
    "blank": (b"\n \n,,\n", "no text"),
    "only-a-bom": (b"\xef\xbb\xbf", "no text"),
    "header-only": (LONG.encode(), "line 1: no line follows"),
    "one-column": (b"a\nb\n", "line 1: 1 column(s)"),
    "two-columns": (b"a,b\nc,1\n", "line 1: 2 column(s)"),
    "other-delimiter": (b"a|b|c\nd|e|1\n", "a comma, a tab or a semicolon"),
    "latin-1": (LONG.encode() + b"a,b,1\nd\xfcrg,b,1\n", "line 3: this is not UTF-8 text"),
    "latin-1-old-mac": (b"r,c,y\ra,b,1\rd\xfcrg,b,1\r", "line 3: this is not UTF-8 text"),
    "utf-16-cut": (b"\xff\xfea", "UTF-16"),
    "utf-16-without-bom": (LONG.encode("utf-16-le"), "line 1: there is a NUL byte"),
    "nul": (LONG.encode() + b"a,b,1\na,c,\0\n", "line 3: there is a NUL byte"),
    "workbook": (b"PK\x03\x04rest", "save the sheet as CSV"),
    "old-workbook": (b"\xd0\xcf\x11\xe0rest", "save the sheet as CSV"),
    "gzip-cut": (gzip.compress(LONG.encode() * 9, mtime=0)[:-12], "cut off"),
    "gzip-damaged": (b"\x1f\x8b\x08\0rubbish, not a gzip", "cut off"),
    "gzip-tail": (gzip.compress(LONG.encode(), mtime=0) + b"rest", "cut off"),
    "gzip-empty": (gzip.compress(b"", mtime=0), "no text"),
    "short-line": (LONG.encode() + b"a,b,1\na,b\n", "line 3: the line has 2 cells"),
    "long-line": (LONG.encode() + b"a,b,4,5\n", "line 2: the line has 4 cells"),
    "open-quote": (LONG.encode() + b'a,"b,1\nc,d,2\n', "quotation marks"),
    "text-after-quote": (LONG.encode() + b'a,"b"c,1\n', "line 2: "),
    "huge-cell": (LONG.encode() + b"a," + b"b" * 200_000 + b",1\n", "line 2: "),
    "empty-row-id": (LONG.encode() + b"a,b,1\n ,b,1\n", "line 3: the row id is empty"),
    "empty-column-id": (LONG.encode() + b"a,,1\nb,c,1\n", "line 2: the column id is empty"),
    "empty-row-id-wide": (b",p,q\na,1,2\n,3,4\n", "line 3: the row id is empty"),
    "empty-column-id-wide": (b",p,,q\na,1,2,3\n", "line 1: the column id is empty"),
    "twice-in-the-header-wide": (b",p,q,p\na,1,2,3\n", "line 1: two columns are named 'p'"),
    "twice-in-the-header": (b"row,column,value,value\na,b,1,2\n", "two columns are named 'value'"),
    "line-end-in-an-id": (LONG.encode() + b'"a\nb",c,1\n', "does not show"),
    "zero-width": (LONG.encode() + "a\u200b,b,1\n".encode(), "line 2: the row id"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_used_is_refused(save, kind):
    content, what = BAD_FILES[kind]
    assert what in refusal(read_records, save(content))


READERS = pytest.mark.parametrize("reader", [read_records, read_ids, read_pairs])


@READERS
def test_only_regular_files_are_read(tmp_path, reader):
    assert "no such file" in refusal(reader, tmp_path / "none.csv")
    assert "folder" in refusal(reader, tmp_path)
    os.mkfifo(tmp_path / "fifo")
    assert "regular file" in refusal(reader, tmp_path / "fifo")
    with pytest.raises(CampaignError, match="cannot be read"):
        reader("a\0b")
    refusal(reader, tmp_path / "none.csv" / "below")


@READERS
def test_an_unreadable_file_is_refused(save, monkeypatch, reader):
    path, usual = save(LONG + "a,b,1\n"), open

    def deny(name, *rest, **named):
        if name == path:
            raise PermissionError(13, "Permission denied")
        return usual(name, *rest, **named)

    monkeypatch.setattr(builtins, "open", deny)  # root may read whatever its mode
    assert "(Permission denied)" in refusal(reader, path)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_text_beyond_the_limit_is_refused_before_it_is_whole(save, monkeypatch, packed):
    monkeypatch.setattr(cells, "LIMIT", 3 << 20)
    content = b"a,b,1\n" * (1 << 20)
    path, parts, usual = save(gzip.compress(content, 1) if packed else content), [], len
    monkeypatch.setattr(cells, "len", lambda part: parts.append(part) or usual(part), raising=False)
    assert "longer than" in refusal(read_records, path)
    assert sum(map(usual, parts)) <= 4 << 20


def test_ids_are_stripped_and_otherwise_exact(save):
    records = read_records(save(LONG + " a ,b,1\nA,b,2\n007,b c,3\n7,b c,4\nNA,B,5\n"))
    assert records.row_ids == ["a", "A", "007", "7", "NA"]
    assert records.column_ids == ["b", "b c", "B"]
    assert "Some row ids differ only by case: 'a / A'." in records.notes
    assert "Some column ids differ only by case: 'b / B'." in records.notes


def test_a_repeat_is_a_record_of_its_own_and_each_record_has_its_place(save):
    path = save(LONG + "a,b,1\n\na,c,\na,b,2\n")
    records = read_records(path)
    assert records_of(records) == [("a", "b", "value", 1.0), ("a", "b", "value", 2.0)]
    assert [records.place(i) for i in (0, 1)] == [f"{path}, line 2", f"{path}, line 5"]
    path = save(",p,q\na,,1\n\nb,2,3\n")
    records = read_records(path)
    places = [f"{path}, line 2, column 'q'", f"{path}, line 4, column 'p'"]
    assert [records.place(i) for i in (0, 1)] == places


def test_a_table_without_any_value_has_its_ids(save):
    records = read_records(save(",p,q,r\na,,,\nb,,,\n"))
    assert records_of(records) == []
    assert (records.row_ids, records.column_ids) == (["a", "b"], ["p", "q", "r"])


def test_commas_in_the_ids_of_other_tables(save):
    records = read_records(save(";1,2-x;3,4-y\n5,6-z;1,5;2\n"))
    assert records.column_ids == ["1,2-x", "3,4-y"]
    assert records_of(records)[0] == ("5,6-z", "1,2-x", "value", 1.5)


# Parquet.


def test_parquet_is_read_as_text_is(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    table = arrow.table(
        {"drug": [1, 1, 2], "target": ["a", "b", "a"], "y": [0.1, None, float("nan")]}
    )
    pyarrow.parquet.write_table(table, path)
    records = read_records(path)
    assert records_of(records) == [("1", "a", "value", 0.1)]
    assert records.row_ids == ["1", "2"]
    assert records.place(0) == f"{path}, row 1"

    # As pandas writes a frame: its index is the last column.
    metadata = {"pandas": '{"index_columns": ["__index_level_0__"]}'}
    table = arrow.table({"p": [1.5, 2], "q": [None, 3.0], "__index_level_0__": ["a", "b"]})
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    records = read_records(path)
    assert records.column_ids == ["p", "q"]
    assert [said[:2] for said in records_of(records)] == [("a", "p"), ("b", "p"), ("b", "q")]


def test_parquet_that_cannot_be_used_is_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and no more")
    assert "not a whole Parquet file" in refusal(read_records, path)
    for content, what in (
        ({"row": ["a"], "column": ["b"], "value": [float("inf")]}, ", row 1: "),
        ({"row": ["a"], "column": [None], "value": [1.0]}, ", row 1: the column id is empty"),
        ({"row": ["a"], "column": ["b"], "value": [[1.0]]}, "of type list"),
        ({"row": [b"a"], "column": ["b"], "value": [1.0]}, "of type binary"),
        ({"row": ["a"], "column": ["b"], "value": [True]}, "1 or 0"),
        ({"row": [], "column": [], "value": []}, "column names: no line follows"),
        ({"drug": ["a"], "b": ["b"], "c": ["d"], "y": [1]}, "--rows"),
    ):
        pyarrow.parquet.write_table(arrow.table(content), path)
        assert what in refusal(read_records, path)


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
def test_parquet_without_pyarrow_says_what_to_install(save, monkeypatch, write):
    usual = builtins.__import__

    def deny(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return usual(name, *rest)

    path = save(b"PAR1", "t.parquet")
    monkeypatch.setattr(builtins, "__import__", deny)
    reader = (lambda path: write_table(path, ["a"], [[1]])) if write else read_records
    assert refusal(reader, path).endswith("pip install pyarrow")
    assert path.read_bytes() == b"PAR1"


# Lists of ids and of pairs.

ID_FILES = {
    "lines": ("a\nb c\n\n a \n1,2-x\n", "t.txt", ["a", "b c", "1,2-x"]),
    "no-suffix": ("a\r\nb\r\n", "today", ["a", "b"]),
    "header-id": ("ID\na\nb\n", "t.txt", ["a", "b"]),
    "header-axis": ("target\na\nb\n", "t.csv", ["a", "b"]),
    "header-column": ("column\na\nb\n", "t.csv", ["a", "b"]),
    "csv": ('"1,2-x"\na\n', "t.csv", ["1,2-x", "a"]),
    "csv-empty-column": ("a,\nb,\n", "t.csv", ["a", "b"]),
    "gzip": (gzip.compress(b"a\nb\n", mtime=0), "t.txt.gz", ["a", "b"]),
}


@pytest.mark.parametrize("kind", ID_FILES)
def test_ids(save, kind):
    content, name, ids = ID_FILES[kind]
    assert read_ids(save(content, name), name="target") == ids


@pytest.mark.parametrize(
    ("content", "name", "what"),
    [
        ("", "t.txt", "no text"),
        ("id\n", "t.txt", "line 1: no id follows"),
        ("a,b\nc,d\n", "t.csv", "line 1: more than one column"),
        ("a\nb\tc\n", "t.txt", "line 2: the target id"),
    ],
    ids=["empty", "header-only", "two-columns", "tab"],
)
def test_ids_that_cannot_be_used_are_refused(save, content, name, what):
    assert what in refusal(read_ids, save(content, name), name="target")


PAIR_FILES = {
    "plain": ("a,b\nc,d\na,b\n", [("a", "b"), ("c", "d")]),
    "header": ("row,column\na,b\n", [("a", "b")]),
    "header-other-order": ("why,Column,row\nx,b,a\n", [("a", "b")]),
    "header-own-names": ("drug,target\na,b\n", [("a", "b")]),
    "header-one-own-name": ("assay,drug\nb,a\n", [("a", "b")]),
    "same-id": ("a;a\n", [("a", "a")]),
}


@pytest.mark.parametrize("kind", PAIR_FILES)
def test_pairs(save, kind):
    content, pairs = PAIR_FILES[kind]
    assert read_pairs(save(content), rows="drug", columns="target") == pairs


def test_half_a_pair_is_a_whole_row_or_column(save):
    path = save(",b\na,\n*,c\nd,*\ne,f\n")
    pairs = [(None, "b"), ("a", None), (None, "c"), ("d", None), ("e", "f")]
    assert read_pairs(path, partial=True) == pairs
    assert "line 1: an id is empty" in refusal(read_pairs, path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("row,column\n", "no pair follows"),
        ("a\nb\n", "1 column(s), not two"),
        ("a,b,c\nd,e,f\n", "3 column(s), not two"),
        ("row,column\na,b\n*,*\n", "line 3: an id is empty"),
        ("a,b\nc,d,e\n", "line 2: the line has 3 cells"),
    ],
    ids=["header-only", "one-column", "three-columns", "everything", "ragged"],
)
def test_pairs_that_cannot_be_used_are_refused(save, content, what):
    assert what in refusal(read_pairs, save(content), partial=True)


def test_a_large_table_is_read_without_looking_twice_at_its_cells(save, monkeypatch):
    """Only cells that are no plain number take the slow path, so that 10^6 lines take seconds."""
    lines = "".join(f"d{i % 300},t{i // 300},{i / 8}\n" for i in range(20_000))
    path = save(LONG + lines)
    monkeypatch.setattr(cells, "WORDS", None)  # what the slow path looks up
    kinds, values, _ = cells.read_cells([str(i / 8) for i in range(9)], str, True, ",")
    assert (kinds, values.tolist()) == (["value"] * 9, [i / 8 for i in range(9)])
    monkeypatch.undo()
    records = read_records(path)
    assert (len(records.rows), len(records.row_ids), len(records.column_ids)) == (20_000, 300, 67)
