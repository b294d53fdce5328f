"""What a campaign takes over from an earlier one: copied into its log, and history of its model."""

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
        np.testing.assert_allclose(matrix.units.centre, everything.mean())
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
    new = table(tmp_path / "new.csv", [6], rows=range(ROWS - 1))
    with Campaign.new(tmp_path / "plain.db", new) as campaign:
        campaign.add(rows=["r5"])
        plain = campaign.predict([("r5", "c6")])[0]
        assert campaign.status().past is None
    past = table(tmp_path / "old.csv", range(5))
    with Campaign.new(tmp_path / "new.db", new, history=past) as campaign:
        campaign.add(rows=["r5"])
        found = campaign.predict([("r5", "c6")])[0]
        assert campaign.ask(1)[0].column == "c6"
        assert campaign.status().past.startswith("taken over from old.csv: 30 values")
    assert np.isfinite([found.mean, found.sd]).all()
    assert found.mean != plain.mean


def test_a_file_of_the_earlier_version_opens_and_has_no_history(old):
    with sqlite3.connect(old) as database:
        database.execute("DROP TABLE history")
        database.execute("PRAGMA user_version = 1")
    with Campaign(old) as campaign:
        log = campaign._snapshot().log
        assert log.past is None
        assert matrix_of(log, maximise=True).history is None
    with sqlite3.connect(old) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


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
