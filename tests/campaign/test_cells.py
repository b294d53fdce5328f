"""Cells of tables as people keep them: what is a value, what is refused, and in which words."""

import numpy as np
import pytest
from tabling import LONG, records_of, refusal

from smc_jax.campaign import cells
from smc_jax.campaign.tables import read_records
from smc_jax.campaign.types import NO_ANSWER, CampaignError

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
        ("maybe,5", "write ok, failed, no answer, pending or withdrawn"),
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


@pytest.mark.parametrize(
    "text", ["no answer", "no  answer", "No-Answer", "no_answer", "NO - ANSWER", "Unanswered"]
)
def test_no_answer_is_understood_however_its_words_are_joined(text):
    """In a cell, and in a column of statuses."""
    kinds, values, _ = cells.read_cells([text], str, True, ",")
    assert kinds == [NO_ANSWER]
    assert np.isnan(values[0])
    assert cells.apply_statuses([text], [""], str) == [NO_ANSWER]
    for other in ("noanswer", "no.answer", "-no answer"):
        with pytest.raises(CampaignError):
            cells.read_cells([other], str, True, ",")
