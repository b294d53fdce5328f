"""What a campaign takes over from an earlier one: copied into its log, and history of its model."""

import contextlib
import sqlite3

import numpy as np
import pytest

from smc_jax.campaign import schema
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.matrix import matrix_of
from smc_jax.campaign.scripts import MIGRATIONS
from smc_jax.campaign.taking import read_past
from smc_jax.campaign.types import CampaignError

ROWS, COLUMNS = 6, 8
VALUES = np.random.default_rng(0).normal(5.0, 2.0, (ROWS, COLUMNS)).round(3)


def table(path, columns, rows=range(ROWS)):
    lines = [f"r{i},c{j},{VALUES[i, j]}" for i in rows for j in columns]
    path.write_text("\n".join(["row,column,value", *lines]) + "\n")
    return path


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.db"
    Campaign.new(path, table(tmp_path / "old.csv", range(5))).disconnect()
    return path


def test_answers_of_rows_of_the_same_id_are_history(old, tmp_path):
    new = table(tmp_path / "new.csv", [6], rows=range(2))
    with Campaign.new(tmp_path / "new.db", new, prior=old, prior_temper=0.5) as campaign:
        assert campaign.notes[-1] == (
            "Taken over from old.db: 30 values, of which 10 count as history, of 2 rows of the same"
            " id and 5 other columns, each counted as 0.5."
        )
        assert campaign.sizes()["known"] == 2
        campaign.add(rows=[f"r{i}" for i in range(1, 4)])
        now = campaign._snapshot()
        matrix = now.matrix
        # More rows than columns, and yet rows are rows: those of history are the same.
        assert not matrix.transposed
        assert matrix.data.rows == 4
        told = np.asarray(matrix.units.back(matrix.history.average()))
        np.testing.assert_allclose(told, VALUES[:4, :5], rtol=1e-5)
        np.testing.assert_array_equal(matrix.history.times_seen(), 0.5)
        everything = np.append(VALUES[:2, 6], VALUES[:4, :5])
        weights = np.append(np.ones(2), np.full(20, 0.5))
        centre = (weights * everything).sum() / weights.sum()
        spread = np.sqrt((weights * (everything - centre) ** 2).sum() / weights.sum())
        np.testing.assert_allclose([matrix.units.centre, matrix.units.scale], [centre, spread])
        # In other units it is the same table.
        other = matrix.in_units(matrix.units._replace(centre=1.0, scale=3.0))
        again = np.asarray(other.units.back(other.history.average()))
        np.testing.assert_allclose(again, told, rtol=1e-5)
        # A column that comes later under an id of history is the campaign's own.
        campaign.add(columns=["c0"])
        found = campaign._snapshot()
        assert found.matrix.history.columns == 4
        assert "of which 16 count" in found.log.past.told(*campaign.ids())
        campaign.export(tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text().count("ok") == 2
    # The log alone has it: the earlier campaign may go.
    old.unlink()
    with Campaign(tmp_path / "new.db") as campaign:
        assert campaign._snapshot().matrix.history.columns == 4


def test_a_table_is_history_too_and_moves_the_model(tmp_path):
    """A row that is far above the others in every column of history is expected there again."""
    new = table(tmp_path / "new.csv", [6], rows=range(ROWS - 1))
    with Campaign.new(tmp_path / "plain.db", new) as campaign:
        campaign.add(rows=["r5"])
        plain = campaign.predict([("r5", "c6")])[0]
        assert campaign.status().past is None
    above = 40.0
    lines = [f"r{i},c{j},{VALUES[i, j] + above * (i == 5)}" for i in range(ROWS) for j in range(5)]
    past = tmp_path / "old.csv"
    past.write_text("\n".join(["row,column,value", *lines]) + "\n")
    with Campaign.new(tmp_path / "new.db", new, history=past) as campaign:
        campaign.add(rows=["r5"])
        found = campaign.predict([("r5", "c6")])[0]
        assert campaign.ask(1)[0].column == "c6"
        assert campaign.status().past.startswith("taken over from old.csv: 30 values")
    assert found.mean - plain.mean > 0.7 * above


def of_the_earlier_version(path, monkeypatch):
    """A campaign as the version that knew no history has made it."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", MIGRATIONS[:1])
        schema.create_file(path, first_events)
    return path


def first_events(database):
    now = (1.0, "created", "test")
    schema.write_settings(database, now, {"rank": 2})
    event = schema.write_event(database, (2.0, "told", "test"), {})
    ids = {axis: {f"{axis[0]}{i}": i for i in range(3)} for axis in ("row", "column")}
    schema.write_ids(database, event, ids)
    database.executemany(
        "INSERT INTO answers (event, row, column, kind, value, correction)"
        f" VALUES ({event}, ?, ?, 'value', ?, 0)",
        [(i, j, float(VALUES[i, j])) for i in range(3) for j in range(2)],
    )


def test_a_file_of_the_earlier_version_opens_and_has_no_history(tmp_path, monkeypatch):
    path = of_the_earlier_version(tmp_path / "old.db", monkeypatch)
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'history'").fetchall()
    with Campaign(path) as campaign:
        log = campaign._snapshot().log
        assert log.past is None
        assert log.value.size == 6
        assert matrix_of(log, maximise=True).history is None
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        database.execute("INSERT INTO history VALUES (1, 0, 'r0', 'z', 1.5)")
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            database.execute("DELETE FROM history")


def test_history_of_an_earlier_campaign_goes_with_it(old, tmp_path):
    middle = tmp_path / "Middle.db"
    table(tmp_path / "m.csv", [6], rows=range(3))
    with Campaign.new(middle, tmp_path / "m.csv", prior=old, prior_temper=0.5) as campaign:
        # A column of history that comes later is the campaign's own from there on.
        campaign.tell([("r0", "c0", 1.25)])
    new = table(tmp_path / "new.csv", [1, 7], rows=range(4))
    with Campaign.new(tmp_path / "new.db", new, prior=middle, prior_temper=0.5) as campaign:
        # The new campaign has been told of c1 itself, so that its history does not count.
        assert campaign.notes[-1] == (
            "Taken over from Middle.db (and, through it, from old.db): 28 values, of which 16 count"
            " as history, of 4 rows of the same id and 5 other columns, each counted as 0.25 to"
            " 0.5."
        )
        now = campaign._snapshot()
        found = now.log.past.of(*campaign.ids())
        own = np.append(VALUES[:3, 6], 1.25)
        assert sorted(found.value[found.weight == 0.5]) == sorted(own)
        theirs = VALUES[:4, 2:5].ravel()
        assert sorted(found.value[found.weight == 0.25]) == sorted(theirs)
        assert now.matrix.history.number() == 0.5 * 4 + 0.25 * 12


def test_a_table_of_history_is_read_with_the_names_of_the_campaign(tmp_path):
    new, past = tmp_path / "new.csv", tmp_path / "old.csv"
    new.write_text("drug,target,dose,Ki\nr0,c6,1.0,5.0\n")
    past.write_text("target,drug,dose,Ki\nc0,r0,1.0,7.5\nc1,r0,2.0,8.5\n")
    names = {"rows": "drug", "columns": "target", "value": "Ki"}
    with Campaign.new(tmp_path / "new.db", new, history=past, **names) as campaign:
        found = campaign._snapshot().log.past
        assert (found.rows, found.columns) == (["r0", "r0"], ["c0", "c1"])
        np.testing.assert_array_equal(found.values, [7.5, 8.5])
        assert not any("are called" in note for note in campaign.notes)
    # A campaign has no columns to choose from: that its values are called otherwise is said.
    other = table(tmp_path / "other.csv", [7])
    with Campaign.new(tmp_path / "other.db", other, prior=tmp_path / "new.db") as campaign:
        assert campaign.notes[-2].startswith("The values of new.db are called 'Ki', those of the n")


def test_the_name_of_the_file_keeps_its_capitals(tmp_path):
    past = table(tmp_path / "OLD Ki.csv", range(5))
    with Campaign.new(tmp_path / "new.db", history=past) as campaign:
        assert campaign.notes[-1].startswith("Taken over from OLD Ki.csv: 30 values, of which 0")


def test_columns_of_history_count_in_the_size(old, tmp_path, monkeypatch):
    new = table(tmp_path / "new.csv", [6], rows=range(3))
    monkeypatch.setattr(schema, "MOST_ENTRIES", 3 * 6)
    with Campaign.new(tmp_path / "new.db", new, prior=old) as campaign:
        told = r"^4 rows x 1 columns and 5 of history are more than the 18 entries"
        with pytest.raises(CampaignError, match=told):
            campaign.add(rows=["r3"])
        assert campaign.sizes()["rows"] == 3
    monkeypatch.setattr(schema, "MOST_ENTRIES", 3 * 6 - 1)
    with pytest.raises(CampaignError, match=r"^3 rows x 1 columns and 5 of history are more"):
        Campaign.new(tmp_path / "too_large.db", new, prior=old)
    assert not (tmp_path / "too_large.db").exists()


def test_a_campaign_that_is_taken_over_stays_as_it_is(tmp_path, monkeypatch):
    """Its file is of an earlier version, which must still be able to read it."""
    path = of_the_earlier_version(tmp_path / "old.db", monkeypatch)
    before = path.read_bytes()
    with Campaign.new(tmp_path / "new.db", prior=path) as campaign:
        campaign.add(rows=["r0", "r1", "r2"], columns=["new"])
        assert campaign._snapshot().matrix.history.number() == 6
    assert path.read_bytes() == before
    assert {one.name for one in tmp_path.iterdir()} == {"old.db", "new.db"}


def test_what_cannot_be_taken_over_is_refused_in_one_line(old, tmp_path):
    new = tmp_path / "new.db"
    same = table(tmp_path / "same.csv", [4, 6])
    (tmp_path / "other.csv").write_text("row,column,value\nx,y,1.5\n")
    (tmp_path / "nothing.csv").write_text("row,column,value\nr1,c9,failed\nr2,c9,pending\n")
    cases = [
        ({"prior": old, "history": same}, "^prior, history: give one of them$"),
        ({"prior_temper": 0.5}, "^prior_temper: there is nothing to temper"),
        ({"prior": old, "prior_temper": "x"}, "^prior_temper: must be a number, got 'x'$"),
        ({"prior": old, "prior_temper": 0.0}, "^prior_temper: must be above 0 and at most 1"),
        ({"prior": old, "prior_temper": float("nan")}, "^prior_temper: must be above 0"),
        ({"prior": old, "table": same}, "^old.db: 1 of its columns are columns of the new campaig"),
        ({"prior": old, "table": tmp_path / "other.csv"}, "^old.db: none of its rows, such as 'r0"),
        ({"prior": tmp_path / "none.db"}, "^There is no campaign"),
        ({"history": tmp_path / "nothing.csv"}, "holds no value; there is nothing to take over$"),
    ]
    for given, told in cases:
        with pytest.raises(CampaignError, match=told) as error:
            Campaign.new(new, **given)
        assert "\n" not in str(error.value)
        assert not new.exists()
    assert read_past() is None
