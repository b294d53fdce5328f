"""A prediction of the values from elsewhere: kept by ids, and learned from by the model."""

import contextlib
import sqlite3

import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.campaign import forecast, predicted
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.described import Described
from smc_jax.campaign.types import CampaignError
from smc_jax.model.features import entry_prediction
from smc_jax.model.parameters import Parameters

ROWS, COLUMNS = 9, 16
RNG = np.random.default_rng(0)
# Nothing but the prediction tells of these values.
SCORES = RNG.normal(size=(ROWS, COLUMNS)).round(3)
TRUTH = 5.0 - 2.0 * SCORES + 0.1 * RNG.normal(size=SCORES.shape)
SEEN = RNG.random(SCORES.shape) < 0.5
SEEN[:, 0] = SEEN[0] = True  # so that ids come in their order


def long_table(path, values, where, turned=False, shift=0):
    lines = [f"r{i},c{j + shift},{values[i, j]}" for i, j in np.argwhere(where)]
    if turned:
        lines = [",".join([*line.split(",")[1::-1], line.split(",")[2]]) for line in lines]
    head = "target,drug,y" if turned else "drug,target,y"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    matrix = [",".join(["", *(f"c{j}" for j in range(COLUMNS))])]
    matrix += [",".join([f"r{i}", *map(str, SCORES[i])]) for i in range(ROWS)]
    (tmp_path / "scores.csv").write_text("\n".join(matrix) + "\n")
    return {
        "values": long_table(tmp_path / "values.csv", TRUTH, SEEN),
        "turned": long_table(tmp_path / "turned.csv", TRUTH, SEEN, turned=True),
        "scores": tmp_path / "scores.csv",
    }


@pytest.mark.parametrize("turned", [False, True])
def test_a_prediction_on_another_scale_is_learned_from(files, tmp_path, turned):
    """In both orientations; the file of scores lies the other way round in the second."""
    values = files["turned" if turned else "values"]
    with Campaign.new(tmp_path / "c.db", values, prediction=files["scores"]) as campaign:
        assert campaign._snapshot().matrix.transposed == turned
        kept = campaign._storage.described().entries
        np.testing.assert_array_equal(kept, SCORES.T if turned else SCORES)
        assert campaign.notes[-1] == (
            "Prediction scores.csv: of 144 of 144 entries; its scale does not matter, and how much"
            " it matters is learned."
        )
        left = np.argwhere(~SEEN)
        pairs = [(f"r{i}", f"c{j}")[:: -1 if turned else 1] for i, j in left]
        error = np.array([one.mean for one in campaign.predict(pairs)]) - TRUTH[tuple(left.T)]
        assert np.sqrt((error**2).mean()) < 0.4 * TRUTH.std()


def test_of_one_entry_the_last_prediction_holds_and_ids_may_come_later(files, tmp_path):
    first = long_table(tmp_path / "first.csv", SCORES, SEEN, shift=2)
    again = tmp_path / "again.csv"
    again.write_text("target,drug,score\nc3,r0,7.5\nc3,r1,\n")  # the other way round
    expected = np.full((ROWS, COLUMNS + 2), np.nan)
    expected[:, 2:][SEEN] = SCORES[SEEN]
    with Campaign.new(tmp_path / "c.db", files["values"]) as campaign:
        assert campaign._storage.described() == Described()
        assert campaign.describe(prediction=first) == {"row": 0, "column": 0}
        there = int(SEEN[:, :-2].sum())
        assert f"of {there} of 144 entries; {SEEN.sum() - there} of ids" in campaign.notes[0]
        assert "count once these are added" in campaign.notes[0]
        kept = campaign._storage.described().entries
        np.testing.assert_array_equal(kept, expected[:, :COLUMNS])
        campaign.add(columns=[f"c{COLUMNS}", f"c{COLUMNS + 1}"])
        np.testing.assert_array_equal(campaign._storage.described().entries, expected)
        campaign.describe(prediction=again)
        expected[0, 3] = 7.5
        found = campaign._storage.described()
        np.testing.assert_array_equal(found.entries, expected)
        np.testing.assert_array_equal(found.turned().entries, expected.T)
    # The log alone has it, and is only added to.
    first.unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as database:
        assert database.execute("SELECT count(*) FROM predictions").fetchone()[0] == SEEN.sum() + 1


def test_numeric_ids_lie_as_the_first_line_names_them(tmp_path):
    """By the names that the campaign gives rows and columns; other names are not guessed."""
    values = "".join(f"{i},{j},{i - j}\n" for i in range(3) for j in range(3))
    (tmp_path / "values.csv").write_text("drug,target,y\n" + values)
    scores = tmp_path / "scores.csv"
    with Campaign.new(tmp_path / "c.db", tmp_path / "values.csv") as campaign:
        for head, at in (("target,drug,score", (0, 1)), ("drug,target,score", (1, 0))):
            scores.write_text(f"{head}\n1,0,7.5\n")
            campaign.describe(prediction=scores)
            assert campaign._storage.described().entries[at] == 7.5
        scores.write_text("compound,protein,score\n1,0,7.5\n")
        with pytest.raises(CampaignError, match=r"^prediction: .*alike; .* row,column,prediction$"):
            campaign.describe(prediction=scores)
    scores.write_text("target,drug,score\n1,0,7.5\n")
    with Campaign.new(tmp_path / "d.db", tmp_path / "values.csv", prediction=scores) as campaign:
        assert campaign._storage.described().entries[0, 1] == 7.5


