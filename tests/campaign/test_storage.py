"""One file a campaign: nothing told is lost, nothing is asked twice, every error is one line."""

import collections
import contextlib
import os
import pathlib
import random
import select
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from smc_jax.campaign import log, schema, storage
from smc_jax.campaign.storage import Conflict, Storage, TokenTaken
from smc_jax.campaign.types import COLUMN, ROW, CampaignError, OpenAsk, Records, Suggestion

PACKAGE = pathlib.Path(schema.__file__).resolve().parent.parent
PATIENCE = 300.0  # seconds; a machine under load is slow, and only a hang takes this long


def table(*lines, row_ids=(), column_ids=()):
    """Records of (row, column, number or kind)."""
    kinds = [what if isinstance(what, str) else "value" for _, _, what in lines]
    values = [np.nan if isinstance(what, str) else what for _, _, what in lines]
    rows, columns = [line[0] for line in lines], [line[1] for line in lines]
    return Records(
        rows,
        columns,
        kinds,
        np.array(values, float),
        lambda line: f"assay.csv, line {line + 2}",
        [*row_ids, *dict.fromkeys(rows)],
        [*column_ids, *dict.fromkeys(columns)],
        [],
    )


def suggestion(row, column, mean=np.nan):
    return Suggestion(row, column, mean, 1.0, mean - 1.6, mean + 1.6, 0.5, 0.1, "it is uncertain")


