"""What is told to the file: all of a table or nothing, and every error is one line."""

import numpy as np
import pytest
from storing import ask, named, refused, table, told

from smc_jax.campaign.types import COLUMN, ROW


def test_ids_are_numbered_as_they_come(create):
    campaign = create()
    first = campaign.add(
        table(("b", "y", 1.0), row_ids=["c"], column_ids=["z", "y"]), source="test"
    )
    assert (first.new_rows, first.new_columns, first.values) == (2, 2, 1)
    second = campaign.add(table(("a", "y", 2.0), ("b", "ω\n", 3.0)), source="test")
    assert (second.new_rows, second.new_columns, second.values) == (1, 1, 2)
    assert campaign.ids(ROW) == ["c", "b", "a"]
    assert campaign.ids(COLUMN) == ["z", "y", "ω\n"]
    assert campaign.number_of(COLUMN, "ω\n") == 2
    loaded = campaign.state(0.0).log
    assert told(loaded) == [("b", "y", 1.0), ("a", "y", 2.0), ("b", "ω\n", 3.0)]
    assert loaded.position == campaign.position() == second.position == 3
    for id in ("", "\udc80"):
        with refused("readable name", repr(id)):
            campaign.add(table((id, "y", 1.0)), source="test")


def test_a_table_without_values_adds_its_ids(create):
    campaign = create()
    added = campaign.add(table(row_ids=["a", "b"], column_ids=["x"]), source="test")
    assert (added.new_rows, added.new_columns, added.position) == (2, 1, 2)
    again = campaign.add(table(row_ids=["a", "b"], column_ids=["x"]), source="test")
    assert (again.new_rows, again.position) == (0, 2)


def test_a_second_value_is_refused_with_both_values_and_the_fix(create):
    campaign = create()
    campaign.add(table(("a", "x", 1.5)), source="test")
    words = ("assay.csv, line 3", "('a', 'x')", "1.5", "2.5", "--correct", "repeats")
    with refused(*words):
        campaign.add(table(("b", "x", 9.0), ("a", "x", 2.5)), source="test")
    assert campaign.ids(ROW) == ["a"]
    assert told(campaign.state(0.0).log) == [("a", "x", 1.5)]
    assert campaign.position() == 2
    with refused(*words):
        campaign.add(table(("b", "x", 1.5), ("a", "x", 2.5)), source="test")


def test_two_records_of_one_entry_follow_the_rules_one_after_the_other(create):
    with refused("1.0", "2.0"):
        create().add(table(("a", "x", 1.0), ("a", "x", 2.0)), source="test")
    added = create(repeats=True).add(
        table(("a", "x", 1.0), ("a", "x", 2.0), ("a", "x", 1.0)), source="test"
    )
    assert (added.values, added.repeats, added.unchanged) == (1, 2, 0)
    campaign = create()
    added = campaign.add(
        table(("a", "x", "failed"), ("a", "x", 1.0), ("b", "x", "pending"), ("b", "x", 2.0)),
        source="test",
    )
    assert (added.failed, added.values, added.pending) == (1, 2, 0)
    loaded = campaign.state(0.0).log
    assert told(loaded) == [("a", "x", 1.0), ("b", "x", 2.0)]
    assert named(loaded, "failed") == named(loaded, "pending") == []


@pytest.mark.parametrize("repeats", [False, True])
def test_the_same_value_again_is_harmless(create, repeats):
    campaign = create(repeats=repeats)
    lines = table(("a", "x", 0.1 + 0.2), ("b", "x", "failed"), ("c", "x", "pending"))
    campaign.add(lines, source="test")
    position = campaign.position()
    again = campaign.add(lines._replace(values=np.array([0.3, np.nan, np.nan])), source="test")
    assert again.unchanged == 3
    assert again.position == campaign.position() == position
    assert len(told(campaign.state(0.0).log)) == 1


def test_repeats_count_where_they_are_asked_or_lines_of_one_table(create):
    campaign = create(repeats=True)
    campaign.add(table(("a", "x", 1.0)), source="test")
    assert campaign.add(table(("a", "x", 2.0)), source="test").repeats == 1
    assert campaign.add(table(("a", "x", 1.0)), source="test").unchanged == 1
    twice = table(("b", "x", 3.0), ("b", "x", 3.0))
    assert campaign.add(twice, source="test").repeats == 1  # two lines are two measurements
    assert campaign.knows(twice)
    assert campaign.add(twice, source="test").unchanged == 2
    ask(campaign, "t", ("a", "x"))
    assert named(campaign.state(0.0).log, "pending") == [("a", "x")]
    assert campaign.add(table(("a", "x", 1.0)), source="test").repeats == 1
    assert campaign.add(table(("a", "x", 1.0)), source="test").unchanged == 1
    loaded = campaign.state(0.0).log
    assert loaded.value.tolist() == [1.0, 2.0, 3.0, 3.0, 1.0]
    assert loaded.asked.tolist() == [False, False, False, False, True]


