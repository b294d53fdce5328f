"""A campaign in Python: the file is all, and several objects may work on it."""

import shutil

import numpy as np
import pytest
from campaigning import COLUMNS, KNOWN, OPEN, ROWS, TRUTH, counting, dump, pairs, refused

from smc_jax.campaign import reading
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.plates import Plates


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
    flipped[len(whole) // 2] ^= 255
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
    campaign = new()
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
