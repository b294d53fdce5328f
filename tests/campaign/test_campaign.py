"""A campaign in Python: what is asked is free, what is told is heeded, and the file is all."""

import shutil

import numpy as np
import pytest
from campaigning import COLUMNS, KNOWN, OPEN, ROWS, TRUTH, counting, dump, pairs, refused, write

from smc_jax.campaign import forecast, reading
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
    for _ in range(len(OPEN) // 7):
        batch = campaign.ask(7)
        assert len(batch) == 7
        for one in batch:
            assert one.low < one.mean < one.high
            assert one.sd > 0.0
            assert 0.0 <= one.probability <= 1.0
            assert one.reason
        asked += pairs(batch)
    assert len(asked) == len(set(asked))
    assert set(asked) == OPEN
    with refused("no entry is open", "28 of 56 are known, 28 pending"):
        campaign.ask(1)
    campaign.tell([(*asked[0], "withdrawn")])
    assert pairs(campaign.ask(8)) == asked[:1]


def test_a_huge_number_is_what_is_open(new):
    campaign = new(budget=2**32 - 1)
    assert len(campaign.best(7, columns=["t0", "t1"])) == 7
    own = [(row, column) for row, column in OPEN if row == "d3"]
    assert set(pairs(campaign.ask(10**12, rows=["d3"]))) == set(own)
    empty = new([], name="empty.db")
    assert len(empty.ask(10**12)) == 56


def test_a_failed_entry_comes_again_only_if_that_is_wanted(new):
    campaign = new()
    own = [(row, column) for row, column in OPEN if row == "d2"]
    campaign.tell([(*pair, "failed") for pair in own])
    assert campaign.sizes()["failed"] == len(own) == 4
    with refused("no entry is open", "4 failed"):
        campaign.ask(8, rows=["d2"])
    campaign.set(retry_failed=True)
    assert set(pairs(campaign.ask(8, rows=["d2"]))) == set(own)


def test_only_some_rows_and_columns_and_what_is_closed(new):
    campaign = new()
    found = pairs(campaign.best(8, rows=["d0", "d1"], columns=["t1", "t2", "t3"]))
    assert set(found) == {("d0", "t1"), ("d0", "t3"), ("d1", "t2")}
    closed = [("d0", None), (None, "t2"), ("d3", "t4")]
    assert campaign.close([(None, "t7")]) == 1
    for row, column in pairs(campaign.best(8, closed=closed)):
        assert row != "d0"
        assert column not in ("t2", "t7")
        assert (row, column) != ("d3", "t4")
    with refused("no entry is open"):
        campaign.best(8, columns=["t7"])
    assert campaign.reopen([(None, "t7"), (None, "t6")]) == 1
    assert campaign.best(8, columns=["t7"])
    assert campaign.close([("d0", "t1")]) == 1
    assert ("d0", "t1") not in pairs(campaign.best(8, rows=["d0"]))
    with refused("'d00'", "did you mean 'd0'"):
        campaign.ask(8, rows=["d00"])
    with refused("no entry is open"):
        campaign.ask(8, rows=[])


@pytest.mark.parametrize("known", [[], None], ids=["designed", "fitted"])
@pytest.mark.parametrize("axis", ["row", "column"])
def test_a_plate_shares_a_row_or_a_column(new, known, axis):
    campaign = new(known)
    found = pairs(campaign.ask(4, plate=Plates(axis)))
    assert len(set(found)) == 4
    assert len({pair[axis == "column"] for pair in found}) == 1


@pytest.mark.parametrize("known", [[], None], ids=["designed", "fitted"])
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


def test_low_values_are_wanted_as_high_ones_are(new):
    high, low = (
        new([(row, column, sign * value) for row, column, value in KNOWN], name=name, maximise=up)
        for sign, name, up in ((1.0, "high.db", True), (-1.0, "low.db", False))
    )
    for one, other in zip(high.ask(8), low.ask(8), strict=True):
        assert (one.row, one.column) == (other.row, other.column)
        expected = -other.mean, other.sd, -other.high, -other.low, other.probability, other.gain
        np.testing.assert_allclose(one[2:8], expected, rtol=1e-6)
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
    asked = [("t0", "d1"), ("t6", "d6")]
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


def test_an_entry_has_one_forecast_wherever_it_is_shown(new):
    """To the rounding of float32: asks are written to the log, and nothing is told."""
    campaign = new()
    shown = [
        *campaign.ask(3),
        *campaign.best(2, refit=True),
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


def test_known_noise_compiles_once_while_values_come_in(new):
    campaign, left, engines = new(noise=0.12), sorted(OPEN), set()
    for _ in range(3):
        now = campaign._snapshot()
        programs = forecast.engine_of(now.matrix, campaign.settings)
        programs.fit(now.keys.fit, now.matrix.data)
        engines.add(programs)
        campaign.tell([(*pair, TRUTH[pair]) for pair in (left.pop() for _ in range(4))])
    assert len(engines) == 1
    assert engines.pop().fit._cache_size() == 1


def test_the_file_alone_reproduces_the_next_suggestions(new, tmp_path):
    campaign = new()
    campaign.ask(4, token="first")
    campaign.tell([(*pair, TRUTH[pair]) for pair in pairs(campaign.ask(4, token="first"))[:2]])
    campaign.ask(1)  # the fit is in the cache
    campaign.disconnect()
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "campaign.db", tmp_path / "elsewhere" / "copy.db")
    assert (tmp_path / "campaign.db-fit.npz").exists()
    with (
        Campaign(tmp_path / "campaign.db") as own,
        Campaign(tmp_path / "elsewhere" / "copy.db") as copy,
    ):
        own_fits, fits = counting(own), counting(copy)
        assert list(own.ask(8)) == list(copy.ask(8))
        assert (len(own_fits), len(fits)) == (0, 1)
        for one in (lambda c: c.status(), lambda c: c.predict([("d0", "t1")])):
            assert repr(one(own)) == repr(one(copy))  # NaN differs from itself


def best_anew(path, **how):
    """What a process that has just opened the campaign suggests, after one fit."""
    with Campaign(path) as campaign:
        fits = counting(campaign)
        found = campaign.best(8, **how)
        assert len(fits) == 1
    return found


# NumPy leaves a file open that is no whole zip, and `forecast._read` hands it a path.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_or_foreign_cache_is_ignored(new, tmp_path):
    campaign, cache = new(), tmp_path / "campaign.db-fit.npz"
    other = new([(row, column, -value) for row, column, value in KNOWN], name="other.db")
    expected, _ = campaign.best(8), other.best(8)
    whole, foreign = cache.read_bytes(), (tmp_path / "other.db-fit.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[whole.rindex(b"NUMPY") + 20] ^= 255  # inside an array
    for content in (b"", b"garbage" * 100, whole[:-100], whole[: len(whole) // 2], bytes(flipped)):
        cache.write_bytes(content)
        assert best_anew(tmp_path / "campaign.db") == expected
        assert cache.read_bytes() == whole  # made again
    cache.write_bytes(foreign)
    assert best_anew(tmp_path / "campaign.db", refit=True) == expected
    cache.unlink()
    cache.mkdir()  # cannot be written: costs the fit, and nothing else
    assert best_anew(tmp_path / "campaign.db") == expected


def test_a_new_campaign_does_not_heed_the_cache_of_an_older_one(new, tmp_path):
    new(name="other.db").best(8)
    shutil.copy(tmp_path / "other.db-fit.npz", tmp_path / "campaign.db-fit.npz")
    campaign = new([(row, column, -value) for row, column, value in KNOWN])
    fits = counting(campaign)
    campaign.best(8)
    assert len(fits) == 1


def test_best_leaves_no_trace_and_is_what_ask_suggests(new, tmp_path):
    campaign = new()
    before = dump(tmp_path / "campaign.db")
    found = campaign.best(8)
    assert found == campaign.best(8)
    assert dump(tmp_path / "campaign.db") == before
    assert list(campaign.ask(8)) == found


def test_an_earlier_fit_heeds_new_answers_and_new_columns(new):
    campaign = new(KNOWN)
    fits = counting(campaign)
    first = campaign.ask(4)
    assert len(fits) == 1
    target = first[0]
    before = campaign.best(8, refit=False)
    # A column that was poor so far is told to be excellent: the fit is old, the answers count.
    campaign.tell([(target.row, target.column, 20.0)])
    after = campaign.best(8, refit=False, columns=[target.column])
    old = {(one.row, one.column): one.mean for one in before}
    moved = [abs(one.mean - old[one.row, one.column]) for one in after if pairs([one])[0] in old]
    assert max(moved, default=np.inf) > 0.1
    campaign.tell([("d0", "t10", 2.0), ("d1", "t10", 1.0)])
    found = campaign.ask(8, columns=["t10"], refit=False)
    assert {column for _, column in pairs(found)} == {"t10"}
    assert {row for row, _ in pairs(found)} == set(ROWS[2:])
    assert not any(np.isnan(one.mean) for one in found)
    assert len(fits) == 1
    assert campaign._storage._database.execute(
        "SELECT fitted_at < position FROM asks ORDER BY event DESC LIMIT 1"
    ).fetchone() == (1,)


def same(one, other):
    """Whether two logs, or parts of them, say the same."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tolist() == other.tolist()
    return repr(one) == repr(other)  # NaN differs from itself


@pytest.mark.parametrize("turned", [False, True], ids=["wide", "tall"])
def test_after_an_ask_nothing_is_read_again_and_nothing_is_missed(new, tmp_path, turned):
    """What an ask adds to what is in memory is what reading the file again would."""
    known = [(column, row, value) for row, column, value in KNOWN] if turned else KNOWN
    rows, columns = (COLUMNS, ROWS) if turned else (ROWS, COLUMNS)
    campaign = new(known, rows=rows, columns=columns)
    read, state = [], campaign._storage.state

    def counted(now):
        read.append(now)
        return state(now)

    campaign._storage.state = counted
    campaign.ask(2, token="first")
    campaign.ask(2, expires=2.0)
    campaign.ask(3, columns=columns[:4], refit=False)
    assert len(read) == 1
    with Campaign(tmp_path / "campaign.db") as other:
        kept, fresh = campaign._snapshot(), other._snapshot()
        assert len(read) == 1
        for name in kept.log._fields:
            assert same(getattr(kept.log, name), getattr(fresh.log, name)), name
        for name in ("known", "pending", "blocked"):
            np.testing.assert_array_equal(getattr(kept.matrix, name), getattr(fresh.matrix, name))
        assert repr(campaign.best(4)) == repr(other.best(4))
        other.ask(1)
        campaign.ask(1)  # reads what the other has written
        assert len(read) == 2
        assert campaign.sizes()["pending"] == 9


def test_an_ask_goes_by_one_state_of_the_file(new, tmp_path, monkeypatch):
    """Another process changes settings and tells an answer while the log is read."""
    campaign, read = new(), reading._read
    asked = campaign.ask(4)
    with Campaign(tmp_path / "campaign.db") as other:

        def interrupted(database):
            monkeypatch.setattr(reading, "_read", read)
            found = read(database)
            other.set(retry_failed=True)
            other.tell([(asked[0].row, asked[0].column, 1.0)])
            return found

        campaign._kept = None
        monkeypatch.setattr(reading, "_read", interrupted)
        before = campaign._snapshot()
        assert not before.settings["retry_failed"]
        assert before.answered.value.size == 0
        assert before.log.position == other._storage.position() - 2
        assert before.log.pending_row.size == 4
        after = campaign._snapshot()
        assert after.settings["retry_failed"]
        assert after.answered.value.tolist() == [1.0]


def test_a_name_that_nobody_gave_is_that_of_the_table(tmp_path):
    """So that the same table can be told again."""
    table = tmp_path / "assay.csv"
    table.write_text("drug,target,affinity\na,x,1.5\nb,x,2.5\n")
    with Campaign.new(tmp_path / "own.db", table, rows="drug", columns="target") as campaign:
        assert campaign.names == ("drug", "target", "affinity")
        campaign.tell(table)
        assert campaign.sizes()["known"] == 2
