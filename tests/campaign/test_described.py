"""Features of a campaign's rows and columns: kept in its file, learned from by its model."""

import numpy as np
import pytest

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.described import Described
from smc_jax.campaign.types import CampaignError
from smc_jax.data.features import read_features

ROWS, COLUMNS, KNOWN = 9, 16, 11  # nothing is measured in the last columns


def table(path, header, lines):
    path.write_text("\n".join(",".join(map(str, line)) for line in [header, *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Files of a table that follows from its features, which all ids have, and the truth."""
    folder, rng = tmp_path_factory.mktemp("told"), np.random.default_rng(0)
    f, g = rng.normal(size=(ROWS, 2)), rng.normal(size=(COLUMNS, 2))
    truth = (
        f @ rng.normal(size=(2, 2)) @ g.T + 2.0 * g[:, 0] + 0.2 * rng.normal(size=(ROWS, COLUMNS))
    )
    seen = rng.random((ROWS, KNOWN)) < 0.6
    values = [(f"r{i}", f"c{j}", truth[i, j]) for i, j in np.argwhere(seen)]
    return {
        "values": table(folder / "values.csv", ["drug", "target", "y"], values),
        "turned": table(
            folder / "turned.csv", ["target", "drug", "y"], [(c, r, y) for r, c, y in values]
        ),
        "rows": table(
            folder / "rows.csv", ["id", "a", "b"], [(f"r{i}", *x) for i, x in enumerate(f)]
        ),
        "columns": table(
            folder / "columns.csv",
            ["id", "a", "b", "kind"],
            [(f"c{j}", *x, "xy"[j % 2]) for j, x in enumerate(g)],
        ),
        "truth": truth,
    }


@pytest.mark.parametrize("turned", [False, True])
def test_ids_with_features_and_without_values_are_forecast_and_asked(told, tmp_path, turned):
    """In both orientations: the model integrates the longer side out."""
    files = {"row_features": told["rows"], "column_features": told["columns"]}
    if turned:
        files = {"row_features": told["columns"], "column_features": told["rows"]}
    values = told["turned" if turned else "values"]
    with Campaign.new(tmp_path / "c.db", values, **files) as campaign:
        assert campaign.sizes()["columns" if not turned else "rows"] == COLUMNS
        assert any("5 of them new to the campaign" in note for note in campaign.notes)
        assert campaign._snapshot().matrix.transposed == turned
        new = [(i, j) for i in range(ROWS) for j in range(KNOWN, COLUMNS)]
        pairs = [(f"r{i}", f"c{j}") for i, j in new]
        found = campaign.predict([pair[::-1] for pair in pairs] if turned else pairs)
        truth = np.array([told["truth"][one] for one in new])
        error = np.array([one.mean for one in found]) - truth
        assert np.sqrt((error**2).mean()) < 0.35 * truth.std()
        asked = {one.row if turned else one.column for one in campaign.ask(12)}
        assert asked & {f"c{j}" for j in range(KNOWN, COLUMNS)}


def test_what_is_kept_is_what_the_reader_of_features_makes(told, tmp_path):
    with Campaign.new(tmp_path / "c.db", told["values"]) as campaign:
        assert campaign._storage.described() == Described()
        campaign.describe(rows=told["rows"], columns=told["columns"])
        rows, columns = campaign.ids()
        kept = campaign._storage.described()
        assert campaign._storage.described() is kept  # not read twice
        np.testing.assert_allclose(kept.rows, read_features(told["rows"], rows).matrix)
        np.testing.assert_allclose(kept.columns, read_features(told["columns"], columns).matrix)


def test_a_later_table_adds_ids_and_features_and_its_values_hold(told, tmp_path):
    later = table(
        tmp_path / "later.csv", ["id", "b", "colour"], [("r1", 7.5, "red"), ("new", "", "blue")]
    )
    with Campaign.new(tmp_path / "c.db", told["values"], row_features=told["rows"]) as campaign:
        assert campaign.describe(rows=later) == {"row": 1, "column": 0}
        assert campaign.ids()[0][-1] == "new"
        whole = table(
            tmp_path / "whole.csv",
            ["id", "a", "b", "colour"],
            [
                *(
                    (name, a, 7.5 if name == "r1" else b, "red" if name == "r1" else "")
                    for name, a, b in np.genfromtxt(
                        told["rows"], str, delimiter=",", skip_header=1
                    ).tolist()
                ),
                ("new", "", "", "blue"),
            ],
        )
        expected = read_features(whole, campaign.ids()[0]).matrix
        np.testing.assert_allclose(campaign._storage.described().rows, expected)


def test_features_change_the_next_fit_and_the_same_ones_do_not(told, tmp_path):
    """The table of rows brings no new ids: the data stay as they are."""
    fits = []
    Campaign.new(tmp_path / "c.db", told["values"]).disconnect()
    with Campaign(tmp_path / "c.db", on_fit=lambda done, total: fits.append(done)) as campaign:
        before = campaign.predict([("r0", "c0")])[0].mean
        for _ in range(2):
            fits.clear()
            assert campaign.describe(rows=told["rows"]) == {"row": 0, "column": 0}
            after = campaign.predict([("r0", "c0")])[0].mean
            assert after != before
            assert bool(fits) == (_ == 0)


def test_columns_that_come_with_features_after_a_fit_are_asked_without_a_refit(told, tmp_path):
    with Campaign.new(tmp_path / "c.db", told["values"], row_features=told["rows"]) as campaign:
        campaign.predict([("r0", "c0")])
        campaign.describe(columns=told["columns"])
        found = campaign.best(3, columns=["c14", "c15"])
        assert {one.column for one in found} <= {"c14", "c15"}
        assert all(np.isfinite(one.mean) for one in found)


def test_features_that_are_alike_tell_nothing(told, tmp_path):
    alike = table(tmp_path / "alike.csv", ["id", "a"], [(f"r{i}", 3) for i in range(ROWS)])
    pair = [("r0", "c0")]
    with Campaign.new(tmp_path / "plain.db", told["values"]) as campaign:
        plain = campaign.predict(pair)
    with Campaign.new(tmp_path / "c.db", told["values"], row_features=alike) as campaign:
        np.testing.assert_allclose(campaign.predict(pair)[0].mean, plain[0].mean, rtol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\nr0\n", "no feature follows the ids"),
        ("id,a\nr0,1\nr0,2\n", "occurs twice"),
        ("id,a\nr0,1\nr1,red\n", "is no number"),
        ("id,a\n", "no line follows"),
        ("id,a\nx0,1\n", "none of its ids, such as 'x0', is a row of the campaign; check the ids"),
        ("id,a\nc0,1\nc1,2\n", "is a row of the campaign; they are columns"),
        ("r0,1\nr1,2\n", "must have the names of the features; '1' is a number"),
        ("id,,a\nr0,1,2\n", "a name is missing"),
        ("a,id\n1,r0\n2,r1\n", "the column 'id' has them: put it first"),
        ("id;a\nr0;4,5\nr1;3,5\n", "'4,5' is no number"),
        ("id,a\nr0,45%\n", "'45%' is no number"),
        ("id,a\nr0,<4.0\n", "'<4.0' is no number"),
        ("id,a\nr0,4.5 uM\n", "'4.5 uM' is no number"),
        ("id,a\nr0,1\nr\u200b9,1\n", "holds a character that does not show"),
        ("", "no feature follows the ids|empty"),
    ],
)
def test_a_bad_table_is_refused_and_nothing_is_written(told, tmp_path, content, message):
    bad = tmp_path / "bad.csv"
    bad.write_text(content)
    with pytest.raises(CampaignError, match=message):
        Campaign.new(tmp_path / "c.db", told["values"], row_features=bad)
    assert not (tmp_path / "c.db").exists()
    with Campaign.new(tmp_path / "c.db", told["values"]) as campaign:
        position = campaign._storage.position()
        with pytest.raises(CampaignError, match=message):
            campaign.describe(rows=bad)
        assert campaign._storage.position() == position


def test_a_file_that_is_not_there_is_one_line(told, tmp_path):
    with Campaign.new(tmp_path / "c.db", told["values"]) as campaign:
        with pytest.raises(CampaignError, match=r"nope\.csv: cannot be read: No such file"):
            campaign.describe(rows=tmp_path / "nope.csv")
        with pytest.raises(CampaignError, match="features of rows: no file is named"):
            campaign.describe(rows="")


def test_empty_cells_have_no_kind_and_an_id_may_be_a_mark(told, tmp_path):
    first = table(tmp_path / "first.csv", ["id", "solvent"], [("r0", "water"), ("NA", "dmf")])
    lines = [("r2", "", 1, ""), ("r3", "NA", 2, ""), ("", "", "", "")]
    later = table(tmp_path / "later.csv", ["id", "solvent", "b", ""], lines)
    with Campaign.new(tmp_path / "c.db", told["values"], row_features=first) as campaign:
        assert campaign.ids()[0][-1] == "NA"
        assert any("1 of categories (solvent)" in note for note in campaign.notes)
        campaign.describe(rows=later)
        assert campaign._storage.described().rows.shape == (ROWS + 1, 3)


def test_new_ids_that_may_be_mistakes_are_pointed_out(told, tmp_path):
    other = table(tmp_path / "other.csv", ["id", "a"], [("r0", 1), ("R1", 2), ("fresh", 3)])
    with Campaign.new(tmp_path / "c.db", told["values"]) as campaign:
        campaign.describe(rows=other)
        assert [note for note in campaign.notes if note.startswith("New")] == [
            "New drug: 'R1' (close to 'r1': if that is meant, tell the corrected table, and close"
            " this drug with smc-jax close)"
        ]


def test_fingerprints_are_read_once(tmp_path):
    """400 ids with 500 bits: what is looked at between two fits does not read them again."""
    bits = np.random.default_rng(0).integers(0, 2, (400, 500))
    lines = [(f"r{i}", *one) for i, one in enumerate(bits)]
    wide = table(tmp_path / "bits.csv", ["id", *(f"b{j}" for j in range(500))], lines)
    with Campaign.new(tmp_path / "c.db", row_features=wide) as campaign:
        campaign.add(columns=["c0"])
        kept = campaign._storage.described().rows
        np.testing.assert_allclose(kept, read_features(wide, campaign.ids()[0]).matrix)
        statements = []
        campaign._storage._database.set_trace_callback(statements.append)
        campaign.tell([("r0", "c0", 1.0)])
        assert campaign.sizes()["known"] == 1
        assert not [one for one in statements if "FROM features" in one]


def test_a_feature_keeps_its_kind(told, tmp_path):
    texts = table(tmp_path / "texts.csv", ["id", "a"], [("r0", "red"), ("new", "red")])
    with Campaign.new(tmp_path / "c.db", told["values"], row_features=told["rows"]) as campaign:
        with pytest.raises(CampaignError, match="'a' had numbers before and has texts now"):
            campaign.describe(rows=texts)
        assert "new" not in campaign.ids()[0]
        with pytest.raises(CampaignError, match="give a table of rows, of columns, or a predict"):
            campaign.describe()


@pytest.mark.usefixtures("elsewhere")
def test_the_commands(run, told):
    printed = run("new", "c.db", f"--table={told['values']}", f"--row-features={told['rows']}")
    assert "Features of 9 rows: 2 of numbers and 0 of categories" in printed
    printed = run("describe", "c.db", f"--columns={told['columns']}")
    assert "Features of 16 columns, 5 of them new to the campaign: 2 of numbers and 1 of" in printed
    assert "9 rows, 16 columns" in printed
    assert "Next: " in printed