class Clock:
    """Seconds that a test sets."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def new(tmp_path, clock):
    """Makes campaigns."""
    with contextlib.ExitStack() as stack:

        def create(**settings):
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.campaign"
            return stack.enter_context(Storage.create(path, settings, "test", clock=clock))

        yield create


def ask(campaign, token, *pairs, expires=None, position=None, mean=np.nan):
    campaign.record_ask(
        token,
        [
            (
                campaign.number_of(ROW, row),
                campaign.number_of(COLUMN, column),
                suggestion(row, column, mean),
            )
            for row, column in pairs
        ],
        position=campaign.position() if position is None else position,
        fitted_at=None,
        expires=expires,
        source="test",
    )


def told(loaded):
    """The values that count, by ids."""
    found = zip(loaded.row, loaded.column, loaded.value, strict=True)
    return [(loaded.row_ids[row], loaded.column_ids[column], value) for row, column, value in found]


def named(loaded, what):
    found = zip(getattr(loaded, f"{what}_row"), getattr(loaded, f"{what}_column"), strict=True)
    return [(loaded.row_ids[row], loaded.column_ids[column]) for row, column in found]


@contextlib.contextmanager
def refused(*words):
    """One line that has all the words."""
    with pytest.raises(CampaignError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


# The file.


def test_a_new_campaign_is_one_file_in_wal_mode(tmp_path):
    path = tmp_path / "a ? # %20.campaign"
    with Storage.create(path, {"repeats": True, "goal": "max"}, "init") as campaign:
        assert campaign.settings() == {"repeats": True, "goal": "max"}
        assert campaign.position() == 1
        database = campaign._database
        for pragma, value in [
            ("journal_mode", "wal"),
            ("foreign_keys", 1),
            ("synchronous", 2),
            ("busy_timeout", 60000),
            ("application_id", schema.APPLICATION_ID),
            ("user_version", len(schema.MIGRATIONS)),
        ]:
            assert database.execute(f"PRAGMA {pragma}").fetchone() == (value,), pragma
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_an_existing_file_is_never_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "a.campaign"
    path.write_text("mine")
    with refused(str(path), "exists already"):
        Storage.create(path, {}, "test")
    # Also where it appears while the campaign is being made, and without hard links.
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with refused(str(path), "exists already"):
        Storage.create(path, {}, "test")

    def no_links(*_):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    with refused(str(path), "exists already"):
        Storage.create(path, {}, "test")
    assert path.read_text() == "mine"
    with Storage.create(tmp_path / "b.campaign", {"a": 1}, "test") as campaign:
        assert campaign.settings() == {"a": 1}
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.campaign", "b.campaign"]


def test_a_campaign_that_cannot_be_made_leaves_nothing(tmp_path):
    with refused("'goal'", "cannot be kept"):
        Storage.create(tmp_path / "a.campaign", {"goal": object()}, "test")
    assert list(tmp_path.iterdir()) == []
    with refused("no folder", "create it first"):
        Storage.create(tmp_path / "absent" / "a.campaign", {}, "test")


def test_a_campaign_is_made_from_a_table_or_not_at_all(tmp_path):
    path = tmp_path / "a.campaign"
    with refused("assay.csv, line 3", "1.0", "2.0"):
        Storage.create(path, {}, "test", table(("a", "x", 1.0), ("a", "x", 2.0)))
    assert list(tmp_path.iterdir()) == []
    lines = table(("a", "x", 1.0), ("a", "x", 2.0), ("b", "x", "pending"))
    with Storage.create(path, {"repeats": True}, "test", lines) as campaign:
        loaded = campaign.state(0.0).log
    assert told(loaded) == [("a", "x", 1.0), ("a", "x", 2.0)]
    assert named(loaded, "pending") == [("b", "x")]


def test_what_an_earlier_campaign_left_is_not_read_into_a_new_one(tmp_path):
    left = tmp_path / "a.campaign-wal"
    left.write_bytes(b"frames")
    with refused(str(left), "move it away"):
        Storage.create(tmp_path / "a.campaign", {}, "test")


def make_text(path):
    path.write_text("row,column,value\n" * 100)


def make_other_database(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE films (name)")


def make_newer(path):
    Storage.create(path, {}, "test").disconnect()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")


def make_truncated(path):
    Storage.create(path, {}, "test").disconnect()
    os.truncate(path, path.stat().st_size // 2)


def make_cut_to_its_header(path):
    Storage.create(path, {}, "test").disconnect()
    os.truncate(path, 100)


def make_scribbled(path):
    Storage.create(path, {}, "test").disconnect()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (size - 100))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ("There is no campaign", "create it")),
        (pathlib.Path.mkdir, ("is a folder",)),
        (make_text, ("no SQLite file", "check the path")),
        (pathlib.Path.touch, ("no campaign of smc_jax",)),
        (make_other_database, ("no campaign of smc_jax",)),
        (make_newer, ("has format", "install a newer smc_jax")),
        (make_truncated, ("is damaged", "restore it")),
        (make_cut_to_its_header, ()),  # which fault it is depends on the version of SQLite
        (make_scribbled, ("is damaged", "restore it")),
    ],
    ids=[
        "missing",
        "folder",
        "text",
        "empty",
        "other",
        "newer",
        "truncated",
        "header",
        "scribbled",
    ],
)
def test_what_cannot_be_opened_is_said_in_one_line(tmp_path, make, words):
    path = tmp_path / "a.campaign"
    make(path)
    with refused(str(path), *words):
        Storage.open(path)


@pytest.fixture
def unprivileged_folder():
    """A folder that is not the own one; root gives up its privileges for the test."""
    folder = pathlib.Path(tempfile.mkdtemp())
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if os.name != "posix":
        pytest.skip("permissions of POSIX")
    try:
        yield folder, (lambda: os.seteuid(65534)) if root else (lambda: None)
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_missing_permissions_are_said_in_one_line(unprivileged_folder):
    folder, drop = unprivileged_folder
    path = folder / "a.campaign"
    Storage.create(path, {}, "test").disconnect()
    path.chmod(0o000)
    folder.chmod(0o555)
    drop()
    with refused(str(path), "cannot be opened", "allow"):
        Storage.open(path)
    with refused("b.campaign", "cannot be opened", "folder"):
        Storage.create(folder / "b.campaign", {}, "test")


def test_a_read_only_folder_is_said_in_one_line(unprivileged_folder):
    folder, drop = unprivileged_folder
    path = folder / "a.campaign"
    Storage.create(path, {}, "test").disconnect()
    path.chmod(0o444)
    folder.chmod(0o555)
    drop()
    with refused(str(path), "allow", "folder"):
        Storage.open(path)


def test_a_full_disk_is_said_in_one_line_and_nothing_is_added(new):
    campaign = new()
    (pages,) = campaign._database.execute("PRAGMA page_count").fetchone()
    campaign._database.execute(f"PRAGMA max_page_count = {pages}")
    lines = [(f"row {row}", "a", float(row)) for row in range(2000)]
    with refused("disk is full", "free some space"):
        campaign.add(table(*lines), source="test")
    campaign._database.execute("PRAGMA max_page_count = 1000000")
    assert campaign.position() == 1
    assert campaign.ids(ROW) == []
    assert campaign.add(table(*lines), source="test").values == 2000


def test_a_campaign_in_use_is_said_in_one_line(new):
    campaign = new()
    with Storage.open(campaign.path) as other, other._writing():
        campaign._database.execute("PRAGMA busy_timeout = 1")
        with refused("in use by another process"):
            campaign.set({"a": 1}, "test")
    campaign.set({"a": 1}, "test")


# Versions.

OLDER = """
PRAGMA application_id = 1397572419;
CREATE TABLE events (event INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, kind TEXT);
INSERT INTO events (time, kind) VALUES (1, 'created');
"""
STEP = """
ALTER TABLE events ADD COLUMN source TEXT DEFAULT 'unknown';
CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'only added to');
END;
"""


def state_of(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        return version, database.execute("SELECT * FROM events").fetchall()


def test_an_older_format_is_migrated_in_one_transaction(tmp_path, monkeypatch):
    path = tmp_path / "a.campaign"
    monkeypatch.setattr(schema, "MIGRATIONS", (OLDER,))
    schema.create_file(path, lambda database: None)
    assert state_of(path) == (1, [(1, 1.0, "created")])
    monkeypatch.setattr(schema, "MIGRATIONS", (OLDER, STEP, "CREATE TABLE broken (a, a);\n"))
    with refused(str(path), "duplicate column name"):
        Storage.open(path)
    assert state_of(path) == (1, [(1, 1.0, "created")])
    monkeypatch.setattr(schema, "MIGRATIONS", (OLDER, STEP, "CREATE TABLE plates (plate);\n"))
    for _ in range(2):
        Storage.open(path).disconnect()
        assert state_of(path) == (3, [(1, 1.0, "created", "unknown")])
    monkeypatch.setattr(schema, "MIGRATIONS", (OLDER,))
    with refused("has format 3", "up to 1"):
        Storage.open(path)


def test_the_released_format_does_not_change(new):
    """A change to the first script would leave two formats with one number: add a script."""
    found = new()._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in found} - {"sqlite_sequence"} == set(schema.LOG_TABLES)
    assert schema.MIGRATIONS[0].startswith(f"PRAGMA application_id = {0x534D4343};")


# Only added to.


@pytest.mark.parametrize("name", schema.LOG_TABLES)
def test_nothing_is_overwritten_or_deleted(new, name):
    campaign = new(goal="max")
    campaign.add(table(("a", "x", 1.0), ("a", "y", "pending")), source="test")
    campaign.close([("a", None)], source="test")
    database = campaign._database
    database.execute("INSERT INTO features VALUES (1, 'row', 0, 'mass', 1.5, NULL)")
    before = database.execute(f"SELECT * FROM {name}").fetchall()
    assert before
    for change in (
        f"UPDATE {name} SET event = event",
        f"DELETE FROM {name}",
        f"INSERT OR REPLACE INTO {name} SELECT * FROM {name}",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            database.execute(change)
    assert database.execute(f"SELECT * FROM {name}").fetchall() == before


def test_entries_have_rows_and_columns(new):
    campaign = new()
    campaign.add(table(("a", "x", 1.0)), source="test")
    for row, column in [(1, 0), (0, 1), (-1, 0)]:
        with pytest.raises(sqlite3.IntegrityError, match="has this number"):
            campaign.record_ask(
                "t",
                [(row, column, suggestion("a", "x"))],
                position=2,
                fitted_at=None,
                expires=None,
                source="test",
            )
    assert campaign.position() == 2
    assert campaign.ask_of("t") is None


def test_the_last_setting_holds(new):
    campaign = new(goal="max", repeats=False)
    campaign.set({"goal": ["min", None, 2.5]}, "test")
    assert campaign.settings() == {"goal": ["min", None, 2.5], "repeats": False}
    assert campaign.position() == 2


# Tell.


def test_ids_are_numbered_as_they_come(new):
    campaign = new()
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


def test_a_table_without_values_adds_its_ids(new):
    campaign = new()
    added = campaign.add(table(row_ids=["a", "b"], column_ids=["x"]), source="test")
    assert (added.new_rows, added.new_columns, added.position) == (2, 1, 2)
    again = campaign.add(table(row_ids=["a", "b"], column_ids=["x"]), source="test")
    assert (again.new_rows, again.position) == (0, 2)


def test_a_second_value_is_refused_with_both_values_and_the_fix(new):
    campaign = new()
    campaign.add(table(("a", "x", 1.5)), source="test")
    words = ("assay.csv, line 3", "('a', 'x')", "1.5", "2.5", "--correct", "repeats")
    with refused(*words):
        campaign.add(table(("b", "x", 9.0), ("a", "x", 2.5)), source="test")
    assert campaign.ids(ROW) == ["a"]
    assert told(campaign.state(0.0).log) == [("a", "x", 1.5)]
    assert campaign.position() == 2
    with refused(*words):
        campaign.add(table(("b", "x", 1.5), ("a", "x", 2.5)), source="test")


def test_two_records_of_one_entry_follow_the_rules_one_after_the_other(new):
    with refused("1.0", "2.0"):
        new().add(table(("a", "x", 1.0), ("a", "x", 2.0)), source="test")
    added = new(repeats=True).add(
        table(("a", "x", 1.0), ("a", "x", 2.0), ("a", "x", 1.0)), source="test"
    )
    assert (added.values, added.repeats, added.unchanged) == (1, 2, 0)
    campaign = new()
    added = campaign.add(
        table(("a", "x", "failed"), ("a", "x", 1.0), ("b", "x", "pending"), ("b", "x", 2.0)),
        source="test",
    )
    assert (added.failed, added.values, added.pending) == (1, 2, 0)
    loaded = campaign.state(0.0).log
    assert told(loaded) == [("a", "x", 1.0), ("b", "x", 2.0)]
    assert named(loaded, "failed") == named(loaded, "pending") == []


@pytest.mark.parametrize("repeats", [False, True])
def test_the_same_value_again_is_harmless(new, repeats):
    campaign = new(repeats=repeats)
    lines = table(("a", "x", 0.1 + 0.2), ("b", "x", "failed"), ("c", "x", "pending"))
    campaign.add(lines, source="test")
    position = campaign.position()
    again = campaign.add(lines._replace(values=np.array([0.3, np.nan, np.nan])), source="test")
    assert again.unchanged == 3
    assert again.position == campaign.position() == position
    assert len(told(campaign.state(0.0).log)) == 1


def test_repeats_count_where_they_are_asked_or_lines_of_one_table(new):
    campaign = new(repeats=True)
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


def test_a_correction_replaces_all_values_of_its_entry(new):
    campaign = new(repeats=True)
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


def test_failed(new):
    campaign = new()
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


def test_pending_and_withdrawn(new):
    campaign = new()
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


def test_an_announcement_outlives_an_ask_that_expires(new, clock):
    campaign = new()
    campaign.add(table(row_ids=["a"], column_ids=["x"]), source="test")
    ask(campaign, "t", ("a", "x"), expires=2000.0)
    assert campaign.add(table(("a", "x", "pending")), source="test").pending == 1
    assert campaign.add(table(("a", "x", "pending")), source="test").unchanged == 1
    assert named(campaign.state(3000.0).log, "pending") == [("a", "x")]


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf, "lost"])
def test_a_bad_record_names_its_place(new, what):
    campaign = new()
    with refused("assay.csv, line 3: the entry ('b\\n', 'x')", "failed"):
        campaign.add(table(("a", "x", 1.0), ("b\n", "x", what)), source="test")
    assert campaign.position() == 1
    assert campaign.ids(ROW) == []


# Ask.


def grid(campaign, rows="abc", columns="xyz"):
    campaign.add(table(row_ids=list(rows), column_ids=list(columns)), source="test")
    return campaign


def test_a_repeated_ask_has_the_same_suggestions(new):
    campaign = grid(new())
    asked = [suggestion("b", "x", 2.0), suggestion("a", "z", 1.0)]
    campaign.record_ask(
        "t",
        [(np.int32(1), np.int64(0), asked[0]), (0, 2, asked[1]._replace(mean=np.float32(1.0)))],
        position=campaign.position(),
        fitted_at=1,
        expires=None,
        source="test",
    )
    assert campaign.ask_of("t") == asked
    assert campaign.ask_of("u") is None
    campaign.add(table(("b", "x", 3.0)), source="test")
    assert campaign.ask_of("t") == asked
    with pytest.raises(TokenTaken):
        ask(campaign, "t", ("c", "x"))
    ask(campaign, "none")
    assert campaign.ask_of("none") == []
    ask(campaign, "u", ("c", "y"))
    loaded = campaign.state(0.0).log
    assert [(found.row, found.column) for found in loaded.last_suggestions] == [
        ("c", "y"),
        ("a", "z"),
    ]
    assert np.isnan(loaded.last_suggestions[0].mean)
    assert loaded.asked.tolist() == [True]
    assert loaded.row.dtype == loaded.pending_row.dtype == np.int32


def change(campaign, what):
    match what:
        case "asked":
            ask(campaign, "other", ("b", "y"))
        case "announced":
            campaign.add(table(("b", "y", "pending")), source="test")
        case "told":
            campaign.add(table(("b", "y", 1.0)), source="test")
        case "failed":
            campaign.add(table(("b", "y", "failed")), source="test")
        case "withdrawn":
            campaign.add(table(("b", "y", "pending")), source="test")
            campaign.add(table(("b", "y", "withdrawn")), source="test")
        case "closed":
            campaign.close([("b", "y")], source="test")
        case "row closed":
            campaign.close([("b", None)], source="test")
        case "column closed":
            campaign.close([(None, "y")], source="test")


@pytest.mark.parametrize(
    "what",
    ["asked", "announced", "told", "failed", "withdrawn", "closed", "row closed", "column closed"],
)
def test_what_others_took_is_not_asked(new, what):
    campaign = grid(new(repeats=True))
    seen = campaign.position()
    change(campaign, what)
    position = campaign.position()
    with pytest.raises(Conflict, match=r"\('b', 'y'\)") as caught:
        ask(campaign, "t", ("a", "x"), ("b", "y"), position=seen)
    assert caught.value.pairs == [("b", "y")]
    assert not isinstance(caught.value, CampaignError)
    assert campaign.position() == position
    assert campaign.ask_of("t") is None
    ask(campaign, "t", ("a", "x"), position=seen)  # the log moved, and not here


def test_a_known_entry_is_asked_again_only_with_repeats(new):
    for repeats in (False, True):
        campaign = grid(new(repeats=repeats))
        campaign.add(table(("a", "x", 1.0)), source="test")
        with contextlib.nullcontext() if repeats else pytest.raises(Conflict):
            ask(campaign, "t", ("a", "x"))


def test_an_ask_expires_and_a_late_answer_is_welcome(new, clock):
    campaign = grid(new())
    ask(campaign, "t", ("a", "x"), ("b", "x"), expires=1010.0)
    with pytest.raises(Conflict):
        ask(campaign, "u", ("a", "x"))
    assert named(campaign.state(1010.0).log, "pending") == [("a", "x"), ("b", "x")]
    assert campaign.state(1010.0).log.next_expiry == 1010.0
    assert named(campaign.state(1010.1).log, "pending") == []
    assert campaign.state(1010.1).log.next_expiry == np.inf
    campaign.add(table(("c", "x", "pending")), source="test")
    assert campaign.state(1000.0).log.next_expiry == 1010.0
    campaign.add(table(("c", "x", "withdrawn")), source="test")
    clock.now = 1011.0
    ask(campaign, "u", ("a", "x"), expires=1020.0)
    assert named(campaign.state(1011.0).log, "pending") == [("a", "x")]
    clock.now = 1030.0
    campaign.add(table(("a", "x", 1.0), ("b", "x", 2.0)), source="test")
    loaded = campaign.state(1030.0).log
    assert loaded.asked.tolist() == [True, True]
    assert loaded.time.tolist() == [1030.0, 1030.0]


def test_closing_and_reopening(new):
    campaign = grid(new())
    assert campaign.close([("a", "x"), ("b", None), (None, "z"), ("a", "x")], source="test") == 3
    assert campaign.close([("a", "x")], source="test") == 0
    loaded = campaign.state(0.0).log
    assert named(loaded, "closed") == [("a", "x")]
    assert loaded.closed_rows.tolist() == [False, True, False]
    assert loaded.closed_columns.tolist() == [False, False, True]
    assert campaign.close([("a", "x"), ("b", None)], source="test", closed=False) == 2
    loaded = campaign.state(0.0).log
    assert named(loaded, "closed") == []
    assert not loaded.closed_rows.any()
    position = campaign.position()
    with refused("Neither a row nor a column"):
        campaign.close([("a", "x"), (None, None)], source="test")
    assert campaign.position() == position


def test_an_unknown_id_is_refused_with_close_matches(new):
    campaign = grid(new(), rows=["aspirin", "ibuprofen"])
    with refused("no row 'asprin'", "did you mean 'aspirin'"):
        campaign.close([("ibuprofen", None), ("asprin", "x")], source="test")
    with refused("no column 'qqq'", "spelling"):
        campaign.number_of(COLUMN, "qqq")
    assert not campaign.state(0.0).log.closed_rows.any()


def test_calibration_has_the_first_value_after_each_suggestion(new):
    campaign = grid(new(repeats=True))
    campaign.add(table(("a", "x", 10.0)), source="test")
    ask(campaign, "t", ("a", "x"), ("b", "x"), ("c", "x"), ("a", "y"), mean=5.0)
    ask(campaign, "without a model", ("b", "y"))
    campaign.add(table(("b", "x", "failed"), ("a", "x", 11.0), ("b", "y", 1.0)), source="test")
    campaign.add(table(("b", "x", 12.0), ("a", "x", 13.0), ("a", "y", 999.0)), source="test")
    campaign.add(table(("a", "y", 14.0)), source="test", corrections=True)
    ask(campaign, "u", ("a", "x"), mean=6.0)
    campaign.add(table(("a", "x", 15.0)), source="test")
    found = campaign.state(0.0).answered
    assert found.mean.tolist() == [5.0, 5.0, 5.0, 6.0]
    assert found.value.tolist() == [11.0, 12.0, 14.0, 15.0]
    assert found.sd.tolist() == [1.0] * 4
    np.testing.assert_allclose(found.high - found.low, 3.2)


def test_open_asks_are_those_with_pending_entries(new, clock):
    campaign = grid(new())
    ask(campaign, "t", ("a", "x"), ("b", "x"), expires=1010.0)
    clock.now += 5.0
    ask(campaign, "u", ("c", "x"), ("a", "y"))
    campaign.add(table(("b", "z", "pending")), source="lab")
    campaign.add(table(("c", "x", 1.0), ("b", "x", "withdrawn")), source="test")
    t, u = OpenAsk("t", 1000.0, "test", 1010.0, 2, 1), OpenAsk("u", 1005.0, "test", None, 2, 1)
    announced = OpenAsk(None, 1005.0, "lab", None, 1, 1)
    assert campaign.state(1010.0).log.open_asks == [t, u, announced]
    assert campaign.state(1011.0).log.open_asks == [u, announced]
    campaign.add(table(("a", "y", "failed"), ("b", "z", 2.0)), source="test")
    assert campaign.state(1011.0).log.open_asks == []


def test_a_state_has_the_log_the_settings_and_what_suggestions_came_to(new):
    campaign = grid(new(budget=5))
    ask(campaign, "t", ("a", "x"), mean=5.0)
    campaign.add(table(("a", "x", 10.0)), source="test")
    found = campaign.state(0.0)
    assert found.settings == campaign.settings() == {"budget": 5}
    assert told(found.log) == [("a", "x", 10.0)]
    assert (found.answered.mean.tolist(), found.answered.value.tolist()) == ([5.0], [10.0])
    assert found.log.position == campaign.position()


def test_an_empty_campaign_loads(new):
    campaign = new()
    loaded = campaign.state(0.0).log
    assert loaded.position == 1
    assert all(len(found) == 0 for found in loaded[1:-1])
    assert {len(found) for found in campaign.state(0.0).answered} == {0}
    assert list(campaign.history()) == []


@pytest.mark.parametrize("repeats", [False, True])
def test_loading_agrees_with_the_entries_one_by_one(new, clock, repeats):
    """A random campaign: the arrays against the rules that every command follows."""
    campaign, generator = grid(new(repeats=repeats)), random.Random(3)
    for step in range(300):
        clock.now += 1.0
        pairs = [(generator.choice("abc"), generator.choice("xyz")) for _ in range(3)]
        with contextlib.suppress(CampaignError, Conflict):
            if generator.random() < 0.4:
                expires = generator.choice([None, clock.now + generator.randrange(20)])
                ask(campaign, str(step), *dict.fromkeys(pairs), expires=expires)
            else:
                kinds = ["failed", "pending", "withdrawn", 1.0, 2.0, 3.0]
                lines = [(*pair, generator.choice(kinds)) for pair in pairs]
                corrections = generator.random() < 0.3
                campaign.add(table(*lines), source="test", corrections=corrections)
        loaded = campaign.state(clock.now).log
        values = collections.defaultdict(list)
        for row, column, value in zip(loaded.row, loaded.column, loaded.value, strict=True):
            values[row, column].append(value)
        for row in range(3):
            for column in range(3):
                entry = log.read_entry(campaign._database, (row, column), clock.now)
                name = (loaded.row_ids[row], loaded.column_ids[column])
                assert values[row, column] == entry.values
                assert named(loaded, "pending").count(name) == entry.pending
                assert named(loaded, "failed").count(name) == entry.failed
    assert campaign.position() > 40  # not all was refused


# Several processes. They import the storage without the package, which would load JAX.

HEAD = """
import sys, time, types
package = types.ModuleType("smc_jax")
package.__path__ = [sys.argv[1]]
sys.modules["smc_jax"] = package
import numpy as np
from smc_jax.campaign.storage import Conflict, Storage
from smc_jax.campaign.types import Records, Suggestion
assert "jax" not in sys.modules

