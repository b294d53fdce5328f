"""A campaign in Python, as far as it needs no model."""

import time

import numpy as np
import pytest
from campaigning import COLUMNS, KNOWN, OPEN, ROWS, TRUTH, pairs, refused

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.plates import Plates


def test_new_ids_come_at_any_time(new):
    campaign = new([])
    campaign.ask(8)
    added = campaign.add(columns=["t10", "t0"])
    assert (added.new_rows, added.new_columns) == (0, 1)
    assert {column for _, column in pairs(campaign.ask(8, columns=["t10"]))} == {"t10"}
    campaign.tell([("d8", "t11", 1.5)])
    assert campaign.sizes() | {"pending": 0} == {
        "rows": 8, "columns": 10, "known": 1, "pending": 0, "failed": 0, "open": 64,
    }  # fmt: skip
    assert ("d8", "t10") in pairs(campaign.ask(20, rows=["d8"]))


def test_what_expires_is_free_again(new, monkeypatch):
    campaign, now = new([]), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    campaign._storage._clock = lambda: now
    first = pairs(campaign.ask(30, expires=2.0))
    kept = pairs(campaign.ask(20))
    assert campaign.sizes()["pending"] == 50
    now += 3601.0
    assert campaign.sizes()["pending"] == 50
    now += 3600.0
    assert campaign.sizes()["pending"] == 20
    assert set(pairs(campaign.ask(80))) == set(TRUTH) - set(kept)
    campaign.tell([(*first[0], 1.0)])  # late, and welcome
    assert campaign.sizes()["known"] == 1


@pytest.fixture(scope="module")
def first_entries(tmp_path_factory):
    """For ten seeds, the 24 first entries of 6 x 8."""
    found, folder = [], tmp_path_factory.mktemp("first")
    for seed in range(10):
        with Campaign.new(folder / f"{seed}.db", seed=seed) as campaign:
            campaign.add(rows=ROWS[:6], columns=COLUMNS[:8])
            found.append(pairs(campaign.ask(24)))
            assert len(set(found[-1])) == 24
            assert np.isnan(campaign.status().chance)
    return found


@pytest.mark.parametrize(
    ("side", "ids"), [(0, ROWS[:6]), (1, COLUMNS[:8])], ids=["rows", "columns"]
)
def test_the_first_entries_are_spread_over_both_sides(first_entries, side, ids):
    for entries in first_entries:
        counts = [sum(pair[side] == one for pair in entries) for one in ids]
        assert np.ptp(counts) <= 1


def test_values_that_are_all_alike_say_nothing(new):
    campaign = new([(row, column, 3.0) for row, column, _ in KNOWN])
    batch = campaign.ask(8)
    assert set(pairs(batch)) <= OPEN
    assert all(np.isnan(one.mean) for one in batch)
    with refused("predict", "all alike"):
        campaign.predict([("d0", "t0")])
    assert "Too little" in campaign.status().advice


def test_a_tell_notes_what_the_command_prints(new, tmp_path):
    campaign = new([])
    campaign.ask(2).save(tmp_path / "next.csv")
    told = campaign.tell(tmp_path / "next.csv")
    assert (told.values, told.unchanged) == (0, 0)
    assert "2 lines have no value yet." in campaign.notes
    assert "Nothing was told: no entry has a value yet, and none failed." in campaign.notes
    campaign.tell([("d0", "t0", 1.0)])
    assert campaign.notes == []
    campaign.tell([("d0", "t1", 1.0), ("d0x", "t0", 2.0), ("zz", "t0", 2.0), ("d0", "new", 0.5)])
    assert campaign.notes == [
        "New row: 'd0x' (close to 'd0': if that is meant, tell the corrected table, and close this"
        " row with smc-jax close)",
        "New row: 'zz'",
        "New column: 'new'",
    ]
    campaign.tell([])
    assert [note[:16] for note in campaign.notes] == ["Nothing was told"]


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        ("D12", "close to 'd12'"),  # another case
        ("d l2", "close to 'd12'"),  # a blank, and a letter for a digit
        ("d-12", "close to 'd12'"),
        ("t0", "there is a column of this name: are the two swapped?"),
        ("---", None),
    ],
)
def test_a_new_id_that_may_be_a_mistake_is_noted(new, row, hint):
    campaign = new([], rows=["d12", "x7"])
    campaign.tell([(row, "t0", 1.0)])
    (note,) = campaign.notes
    assert note.startswith(f"New row: {row!r}")
    assert note.endswith(f"New row: {row!r}") if hint is None else hint in note


def test_two_objects_see_what_the_other_writes(new, tmp_path):
    one = new([])
    with Campaign(tmp_path / "campaign.db") as other:
        asked = pairs(one.ask(8))
        assert other.sizes()["pending"] == 8
        assert not set(pairs(other.ask(8))) & set(asked)
        assert one.sizes()["pending"] == 16
        other.tell([(*asked[0], 1.0), (*asked[1], "failed")])
        assert one.sizes()["known"] == 1
        other.set(retry_failed=True)
        assert asked[1] in pairs(one.ask(80))
        assert one.settings["retry_failed"]


def test_a_token_gives_the_same_suggestions(new):
    campaign = new([])
    batch = campaign.ask(4, token="monday")
    campaign.tell([(*pairs(batch)[0], 1.0)])
    again = campaign.ask(4, token="monday")
    assert pairs(again) == pairs(batch)
    with refused("token", "'monday'", "another number"):
        campaign.ask(8, token="monday")
    with refused("token", "another rows and another plate"):
        campaign.ask(4, token="monday", rows=["d1"], plate=Plates("row"))
    assert again.token == "monday"
    assert campaign.ask(1).token != campaign.ask(1).token


def test_a_few_columns_of_a_table_are_all_that_is_looked_at(new):
    wide, tall = new(name="wide.db"), new([], name="tall.db", rows=COLUMNS, columns=ROWS)
    closed = [("d1", "t2"), ("d0", "t3")]
    found = wide._snapshot().offered(columns=["t7", "t2", "t7"], closed=closed)
    assert found.columns.tolist() == [2, 7]
    expected = [[(row, column) in OPEN for column in ("t2", "t7")] for row in ROWS]
    expected[1][0] = False
    np.testing.assert_array_equal(found.open, expected)
    assert found.everything == len(OPEN)
    turned = tall._snapshot().offered(rows=["t4"], columns=["d1", "d2"], closed=[(None, "d2")])
    assert turned.columns.tolist() == [4]
    assert np.flatnonzero(turned.open).tolist() == [1]


def test_an_ask_that_another_process_overtook_begins_again(new, tmp_path):
    campaign = new([])
    with Campaign(tmp_path / "campaign.db") as other:
        record, taken = campaign._storage.record_ask, []

        def overtaken(token, found, **rest):
            if not taken:
                wanted = [(row, column, suggestion) for row, column, suggestion in found]
                taken.extend(suggestion for *_, suggestion in wanted)
                other._storage.record_ask("theirs", wanted, **rest)
            return record(token, found, **rest)

        campaign._storage.record_ask = overtaken
        own = pairs(campaign.ask(8))
        assert len(own) == 8
        assert not set(own) & set(pairs(taken))
