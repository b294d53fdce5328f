"""A campaign in Python: what is asked is free, and what is told is heeded."""

import time

import numpy as np
import pytest
from campaigning import COLUMNS, KNOWN, OPEN, ROWS, TRUTH, dump, pairs, refused, write

from smc_jax.campaign import forecast
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.plates import Plates


def test_the_example_of_the_readme(tmp_path):
    table = write(tmp_path / "assay.csv", KNOWN, ("drug", "target", "activity"))
    campaign = Campaign.new(
        tmp_path / "assay.db", table, rows="drug", columns="target", value="activity", rank=2
    )
    batch = campaign.ask(8)
    assert {(one.row, one.column) for one in batch} <= OPEN
    campaign.tell([(one.row, one.column, TRUTH[one.row, one.column]) for one in batch])
    assert campaign.status().known == len(KNOWN) + 8
    assert not set(pairs(campaign.ask(8))) & set(pairs(batch))
    campaign.disconnect()


def test_everything_open_is_asked_once_and_then_nothing(new):
    campaign, asked = new(), []
    for _ in range(len(OPEN) // 8):
        batch = campaign.ask(8)
        assert len(batch) == 8
        for one in batch:
            assert one.low < one.mean < one.high
            assert one.sd > 0.0
            assert 0.0 <= one.probability <= 1.0
            assert one.reason
        asked += pairs(batch)
    assert len(asked) == len(set(asked))
    assert set(asked) == OPEN
    with refused("no entry is open", "40 of 80 are known, 40 pending"):
        campaign.ask(1)
    campaign.tell([(*asked[0], "withdrawn")])
    assert pairs(campaign.ask(8)) == asked[:1]


def test_a_huge_number_is_what_is_open(new):
    campaign = new(budget=2**32 - 1)
    assert len(campaign.best(8)) == 8
    own = [(row, column) for row, column in OPEN if row == "d3"]
    assert set(pairs(campaign.ask(10**12, rows=["d3"]))) == set(own)
    empty = new([], name="empty.db")
    assert len(empty.ask(10**12)) == 80


def test_a_failed_entry_comes_again_only_if_that_is_wanted(new):
    campaign = new()
    own = [(row, column) for row, column in OPEN if row == "d2"]
    campaign.tell([(*pair, "failed") for pair in own])
    assert campaign.sizes()["failed"] == len(own) == 5
    with refused("no entry is open", "5 failed or closed"):
        campaign.ask(8, rows=["d2"])
    campaign.set(retry_failed=True)
    assert set(pairs(campaign.ask(8, rows=["d2"]))) == set(own)


def test_only_some_rows_and_columns_and_what_is_closed(new):
    campaign = new()
    found = pairs(campaign.best(8, rows=["d0", "d1"], columns=["t1", "t2", "t3"]))
    assert set(found) == {("d0", "t1"), ("d0", "t3"), ("d1", "t2")}
    closed = [("d0", None), (None, "t2"), ("d3", "t4")]
    assert campaign.close([(None, "t9")]) == 1
    for row, column in pairs(campaign.best(8, closed=closed)):
        assert row != "d0"
        assert column not in ("t2", "t9")
        assert (row, column) != ("d3", "t4")
    with refused("no entry is open"):
        campaign.best(8, columns=["t9"])
    assert campaign.reopen([(None, "t9"), (None, "t8")]) == 1
    assert campaign.best(8, columns=["t9"])
    assert campaign.close([("d0", "t1")]) == 1
    assert ("d0", "t1") not in pairs(campaign.best(8, rows=["d0"]))
    with refused("'d00'", "did you mean 'd0'"):
        campaign.ask(8, rows=["d00"])
    with refused("no entry is open"):
        campaign.ask(8, rows=[])


@pytest.mark.parametrize("known", [[], KNOWN], ids=["designed", "fitted"])
@pytest.mark.parametrize("axis", ["row", "column"])
def test_a_plate_shares_a_row_or_a_column(new, known, axis):
    campaign = new(known)
    found = pairs(campaign.ask(4, plate=Plates(axis)))
    assert len(set(found)) == 4
    assert len({pair[axis == "column"] for pair in found}) == 1


@pytest.mark.parametrize("known", [[], KNOWN], ids=["designed", "fitted"])
def test_a_plate_of_groups(new, known):
    campaign = new(known)
    groups = {"t0": "A", "t1": "A", "t2": "B", "t3": "B"}
    found = pairs(campaign.ask(4, plate=Plates("column", groups)))
    assert len(set(found)) == 4
    assert len({groups[column] for _, column in found}) == 1
    before = dump(campaign._storage.path)
    with refused("plate: no entry of any plate is open"):
        campaign.ask(4, plate=Plates("column", groups), columns=["t7"])
    with refused("plate: none of the grouped ids"):
        campaign.ask(4, plate=Plates("column", {"x": "A"}))
    with refused("plate: must be row, column"):
        campaign.ask(4, plate=Plates("diagonal"))
    assert dump(campaign._storage.path) == before


def test_new_ids_come_at_any_time(new):
    campaign = new([])
    campaign.ask(8)
    added = campaign.add(columns=["t10", "t0"])
    assert (added.new_rows, added.new_columns) == (0, 1)
    assert {column for _, column in pairs(campaign.ask(8, columns=["t10"]))} == {"t10"}
    campaign.tell([("d8", "t11", 1.5)])
    assert campaign.sizes() | {"pending": 0} == {
        "rows": 9, "columns": 12, "known": 1, "pending": 0, "failed": 0,
    }  # fmt: skip
    assert ("d8", "t10") in pairs(campaign.ask(20, rows=["d8"]))


def test_low_values_are_wanted_as_high_ones_are(new):
    high, low = (
        new([(row, column, sign * value) for row, column, value in KNOWN], name=name, maximise=up)
        for sign, name, up in ((1.0, "high.db", True), (-1.0, "low.db", False))
    )
    for one, other in zip(high.ask(8), low.ask(8), strict=True):
        assert (one.row, one.column) == (other.row, other.column)
        expected = -other.mean, other.sd, -other.high, -other.low, other.probability, other.gain
        np.testing.assert_allclose(one[2:-1], expected, rtol=1e-6)
    assert high.status().best_value == -low.status().best_value == max(v for *_, v in KNOWN)


def test_a_table_with_more_rows_than_columns(new):
    wide = new(name="wide.db")
    turned = [(column, row, value) for row, column, value in KNOWN]
    tall = new(turned, name="tall.db", rows=COLUMNS, columns=ROWS)
    for one, other in zip(wide.ask(8), tall.ask(8), strict=True):
        assert (one.row, one.column) == (other.column, other.row)
        assert one[2:] == other[2:]
    closed = [("t1", None), (None, "d1")]
    found = pairs(tall.ask(8, rows=COLUMNS[:5], columns=ROWS[:5], closed=closed))
    assert {row for row, _ in found} <= set(COLUMNS[:5]) - {"t1"}
    assert {column for _, column in found} <= set(ROWS[:5]) - {"d1"}
    assert len({column for _, column in pairs(tall.ask(4, plate=Plates("column")))}) == 1
    asked = [("t0", "d1"), ("t9", "d7")]
    swapped = [(column, row) for row, column in asked]
    assert [one.known for one in tall.predict(asked)][1] != tall.predict(asked)[0].known
    assert [(one.column, one.row) for one in tall.predict(asked)] == swapped


def test_repeats_are_averaged_and_corrections_replace(new):
    campaign = new(repeats=True)
    row, column, value = KNOWN[0]
    campaign.tell([(row, column, value + 1.0)])
    known = campaign.predict([(row, column)])[0].known
    np.testing.assert_allclose(known, value + 0.5, rtol=1e-6)
    assert campaign.status().values == len(KNOWN) + 1
    assert campaign.status().known == len(KNOWN)
    added = campaign.tell([(row, column, 7.0)], correct=True)
    assert added.corrected == 1
    np.testing.assert_allclose(campaign.predict([(row, column)])[0].known, 7.0, rtol=1e-6)
    once = new(name="once.db")
    with refused("answer 2", repr(value), "4.0", "--correct"):
        once.tell([("d0", "t1", 1.0), (row, column, 4.0)])
    assert once.sizes()["known"] == len(KNOWN)  # all of them or none
    assert once.tell([(row, column, value)]).unchanged == 1


def test_what_expires_is_free_again(new, monkeypatch):
    campaign, now = new([]), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    campaign._storage._clock = lambda: now
    first = pairs(campaign.ask(50, expires=2.0))
    kept = pairs(campaign.ask(20))
    assert campaign.sizes()["pending"] == 70
    now += 3601.0
    assert campaign.sizes()["pending"] == 70
    now += 3600.0
    assert campaign.sizes()["pending"] == 20
    assert set(pairs(campaign.ask(80))) == set(TRUTH) - set(kept)
    campaign.tell([(*first[0], 1.0)])  # late, and welcome
    assert campaign.sizes()["known"] == 1


def first_entries(new, side):
    """For ten seeds, how often each row (0) or column (1) of 6 x 8 is among 24 first entries."""
    counts = []
    for seed in range(10):
        campaign = new([], name=f"{seed}.db", rows=ROWS[:6], columns=COLUMNS[:8], seed=seed)
        found = pairs(campaign.ask(24))
        assert len(set(found)) == 24
        assert np.isnan(campaign.status().chance)
        ids = (ROWS[:6], COLUMNS[:8])[side]
        counts.append([sum(pair[side] == one for pair in found) for one in ids])
    return np.array(counts)


def test_the_first_entries_are_spread_over_columns(new):
    assert (np.ptp(first_entries(new, 1), axis=1) <= 1).all()


def test_the_first_entries_are_spread_over_rows(new):
    assert (np.ptp(first_entries(new, 0), axis=1) <= 1).all()


def test_values_that_are_all_alike_say_nothing(new):
    campaign = new([(row, column, 3.0) for row, column, _ in KNOWN])
    batch = campaign.ask(8)
    assert set(pairs(batch)) <= OPEN
    assert all(np.isnan(one.mean) for one in batch)
    with refused("predict", "all alike"):
        campaign.predict([("d0", "t0")])
    assert "Too little" in campaign.status().advice


def test_an_entry_has_one_forecast_wherever_it_is_shown(new):
    """To the rounding of float32: asks are written to the log, and nothing is told."""
    campaign = new()
    shown = [
        *campaign.ask(4),
        *campaign.best(8, refit=True),
        *campaign.ask(2, columns=["t1", "t2"]),
    ]
    now, survey, status = campaign._survey()
    shown.append(status.best)
    predicted = campaign.predict(pairs(shown))
    campaign.ask(1)
    assert repr(predicted) == repr(campaign.predict(pairs(shown)))
    figures, expected = ([one[2:6] for one in found] for found in (shown, predicted))
    np.testing.assert_allclose(figures, expected, rtol=1e-5, atol=1e-5)
    units = now.fitted.forecast.matrix.units
    mapped = [
        units.back(survey.mean[ROWS.index(one.row), COLUMNS.index(one.column)]) for one in shown
    ]
    np.testing.assert_allclose(mapped, [one.mean for one in predicted], rtol=1e-5, atol=1e-5)


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
        "New row: 'd0x' (close to 'd0': if that is meant, correct the table)",
        "New row: 'zz'",
        "New column: 'new'",
    ]
    campaign.tell([])
    assert [note[:16] for note in campaign.notes] == ["Nothing was told"]


def test_known_noise_compiles_once_while_values_come_in(new):
    campaign = new(noise=0.1)
    engines = set()
    for _ in range(3):
        now = campaign._snapshot()
        engines.add(forecast.engine_of(now.matrix, campaign.settings))
        batch = campaign.ask(4)
        campaign.tell([(*pair, TRUTH[pair]) for pair in pairs(batch)])
    assert len(engines) == 1
    assert engines.pop().fit._cache_size() == 1