def tell(campaign, rows, columns, values):
    kinds = ["value"] * len(rows)
    records = Records(rows, columns, kinds, np.array(values), str, rows, columns, [])
    return campaign.add(records, source=sys.argv[3])

campaign = Storage.open(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
"""
TELLING = """
number = int(sys.argv[3])
while True:
    rows = [f"row {number}"] * 3
    tell(campaign, rows, ["x", "y", "z"], [number + 0.0, number + 0.1, number + 0.2])
    print(number, flush=True)
    number += 1
"""
ASKING = """
me, done = sys.argv[3], 0
while done < 30:
    log = campaign.state(0.0).log
    taken = set(zip(log.row.tolist(), log.column.tolist()))
    taken |= set(zip(log.pending_row.tolist(), log.pending_column.tolist()))
    free = [(row, column) for row in range(12) for column in range(12)]
    pairs = [pair for pair in free if pair not in taken][:2]
    names = [(log.row_ids[row], log.column_ids[column]) for row, column in pairs]
    asked = [
        (*pair, Suggestion(*name, 0.0, 1.0, -1.0, 1.0, 0.5, 0.1, "free"))
        for pair, name in zip(pairs, names)
    ]
    time.sleep(0.01)  # a model would think here, and the other process acts
    stamps = dict(position=log.position, fitted_at=None, expires=None, source=me)
    try:
        campaign.record_ask(f"{me} {done}", asked, **stamps)
    except Conflict:
        continue
    print("asked", *names[0], sep=",", flush=True)
    print("asked", *names[1], sep=",", flush=True)
    value = done + 0.5
    tell(campaign, [names[0][0], f"{me} {done}"], [names[0][1], "own"], [value, value])
    print("told", *names[0], value, sep=",", flush=True)
    print("told", f"{me} {done}", "own", value, sep=",", flush=True)
    done += 1
"""


@pytest.fixture
def start():
    """Starts processes, waits until they have opened the campaign, and ends them at last."""
    with contextlib.ExitStack() as stack:

        def run(script, path, name):
            process = subprocess.Popen(
                [sys.executable, "-c", HEAD + script, str(PACKAGE), str(path), str(name)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(process.wait)
            stack.callback(process.stdout.close)
            stack.callback(process.stdin.close)
            stack.callback(process.kill)
            assert next_line(process) == "ready"
            return process

        yield run


def next_line(process):
    """The next line that a process prints; an error if it prints none for very long."""
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: what is buffered, `select` does not see
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        assert ready, "the process is silent"
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            return None
        line += byte
    return line.decode().rstrip("\n")


def rest(process):
    lines = []
    while (line := next_line(process)) is not None:
        lines.append(line)
    process.wait(PATIENCE)
    return lines


def check_integrity(campaign):
    database = campaign._database
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.skipif(os.name != "posix", reason="select on pipes")
def test_two_processes_lose_nothing_and_ask_nothing_twice(new, start):
    campaign = new()
    ids = [f"{number}" for number in range(12)]
    campaign.add(table(row_ids=ids, column_ids=ids), source="test")
    processes = [start(ASKING, campaign.path, name) for name in ("left", "right")]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    lines = [line.split(",") for process in processes for line in rest(process)]
    assert [process.returncode for process in processes] == [0, 0]
    check_integrity(campaign)
    loaded = campaign.state(time.time()).log
    asked = [(row, column) for kind, row, column, *_ in lines if kind == "asked"]
    assert len(asked) == len(set(asked)) == 2 * 30 * 2
    acknowledged = [(line[1], line[2], float(line[3])) for line in lines if line[0] == "told"]
    assert sorted(told(loaded)) == sorted(acknowledged)
    assert len(acknowledged) == 2 * 30 * 2
    answered = {(row, column) for row, column, _ in acknowledged}
    assert sorted(named(loaded, "pending")) == sorted(set(asked) - answered)
    assert len(loaded.row_ids) == 12 + 60
    assert loaded.column_ids == [*ids, "own"]


@pytest.mark.skipif(os.name != "posix", reason="select on pipes")
def test_what_was_acknowledged_survives_kill_9_at_any_moment(new, start):
    campaign, generator = new(), random.Random(5)
    acknowledged, first = [], 0
    for _ in range(10):
        process = start(TELLING, campaign.path, first)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        for _ in range(generator.randrange(1, 12)):
            acknowledged.append(int(next_line(process)))
        time.sleep(generator.random() * 0.01)  # somewhere inside a command
        process.kill()
        acknowledged += [int(line) for line in rest(process)]
        with Storage.open(campaign.path) as reopened:
            check_integrity(reopened)
            found = told(reopened.state(time.time()).log)
        rows = list(dict.fromkeys(row for row, _, _ in found))
        numbers = [int(row.removeprefix("row ")) for row in rows]
        # All that was acknowledged, each whole, and at most the command that was cut short.
        assert found == [
            (f"row {number}", column, number + digit)
            for number in numbers
            for column, digit in (("x", 0.0), ("y", 0.1), ("z", 0.2))
        ]
        assert set(acknowledged) <= set(numbers)
        assert numbers == list(range(len(numbers)))
        first = len(numbers)
    assert len(acknowledged) >= 10


@pytest.mark.slow
def test_a_million_answers(new, capsys):
    campaign, rows, columns = new(), 2000, 500
    row_ids = [f"row {row}" for row in range(rows)]
    column_ids = [f"column {column}" for column in range(columns)]
    order = np.random.default_rng(0).permutation(rows * columns)
    row, column = np.divmod(order, columns)
    value = np.random.default_rng(1).normal(size=rows * columns)
    for part in np.array_split(np.arange(rows * columns), 20):
        names = [row_ids[i] for i in row[part]], [column_ids[j] for j in column[part]]
        records = Records(*names, ["value"] * len(part), value[part], str, row_ids, column_ids, [])
        assert campaign.add(records, source="test").values == len(part)
    fixed = order[:1000]
    records = Records(
        [row_ids[i] for i in row[:1000]],
        [column_ids[j] for j in column[:1000]],
        ["value"] * 1000,
        value[:1000] + 1.0,
        str,
        [],
        [],
        [],
    )
    assert campaign.add(records, source="test", corrections=True).corrected == len(fixed)
    started = time.perf_counter()
    loaded = campaign.state(time.time()).log
    seconds = time.perf_counter() - started
    with capsys.disabled():
        print(f"\n10^6 answers loaded in {seconds:.2f} s")
    history = [(line.row, line.column, line.value) for line in campaign.history()]
    assert len(history) == rows * columns + 1000
    assert history[-1] == (row_ids[row[999]], column_ids[column[999]], value[999] + 1.0)
    last = np.r_[1000 : rows * columns, :1000]
    np.testing.assert_array_equal(loaded.row, row[last])
    np.testing.assert_array_equal(loaded.column, column[last])
    np.testing.assert_array_equal(loaded.value[:-1000], value[1000:])
    np.testing.assert_array_equal(loaded.value[-1000:], value[:1000] + 1.0)
    assert not loaded.asked.any()
    assert storage.Log is log.Log
