"""Tables as people keep them: what is read, what is refused, and in which words."""

import builtins
import gzip
import math
import os
import re

import numpy as np
import pytest

from smc_jax.campaign import cells
from smc_jax.campaign.tables import read_ids, read_pairs, read_records
from smc_jax.campaign.types import KINDS, CampaignError
from smc_jax.campaign.writing import write_table

LONG = "drug,target,y\n"


@pytest.fixture
def save(tmp_path):
    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def records_of(records):
    """(row, column, kind, value or None) of each record."""
    assert set(records.kinds) <= set(KINDS)
    assert records.values.dtype == np.float64
    assert [math.isnan(v) for v in records.values] == [kind != "value" for kind in records.kinds]
    values = [None if math.isnan(v) else v for v in records.values.tolist()]
    return list(zip(records.rows, records.columns, records.kinds, values, strict=True))


def refusal(reader, path, **arguments):
    """The message, one line that begins with the file and ends with a fix."""
    with pytest.raises(CampaignError) as caught:
        reader(path, **arguments)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(path))
    assert message.removeprefix(str(path)).count(": ") >= 1
    assert caught.value.__cause__ is None
    return message


# Cells.

GOOD_CELLS = {
    "integer": ("4", 4.0),
    "point": ("4.5", 4.5),
    "no-zero": (".5", 0.5),
    "no-decimals": ("4.", 4.0),
    "negative": ("-4.5", -4.5),
    "plus": ("+4.5", 4.5),
    "exponent": ("4.5E-3", 0.0045),
    "spaces": ("  4.5 ", 4.5),
    "quoted": ('"4.5"', 4.5),
    "decimal-comma": ('"4,5"', 4.5),
    "decimal-comma-below-one": ('"0,123"', 0.123),
    "largest": ("1e30", 1e30),
}


@pytest.mark.parametrize("kind", GOOD_CELLS)
def test_a_number_is_a_value(save, kind):
    text, value = GOOD_CELLS[kind]
    records = read_records(save(f"{LONG}a,b,{text}\n"))
    assert records_of(records) == [("a", "b", "value", value)]


WORDS = {
    "failed": "failed",
    "Fail": "failed",
    "ERROR": "failed",
    "pending": "pending",
    "withdrawn": "withdrawn",
    "cancelled": "withdrawn",
}


@pytest.mark.parametrize("wide", [False, True], ids=["long", "wide"])
@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_a_kind(save, word, wide):
    content = f",b,c\na,{word},3\n" if wide else f"{LONG}a,b,{word}\na,c,3\n"
    records = read_records(save(content))
    assert records_of(records) == [("a", "b", WORDS[word], None), ("a", "c", "value", 3.0)]
    refusal(read_records, save(content), statuses=False)


@pytest.mark.parametrize("wide", [False, True], ids=["long", "wide"])
@pytest.mark.parametrize(
    "text", ["", " ", "NA", "N/A", "#N/A", "nan", "NaN", "null", "None", "-", "?", "<NA>"]
)
def test_an_unknown_entry_is_no_record_but_its_ids_are_known(save, text, wide):
    content = f",b,c\na,{text},3\nd,{text},\n" if wide else f"{LONG}a,c,3\na,b,{text}\nd,c,{text}\n"
    records = read_records(save(content))
    assert records_of(records) == [("a", "c", "value", 3.0)]
    assert records.row_ids == ["a", "d"]
    assert sorted(records.column_ids) == ["b", "c"]
    assert ("2 lines have no value yet." in records.notes) is not wide


