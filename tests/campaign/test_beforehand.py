"""The status and the report say what is known beforehand: features, and a prediction."""

import pytest
from campaigning import write

from smc_jax.campaign import show
from smc_jax.campaign.campaign import Campaign


@pytest.fixture
def files(tmp_path):
    """Features of two of three rows and of one column, and a prediction with a gap."""
    return {
        "rows": write(tmp_path / "rows.csv", [("a", 1.0), ("b", 2.0)], ("id", "size")),
        "columns": write(tmp_path / "columns.csv", [("x", 3.0)], ("id", "mass")),
        "prediction": write(
            tmp_path / "scores.csv", [("a", 1.5, 2.5), ("b", 3.5, "")], ("", "x", "y")
        ),
    }


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((), None),
        (("rows",), "known beforehand: features of 2 rows"),
        (("columns",), "known beforehand: features of 1 column"),
        (("prediction",), "known beforehand: a prediction of 3 entries"),
        (
            ("rows", "columns", "prediction"),
            "known beforehand: features of 2 rows and 1 column, a prediction of 3 entries",
        ),
    ],
    ids=lambda one: "-".join(one) or "nothing" if isinstance(one, tuple) else "",
)
def test_what_is_known_beforehand_is_one_line(files, tmp_path, given, line):
    with Campaign.new(tmp_path / "c.db") as campaign:
        campaign.add(rows=["a", "b", "c"], columns=["x", "y"])
        if given:
            campaign.describe(**{name: files[name] for name in given})
        status = campaign.status()
        printed = show.status(status, campaign.names, maximise=True).splitlines()
        campaign.report(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert status.beforehand == line
    assert [one for one in printed if "beforehand" in one] == ([] if line is None else [line])
    assert page.count("nown beforehand") == (line is not None)
    assert line is None or f">K{line[1:]}.<" in page


def test_of_features_told_twice_each_row_counts_once(files, tmp_path):
    more = write(tmp_path / "more.csv", [("b", 5.0, 6.0), ("c", 7.0, "")], ("id", "size", "age"))
    with Campaign.new(tmp_path / "c.db", row_features=files["rows"]) as campaign:
        campaign.describe(rows=more)
        assert campaign.status().beforehand == "known beforehand: features of 3 rows"