def test_a_correction_replaces_all_values_of_its_entry(create):
    campaign = create(repeats=True)
    campaign.add(table(("a", "x", 1.0), ("b", "x", 5.0), ("a", "x", 2.0)), source="test")
    added = campaign.add(
        table(("a", "x", 2.0), ("b", "x", 5.0), ("c", "x", 7.0)), source="fix", corrections=True
    )
    assert (added.corrected, added.unchanged, added.values) == (1, 1, 1)
    assert told(campaign.state(0.0).log) == [("b", "x", 5.0), ("a", "x", 2.0), ("c", "x", 7.0)]
    assert campaign.add(table(("a", "x", 3.0)), source="test").repeats == 1
    assert campaign.state(0.0).log.value.tolist() == [5.0, 2.0, 7.0, 3.0]
    found = [(line.source, line.row, line.value, line.correction) for line in campaign.history()]
    assert found == [
        ("test", "a", 1.0, False),
        ("test", "b", 5.0, False),
        ("test", "a", 2.0, False),
        ("fix", "a", 2.0, True),
        ("fix", "c", 7.0, False),
        ("test", "a", 3.0, False),
    ]


def test_failed(create):
    campaign = create()
    campaign.add(table(("a", "x", "failed"), ("b", "x", 1.0), ("c", "x", "failed")), source="test")
    assert named(campaign.state(0.0).log, "failed") == [("a", "x"), ("c", "x")]
    with refused("('b', 'x')", "failed", "1.0", "--correct", "line 2"):
        campaign.add(table(("b", "x", "failed")), source="test")
    added = campaign.add(table(("b", "x", "failed")), source="test", corrections=True)
    assert (added.corrected, added.failed) == (1, 0)
    assert campaign.add(table(("a", "x", 4.0)), source="test").values == 1
    loaded = campaign.state(0.0).log
    assert named(loaded, "failed") == [("c", "x"), ("b", "x")]
    assert told(loaded) == [("a", "x", 4.0)]
    ask(campaign, "t", ("c", "x"))  # a failed entry may come again
    assert campaign.add(table(("c", "x", "failed")), source="test").failed == 1
    assert named(campaign.state(0.0).log, "pending") == []
    ask(campaign, "u", ("c", "x"))  # an ask that is withdrawn leaves the outcome before it
    assert campaign.add(table(("c", "x", "withdrawn")), source="test").withdrawn == 1
    assert named(campaign.state(0.0).log, "failed") == [("b", "x"), ("c", "x")]


def test_pending_and_withdrawn(create):
    campaign = create()
    added = campaign.add(
        table(("a", "x", "pending"), ("b", "x", "pending"), ("c", "x", 1.0)), source="test"
    )
    assert (added.pending, added.values) == (2, 1)
    loaded = campaign.state(1e12).log
    assert named(loaded, "pending") == [("a", "x"), ("b", "x")]
    assert loaded.last_suggestions == []
    added = campaign.add(table(("b", "x", "withdrawn"), ("c", "x", "withdrawn")), source="test")
    assert (added.withdrawn, added.unchanged) == (1, 1)
    assert named(campaign.state(0.0).log, "pending") == [("a", "x")]
    assert campaign.add(table(("a", "x", 2.0)), source="test").values == 1
    assert named(campaign.state(0.0).log, "pending") == []
    with refused("('a', 'x')", "pending", "2.0", "repeats"):
        campaign.add(table(("a", "x", "pending")), source="test")
    kinds = [kind for (kind,) in campaign._database.execute("SELECT kind FROM events")]
    assert kinds == ["created", "told", "announced", "told", "told"]


def test_an_announcement_outlives_an_ask_that_expires(create, clock):
    campaign = create()
    campaign.add(table(row_ids=["a"], column_ids=["x"]), source="test")
    ask(campaign, "t", ("a", "x"), expires=2000.0)
    assert campaign.add(table(("a", "x", "pending")), source="test").pending == 1
    assert campaign.add(table(("a", "x", "pending")), source="test").unchanged == 1
    assert named(campaign.state(3000.0).log, "pending") == [("a", "x")]


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf, "lost"])
def test_a_bad_record_names_its_place(create, what):
    campaign = create()
    with refused("assay.csv, line 3: the entry ('b\\n', 'x')", "failed"):
        campaign.add(table(("a", "x", 1.0), ("b\n", "x", what)), source="test")
    assert campaign.position() == 1
    assert campaign.ids(ROW) == []