BAD_CELLS = {
    "below": ("<4.0", "write the bound"),
    "above": (">100", "write the bound"),
    "at-most": ("<=4", "write the bound"),
    "at-least": (">=4", "write the bound"),
    "at-most-sign": ("≤4", "write the bound"),
    "about": ("~5", "write the bound"),
    "formula": ("=A1+B2", "formula"),
    "div": ("#DIV/0!", "spreadsheet"),
    "value": ("#VALUE!", "spreadsheet"),
    "ref": ("#REF!", "spreadsheet"),
    "name": ("#NAME?", "spreadsheet"),
    "num": ("#NUM!", "spreadsheet"),
    "thousands": ('"1,234.5"', "thousands"),
    "thousands-twice": ('"1,234,567"', "thousands"),
    "thousands-german": ('"1.234,5"', "thousands"),
    "thousands-swiss": ("1'234.5", "thousands"),
    "thousands-space": ("1 234", "thousands"),
    "thousands-underscore": ("1_234", "thousands"),
    "thousands-perhaps": ('"1,234"', "1.234 or 1234"),
    "percent": ("45%", "percentage"),
    "percent-space": ("45.5 %", "percentage"),
    "inf": ("inf", "finite"),
    "minus-inf": ("-Infinity", "finite"),
    "unit": ("4.5 uM", "number alone"),
    "unit-without-space": ("4.5uM", "number alone"),
    "remark": ("4.5 (repeat)", "number alone"),
    "deviation": ("4.5±0.2", "number alone"),
    "star": ("4.5*", "number alone"),
    "two-points": ("1.2.3", "date"),
    "date": ("2024-05-04", "date"),
    "slashes": ("5/4/2024", "date"),
    "minus-sign": ("\u22124.5", "minus"),
    "hex": ("0x1F", "number alone"),
    "true": ("TRUE", "1 or 0"),
    "word": ("high", "not a number"),
    "other-digits": ("٤", "not a number"),
    "two-signs": ("--4", "not a number"),
    "beyond-float32": ("1e31", "other units"),
    "overflow": ("-1e999", "other units"),
    "long-text": ("x" * 500, "not a number"),
}


@pytest.mark.parametrize("wide", [False, True], ids=["long", "wide"])
@pytest.mark.parametrize("kind", BAD_CELLS)
def test_a_cell_that_is_no_number_is_refused(save, kind, wide):
    text, fix = BAD_CELLS[kind]
    content = f",b,c\na,1,2\n\nd,3,{text}\n" if wide else f"{LONG}a,b,1\n\na,c,{text}\n"
    message = refusal(read_records, save(content))
    assert ", line 4, column 'c': " in message if wide else ", line 4: " in message
    assert fix in message
    assert len(message) < 400


@pytest.mark.parametrize("delimiter", [";", "\t"], ids=["semicolon", "tab"])
@pytest.mark.parametrize("wide", [False, True], ids=["long", "wide"])
def test_decimal_commas_are_read_as_points(save, delimiter, wide):
    content = (
        ",b,c\na,4!5,1!234\nd,5,-1!5e3\n" if wide else f"{LONG}a,b,4!5\na,c,1!234\nd,c,-1!5e3\n"
    )
    content = content.replace(",", delimiter).replace("!", ",")
    records = read_records(save(content))
    values = dict(zip(zip(records.rows, records.columns, strict=True), records.values, strict=True))
    assert (values["a", "b"], values["a", "c"], values["d", "c"]) == (4.5, 1.234, -1500)
    assert "Decimal commas were read as points." in records.notes


def test_a_comma_and_three_digits_is_a_decimal_comma_only_where_that_is_sure(save):
    content = "r;c;y\na;b;1,234\na;c;2,345\n"
    assert read_records(save(content)).values.tolist() == [1.234, 2.345]
    assert "1.234 or 1234" in refusal(read_records, save(content.replace(";", "\t")))


@pytest.mark.parametrize("order", [1, -1], ids=["comma-first", "point-first"])
def test_decimal_commas_beside_points_are_refused_with_both_lines(save, order):
    lines = ["a;b;4,5", "a;c;4.5"][::order]
    message = refusal(read_records, save("\n".join(["r;c;y", *lines])))
    assert "line 2" in message
    assert "line 3" in message
    assert "'4,5' has a decimal comma" in message


# The column `status`.

