"""Files that a campaign writes do not replace a table of the user."""

import pytest
from campaigning import refused

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.writing import write_table


@pytest.mark.parametrize("name", ["assay.csv", "assay", "assay.html.csv"])
def test_a_report_is_not_written_over_a_table(new, tmp_path, name):
    (tmp_path / name).write_text("drug,target,activity\n")
    with refused("end the name in .html or .htm"):
        new().report(tmp_path / name)
    assert (tmp_path / name).read_text() == "drug,target,activity\n"


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_an_export_replaces_earlier_exports_alone(new, tmp_path, suffix):
    """Not a table that the campaign was told, even where an export once wrote it."""
    own, other = tmp_path / f"own.{suffix}", tmp_path / f"other.{suffix}"
    campaign = new()
    for history in (False, True, False):
        campaign.export(own, history=history)
    write_table(other, ["row", "column", "value"], [("d0", "t0", 1.0)])
    before = own.read_bytes(), other.read_bytes()
    with refused("no export wrote it"):
        campaign.export(other)
    with Campaign.new(tmp_path / "second.db", own) as second, refused("was told a table"):
        second.export(own)
    assert (own.read_bytes(), other.read_bytes()) == before


def test_an_export_of_names_with_commas_is_replaced(tmp_path):
    with Campaign.new(tmp_path / "c.db", value="activity, nM") as campaign:
        campaign.tell([("a", "x", 1.0)])
        for _ in range(2):
            campaign.export(tmp_path / "now.csv")
