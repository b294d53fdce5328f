"""One file a campaign: how it is made and opened, and that it is only added to."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import sqlite3
import tempfile

import pytest
from storing import named, refused, suggestion, table, told

from smc_jax.campaign import schema, scripts
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.types import ROW


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
            ("application_id", scripts.APPLICATION_ID),
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


def test_a_full_disk_is_said_in_one_line_and_nothing_is_added(create):
    campaign = create()
    (pages,) = campaign._database.execute("PRAGMA page_count").fetchone()
    campaign._database.execute(f"PRAGMA max_page_count = {pages}")
    lines = [(f"row {row}", "a", float(row)) for row in range(2000)]
    with refused("disk is full", "free some space"):
        campaign.add(table(*lines), source="test")
    campaign._database.execute("PRAGMA max_page_count = 1000000")
    assert campaign.position() == 1
    assert campaign.ids(ROW) == []
    assert campaign.add(table(*lines), source="test").values == 2000


def test_a_campaign_in_use_is_said_in_one_line(create):
    campaign = create()
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


def test_the_released_format_does_not_change(create):
    """A change to the first script would leave two formats with one number: add a script."""
    found = create()._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in found} - {"sqlite_sequence"} == set(scripts.LOG_TABLES)
    assert scripts.MIGRATIONS[0].startswith(f"PRAGMA application_id = {0x534D4343};")
    own = hashlib.sha256(scripts.MIGRATIONS[0].encode()).hexdigest()
    assert own == "ebf3b916f62cc6d32fec21c231621d73409a10d9ffe784cbd6d08d1b69da17f7"


# Only added to.


@pytest.mark.parametrize("name", scripts.LOG_TABLES)
def test_nothing_is_overwritten_or_deleted(create, name):
    campaign = create(goal="max")
    campaign.add(table(("a", "x", 1.0), ("a", "y", "pending")), source="test")
    campaign.close([("a", None)], source="test")
    database = campaign._database
    database.execute("INSERT INTO features VALUES (1, 'row', 0, 'mass', 1.5, NULL)")
    database.execute("INSERT INTO history VALUES (1, 0, 'a', 'z', 1.5)")
    database.execute("INSERT INTO predictions VALUES (1, 0, 'a', 'z', 1.5)")
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


def test_entries_have_rows_and_columns(create):
    campaign = create()
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


def test_the_last_setting_holds(create):
    campaign = create(goal="max", repeats=False)
    campaign.set({"goal": ["min", None, 2.5]}, "test")
    assert campaign.settings() == {"goal": ["min", None, 2.5], "repeats": False}
    assert campaign.position() == 2