STATUSES = {
    "ok": ("ok,5", ("value", 5.0)),
    "done": ("Done,5", ("value", 5.0)),
    "measured": ("measured,5", ("value", 5.0)),
    "empty": (",5", ("value", 5.0)),
    "missing": ("NA,5", ("value", 5.0)),
    "ok-unfilled": ("ok,", None),
    "empty-unfilled": (",", None),
    "ok-unknown": ("ok,NA", None),
    "failed": ("failed,", ("failed", None)),
    "error": ("ERROR,nan", ("failed", None)),
    "failed-twice": ("failed,failed", ("failed", None)),
    "in-the-cell": (",failed", ("failed", None)),
    "pending": ("pending,", ("pending", None)),
    "withdrawn": ("withdrawn,-", ("withdrawn", None)),
    "cancelled": ("cancelled,", ("withdrawn", None)),
    "canceled": ("canceled,", ("withdrawn", None)),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_a_status_says_what_became_of_an_entry(save, kind):
    cell, expected = STATUSES[kind]
    records = read_records(save(f"drug,target,Status,y\na,b,{cell}\na,c,ok,1\n"))
    said = records_of(records)
    assert said == ([("a", "b", *expected)] if expected else []) + [("a", "c", "value", 1.0)]
    assert ("1 line has no value yet." in records.notes) is (expected is None)
    assert records.column_ids == ["b", "c"]


@pytest.mark.parametrize(
    ("cell", "fix"),
    [
        ("failed,5", "empty the value"),
        ("pending,5", "empty the value"),
        ("withdrawn,5", "empty the value"),
        ("ok,failed", "empty one"),
        ("pending,failed", "empty one"),
        ("maybe,5", "write ok, failed, pending or withdrawn"),
        ("5,ok", "not a number"),
        ("in progress,", "write ok"),
        ("failed,<5", "write the bound"),
    ],
    ids=lambda text: text.replace(" ", "-"),
)
def test_a_status_that_is_unknown_or_contradicts_is_refused(save, cell, fix):
    message = refusal(read_records, save(f"row,column,status,value\na,c,ok,1\na,b,{cell}\n"))
    assert ", line 3: " in message
    assert fix in message


def test_without_statuses_the_column_is_one_to_ignore(save):
    path = save("row,column,status,value\na,b,whatever,5\n")
    records = read_records(path, statuses=False)
    assert records_of(records) == [("a", "b", "value", 5.0)]
    assert "Columns that were ignored: 'status'." in records.notes


# Layouts.

LAYOUTS = {
    "named": ("row,column,value\na,b,1\n", {}),
    "named-in-capitals": ("Row,COLUMN,Value\na,b,1\n", {}),
    "named-in-another-order": ("value,column,row\n1,b,a\n", {}),
    "named-with-integer-ids": ("value,row,column\n3,1,2\n3,1,3\n", {}),
    "ask": ("row,column,value,status,mean,sd,reason\na,b,,ok,1,2,best\na,c,4,ok,3,1,\n", {}),
    "ask-own-names": (
        "drug,target,value,status,mean,sd\na,b,,,1,2\n",
        {"names": ("drug", "target", "pIC50")},
    ),
    "own-names": ("mean,pIC50,target,drug\n9,1,b,a\n", {"names": ("drug", "target", "pIC50")}),
    "given": ("id,y,x,z\n7,1,a,b\n", {"rows": "x", "columns": "z", "value": "y"}),
    "given-two": ("b,n,a\nb1,1,a1\n", {"rows": "a", "columns": "b"}),
    "given-value": ("n,a,m\n7,a1,8\n", {"value": "m"}),
    "given-rows": ("p,q,y\na,b,1\n", {"rows": "q"}),
    "given-swapped": ("column,row,value\na,b,1\n", {"rows": "column"}),
    "guessed": ("drug,target,y\na,b,1\n", {}),
    "guessed-first": ("y,drug,target\n1,a,b\n2,a,c\n", {}),
    "guessed-middle": ("drug,y,target\na,1,b\n", {}),
    "guessed-by-status": ("drug,target,y,status\n1,2,3,ok\n", {}),
    "guessed-unfilled": ("drug,target,y\na,b,\na,c,\n", {}),
    "guessed-unfilled-integers": ("well,drug,y\n1,b,\n2,c,\n", {}),
    "guessed-failed": ("well,drug,y\n1,b,failed\n2,c,failed\n", {}),
    "guessed-unfilled-middle": ("drug,y,target\na,,b\na,,c\n", {}),
    "guessed-integers": ("user,item,rating\n1,10,4\n1,20,3.5\n2,10,1\n", {}),
    "guessed-text-then-integers": ("drug,well,y\na,1,4.5\na,2,4.5\n", {}),
    "guessed-ids-with-digits": ("cas,target,y\n50-78-2,5-HT2A,4\n58-08-2,2C9,5\n", {}),
    "pandas-index": (",drug,target,y\n0,a,b,1\n1,a,c,2\n", {}),
    "pandas-index-named": (",row,column,value\n0,1,2,1\n1,1,3,2\n", {}),
}
LONG_IDS = {
    "named-with-integer-ids": ("1", "2"),
    "given": ("a", "b"),
    "given-two": ("a1", "b1"),
    "given-value": ("7", "a1"),
    "given-rows": ("b", "a"),
    "guessed-by-status": ("1", "2"),
    "guessed-unfilled-integers": ("1", "b"),
    "guessed-failed": ("1", "b"),
    "guessed-integers": ("1", "10"),
    "guessed-text-then-integers": ("a", "1"),
    "guessed-ids-with-digits": ("50-78-2", "5-HT2A"),
    "pandas-index-named": ("1", "2"),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_long_table_is_recognised(save, kind):
    content, arguments = LAYOUTS[kind]
    records = read_records(save(content), **arguments)
    assert records.notes[0].startswith("Read as a long table")
    assert (records.row_ids[0], records.column_ids[0]) == LONG_IDS.get(kind, ("a", "b"))


WIDE = {
    "corner-empty": ",p,q,r\na,1,2,3\nb,,4,\n",
    "corner-named": "drug,p,q,r\na,1,2,3\nb,,4,\n",
    "corner-row": "row,p,q,r\na,1,2,3\nb,,4,\n",
    "integer-columns": "item,1,2,3\na,1,2,3\nb,,4,\n",
    "decimal-columns": ",0.1,0.2,0.3\na,1,2,3\nb,,4,\n",
    "integer-rows": ",p,q,r,s\n0,1,2,3,1\n1,,4,,1\n",
    "integer-rows-three-columns": ",p,q,r\n0,1,2.5,3\n1,,4,\n",
    "two-columns": "drug,p,q\na,1.5,2\nb,2,4\n",
    "two-columns-corner-empty": ",p,q\n1,1,2\n2,2,4\n",
    "one-column": ",p\na,1\nb,2\n",
    "repeated-rows": ",p,q\na,1,2\na,2,4\n",
    "with-words": "drug,p,q,r\na,failed,2,3\nb,failed,pending,NA\n",
    "two-columns-failed": ",p,q\na,failed,2\nb,failed,4\n",
    "empty-column": ",p,q,r\n1,1,,3\n2,2,,4\n",
}


@pytest.mark.parametrize("kind", WIDE)
def test_a_wide_table_is_recognised(save, kind):
    records = read_records(save(WIDE[kind]))
    lines = [line.split(",") for line in WIDE[kind].splitlines()]
    assert records.notes[0].startswith("Read as a wide table")
    assert records.column_ids == lines[0][1:]
    assert records.row_ids == list(dict.fromkeys(line[0] for line in lines[1:]))
    expected = [
        (line[0], column, cell)
        for line in lines[1:]
        for column, cell in zip(lines[0][1:], line[1:], strict=True)
        if cell not in ("", "NA")
    ]
    said = [
        (row, column, kind if value is None else f"{value:g}")
        for row, column, kind, value in records_of(records)
    ]
    assert said == expected


UNCLEAR = {
    "two-whole-columns": "drug,p,q\na,1,2\nb,2,4\n",
    "ratings-and-times": "user,item,rating,timestamp\n1,2,3,9\n1,3,4,9\n",
    "bounds-or-ids": "drug,p,q\na,<4,5\na,<3,6\n",
    "no-header-integers": "1,10,4\n1,20,3\n",
    "no-header": "d1,t1,4.5\nd2,t1,4.5\n",
    "no-header-wide": "d1,1.5,2.5,3.5\nd2,1,2,3\n",
    "no-ids": "1,2,3,4\n5,6,7,8\n",
    "value-first": "rating,user,item\n4.5,1,2\n4.5,1,3\n",
    "many-columns": "drug,target,batch,y\na,b,c,1\n",
    "status-in-a-matrix": "drug,p,q,r,status\na,1,2,3,ok\n",
    "index-or-id": ",user,item,rating\n0,1,2,3\n1,1,3,4\n",
    "numbers-before-text": "n,m,drug\n1,2,a\n2,3,b\n",
    "repeated-rows": "drug,p,q,r\na,1,2,3\na,1,2,3\n",
}


@pytest.mark.parametrize("kind", UNCLEAR)
def test_an_unclear_layout_is_refused_with_the_options(save, kind):
    message = refusal(read_records, save(UNCLEAR[kind]))
    assert ", line 1: " in message
    assert all(option in message for option in ("--rows", "--columns", "--maximise", "value="))


@pytest.mark.parametrize("kind", ["two-whole-columns", "repeated-rows", "index-or-id"])
def test_the_first_cell_says_that_a_table_is_wide(save, kind):
    content = UNCLEAR[kind]
    content = "id" + content if content.startswith(",") else content.removeprefix("drug")
    assert read_records(save(content)).notes[0].startswith("Read as a wide table")


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ({"rows": "cmpd"}, "choose from 'drug', 'target', 'y', 'z'"),
        ({"value": "Y2"}, "choose from"),
        ({"rows": "drug", "columns": "drug"}, "columns='drug'"),
        ({"value": "y"}, "--columns"),
        ({"rows": "drug", "value": "y"}, "hold the columns"),
    ],
    ids=["no-row", "no-value", "twice", "value-alone", "two-left"],
)
def test_names_that_do_not_fit_are_refused(save, arguments, fix):
    message = refusal(read_records, save("drug,target,y,z\na,b,1,2\n"), **arguments)
    assert fix in message


