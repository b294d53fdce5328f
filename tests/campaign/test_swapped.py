"""A table whose rows are the columns of a campaign is refused, and no other table is."""

import pytest
from campaigning import dump, refused
from commanding import COLUMNS, NAMES, ROWS, write

from smc_jax.campaign.campaign import Campaign

# The open entries (drug0, target1), (drug0, target3), (drug2, target1) and (drug2, target3).
TURNED = {
    "wide": [("", "drug0", "drug2"), ("target1", 1.0, 2.0), ("target3", 3.0, "")],
    "wide without a value": [("", *ROWS), *((one, *[""] * len(ROWS)) for one in COLUMNS)],
    "long": [NAMES, ("target1", "drug0", 1.0), ("target3", "drug2", 2.0)],
    "one line": [NAMES, ("target1", "drug0", 1.0)],
}


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("kind", TURNED)
def test_a_table_with_its_sides_swapped_is_refused(copy, fail, tmp_path, kind):
    write(tmp_path / "widet.csv", *TURNED[kind])
    write(tmp_path / "good.csv", NAMES, ("drug0", "target5", 1.0))
    before = dump(copy)
    for tables in (["widet.csv"], ["good.csv", "widet.csv"]):
        line = fail("tell", copy, *tables)
        assert line.startswith("error: widet.csv: the two sides are swapped: every drug")
        assert "turn the table" in line
        assert "name the columns of ids 'drug' and 'target'" in line
    assert dump(copy) == before


def test_answers_in_python_with_their_sides_swapped_are_refused(copy):
    with Campaign(copy) as campaign, refused("answers: the two sides are swapped"):
        campaign.tell([("target1", "drug0", 1.0), ("target3", "drug2", 2.0)])


@pytest.mark.parametrize(
    ("answers", "new"),
    [
        ([("target1", "drug0", 1.0), ("drug0", "target1", 1.0)], (1, 1)),  # one line is right
        ([("target1", "drug0", 1.0), ("target3", "drug77", 1.0)], (2, 2)),  # one id is new
        ([("target1", "target3", 1.0)], (1, 0)),
        ([("a", "b", 1.0)], (1, 1)),
    ],
)
def test_a_table_that_may_be_meant_is_taken(copy, answers, new):
    with Campaign(copy) as campaign:
        added = campaign.tell(answers)
    assert (added.new_rows, added.new_columns) == new


def test_ids_that_both_sides_have_are_taken(tmp_path):
    with Campaign.new(tmp_path / "square.db") as campaign:
        campaign.add(rows=["a", "b", "c"], columns=["b", "c", "a"])
        assert campaign.tell([("c", "b", 1.0)]).values == 1


def test_named_columns_may_stand_in_any_order(copy, tmp_path):
    table = write(tmp_path / "t.csv", ("target", "drug", "activity"), ("target1", "drug0", 1.0))
    with Campaign(copy) as campaign:
        assert campaign.tell(table).values == 1