def test_what_the_model_gets():
    """Without a prediction nothing; one that is alike everywhere tells nothing."""
    assert forecast._coordinates(Described()).entries is None
    assert forecast._coordinates(Described(entries=np.full((2, 3), 4.0))).entries is None
    gaps = np.where(SEEN, SCORES, np.nan)
    found = forecast._coordinates(Described(entries=gaps)).entries
    np.testing.assert_array_equal(found, entry_prediction(gaps))


def test_a_kept_fit_has_its_prediction_and_new_columns_have_the_mean_of_their_row(tmp_path):
    """The file has the prediction once, not once a draw."""
    draws = Parameters.plain(jnp.ones((3, 2)), jnp.asarray(1.0))
    draws = Parameters(*(None if x is None else jnp.stack([x, 2.0 * x]) for x in draws))
    guess = jnp.broadcast_to(jnp.arange(12.0).reshape(4, 3), (2, 4, 3))  # [S, N, D]
    draws = draws._replace(prediction=guess, prediction_weight=jnp.ones(2))
    units, errors = forecast.Units(0.0, 1.0, 1.0), forecast.Errors(np.zeros(0), np.zeros(0))
    forecast._write(tmp_path / "fit.npz", forecast.Kept(draws, "x", 1, units, errors), "kind")
    with np.load(tmp_path / "fit.npz") as file:
        assert file["fit_prediction"].shape == (1, 4, 3)
    kept = forecast._read(tmp_path / "fit.npz", "kind")
    np.testing.assert_array_equal(kept.fit.prediction, guess)
    assert not forecast._has_no_more_columns(kept.fit, 3)
    grown = forecast.with_columns(kept.fit, 6).prediction
    np.testing.assert_array_equal(grown[:, :4], guess)
    np.testing.assert_array_equal(grown[:, 4:], np.broadcast_to([4.5, 5.5, 6.5], (2, 2, 3)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("drug,target,score\nr0,c0,high\n", "line 2: 'high' is not a finite number"),
        ("drug,target,score\nr0,c0,1\nr0,c0,2\n", "line 3: the entry has a prediction already"),
        ("drug,target,score\nx,c0,1\n", "predicts no entry of the matrix"),
        ("drug,score\nr0,1\n", "line 1: neither ids of the matrix, such as 'c0', nor three"),
        ("", "scores.csv"),
        (None, "bad.csv: cannot be read: No such file"),
    ],
)
def test_a_bad_prediction_is_refused_and_nothing_is_written(files, tmp_path, content, message):
    bad = tmp_path / "bad.csv"
    if content is not None:
        bad = tmp_path / "scores.csv"
        bad.write_text(content)
    with pytest.raises(CampaignError, match=f"^prediction: .*{message}"):
        Campaign.new(tmp_path / "c.db", files["values"], prediction=bad)
    assert not (tmp_path / "c.db").exists()
    with Campaign.new(tmp_path / "c.db", files["values"]) as campaign:
        position = campaign._storage.position()
        with pytest.raises(CampaignError, match=f"^prediction: .*{message}"):
            campaign.describe(prediction=bad)
        assert campaign._storage.position() == position


def test_a_prediction_is_of_a_campaign_with_ids_and_of_no_endless_one(files, tmp_path, monkeypatch):
    with pytest.raises(CampaignError, match="no rows and columns yet that it could"):
        Campaign.new(tmp_path / "c.db", prediction=files["scores"])
    with Campaign.new(tmp_path / "c.db", files["values"]) as campaign:
        with pytest.raises(CampaignError, match="prediction: no file is named"):
            campaign.describe(prediction=" ")
        with monkeypatch.context() as patch:
            patch.setattr(predicted, "MOST_CELLS", 10)
            with pytest.raises(CampaignError, match="144 predictions are more than the 10"):
                campaign.describe(prediction=files["scores"])
        campaign.describe(prediction=files["scores"])
        monkeypatch.setattr(predicted, "MOST_ENTRIES", 144)
        for grow in (
            lambda: campaign.add(rows=["new"]),
            lambda: campaign.tell([("new", "c0", 1.0)]),
        ):
            with pytest.raises(CampaignError, match="10 rows x 16 columns are more than the 144"):
                grow()
        assert campaign.sizes()["rows"] == ROWS


@pytest.mark.usefixtures("elsewhere")
def test_the_commands(run, fail, files):
    printed = run("new", "c.db", f"--table={files['values']}", f"--prediction={files['scores']}")
    assert "Prediction scores.csv: of 144 of 144 entries" in printed
    printed = run("describe", "c.db", f"--prediction={files['scores']}")
    assert "of 144 of 144 entries" in printed
    assert "nope.csv: cannot be read" in fail("describe", "c.db", "--prediction=nope.csv")
