"""Long and wide tables: which is recognised, and which is refused as unclear."""

import pytest
from tabling import records_of, refusal

from smc_jax.campaign.tables import read_records

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