def test_the_rows_alone_may_be_named_in_the_corner_of_a_matrix(save):
    records = read_records(save("drug,p,q,r\na,1,2,3\n"), rows="drug")
    assert records.notes == ["Read as a wide table, a matrix: 1 row ids by 3 column ids."]
    message = refusal(read_records, save("n,drug,p,q\n1,7,2,3\n2,8,2,3\n"), rows="drug")
    assert "--columns" in message


def test_other_columns_are_ignored_and_named(save):
    records = read_records(save('batch,row,"a\nb",column,value\n1,a,2,b,3\n'))
    assert records_of(records) == [("a", "b", "value", 3.0)]
    assert r"Columns that were ignored: 'batch', 'a\nb'." in records.notes


# Files.

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


# Writing.

SUFFIXES = pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
ODD_IDS = ["a", "A", "1,2-x", 'say "b"', "5-HT2A", "007", "c;d", "drüg", "NA", "=1"]


def values_of(count):
    values = np.random.default_rng(0).normal(size=count) * 10.0 ** np.arange(-5, count - 5)
    return [0.1 + 0.2, 1e30, -0.0, *values.tolist()][:count]


@SUFFIXES
def test_a_long_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    values = values_of(len(ODD_IDS))
    entries = list(zip(ODD_IDS, reversed(ODD_IDS), values, strict=True))
    lines = [(row, column, value, "ok", math.nan) for row, column, value in entries]
    unfilled = ("x", "y", None, None, 1.0)
    write_table(path, ["drug", "target", "value", "status", "mean"], [*lines, unfilled])
    records = read_records(path, names=("drug", "target", "pIC50"))
    assert records_of(records) == [(row, column, "value", value) for row, column, value in entries]
    assert records.row_ids == [*ODD_IDS, "x"]
    assert "1 line has no value yet." in records.notes


@SUFFIXES
def test_a_wide_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    values = np.array(values_of(10)).reshape(5, 2)
    values[1, 1] = math.nan
    rows, columns = ODD_IDS[:5], ODD_IDS[5:7]
    lines = ([row, *line] for row, line in zip(rows, values, strict=True))
    write_table(path, ["", *columns], lines)
    records = read_records(path)
    assert (records.row_ids, records.column_ids) == (rows, columns)
    assert records.values.tolist() == values[~np.isnan(values)].tolist()


def test_csv_has_the_shortest_digits_and_the_same_bytes_every_time(tmp_path):
    for name in ("a.csv", "a.csv.gz", "b.csv.gz"):
        line = ["x,y", 0.1, np.float32(0.1), np.float64(0.3), 7, None, math.nan]
        write_table(tmp_path / name, list("abcdefg"), [line])
    assert (tmp_path / "a.csv").read_bytes() == b'a,b,c,d,e,f,g\n"x,y",0.1,0.1,0.3,7,,\n'
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes()[4:8] == bytes(4)  # no time stamp


def test_a_table_is_written_through_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    write_table(tmp_path / "link.csv", ["a"], [[1]])
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "t.csv").read_text() == "a\n1\n"


def test_what_cannot_be_written_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("before")
    (tmp_path / "folder.csv").mkdir()

    def write(path):
        write_table(path, ["a"], [["b"]])

    def break_off(*_):
        raise OSError(28, "No space left on device")

    assert "end the name in .csv" in refusal(write, tmp_path / "t.xlsx")
    assert "(No such file or directory)" in refusal(write, tmp_path / "none" / "t.csv")
    assert "cannot be written" in refusal(write, tmp_path / "folder.csv")
    monkeypatch.setattr(os, "fsync", break_off)
    assert "(No space left on device)" in refusal(write, path)
    assert path.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "t.csv"]


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
