"""Files that the commands write: no sheet that may wait for answers is written over."""

import csv
import gzip
import pathlib

import pytest
from commanding import COLUMNS, NAMES, ROWS, dump, read, write

from smc_jax.campaign.campaign import Campaign

pytestmark = pytest.mark.usefixtures("elsewhere")

SHEET = pathlib.Path("next.csv")


def fill(*values, name="value"):
    """Fills in the first lines of the sheet: numbers as values, words as statuses."""
    lines = read(SHEET)
    for line, value in zip(lines, values, strict=False):
        line["status" if isinstance(value, str) else name] = value
    with open(SHEET, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


@pytest.fixture
def ask(empty, run):
    """Asks for two entries, by default those of a campaign without values."""

    def call(*more, path=empty):
        return run("ask", path, "--number=2", "--out=next.csv", *more)

    return call


@pytest.fixture
def refused(empty, fail):
    """An ask that must not write over the sheet, nor be recorded; what it says."""

    def call(*more, path=empty):
        sheet, before = SHEET.read_bytes(), dump(path)
        line = fail("ask", path, "--number=2", "--out=next.csv", *more)
        assert SHEET.read_bytes() == sheet
        assert dump(path) == before
        assert all(part in line for part in ("tell them", "delete the file", "--out"))
        return line

    return call


@pytest.fixture
def other(tmp_path):
    """Another campaign with the same ids."""

    def make(**settings):
        with Campaign.new(tmp_path / "other.db", **settings) as campaign:
            campaign.add(rows=ROWS, columns=COLUMNS)
        return tmp_path / "other.db"

    return make


def test_a_sheet_is_replaced_once_every_line_was_told(empty, ask, refused, run):
    ask()
    assert "2 of 2 lines" in refused()
    fill(1.5)
    assert "2 of 2 lines" in refused()
    run("tell", empty, SHEET)
    assert "1 of 2 lines" in refused()
    fill(1.5, "failed")
    assert "1 of 2 lines" in refused()
    run("tell", empty, SHEET)
    ask()
    fill(1.5, "pending")
    run("tell", empty, SHEET)
    assert "1 of 2 lines" in refused()


def test_a_token_writes_its_own_sheet_again_and_no_other(empty, ask, refused, run):
    ask("--token=monday")
    sheet = SHEET.read_bytes()
    refused("--token=tuesday")
    SHEET.write_bytes(sheet.replace(b"It spreads", b"It spread"))
    ask("--token=monday")
    assert SHEET.read_bytes() == sheet
    fill(1.5)
    assert "1 of 2 lines" in refused("--token=monday")
    run("tell", empty, SHEET)
    ask("--token=monday")
    SHEET.unlink()
    ask("--token=tuesday")
    refused("--token=monday")


def test_lines_that_were_withdrawn_or_have_expired_wait_too(empty, ask, refused, run):
    """Somebody may have measured them meanwhile; the file says nothing of it."""
    ask("--token=monday")
    run("withdraw", empty, "monday")
    refused()
    fill("withdrawn", "withdrawn")
    ask("--expires=0.0000001")
    with Campaign(empty) as campaign:
        assert not campaign.pending()
    refused()


@pytest.mark.parametrize(
    "settings",
    [{}, {"value": "yield"}, {"rows": "drug", "columns": "target", "value": "activity"}],
    ids=["same names", "another value", "other names"],
)
def test_the_sheet_of_another_campaign_is_not_written_over(ask, refused, other, run, settings):
    path, name = other(**settings), settings.get("value", "value")
    ask(path=path)
    assert "2 of 2 lines" in refused()
    fill(1.5, 2.5, name=name)
    run("tell", path, SHEET)
    assert "2 of 2 lines" in refused()  # they are not told to this one
    ask(path=path)


def test_other_values_than_those_told_are_not_written_over(empty, ask, refused, run):
    ask()
    fill(1.5, 2.5)
    run("tell", empty, SHEET)
    fill(1.5, 3.5)
    assert "1 of 2 lines" in refused()


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize(
    "line",
    [
        "predict c.db pairs.csv --out=",
        "export c.db --out=",
        "export c.db --history --out=",
        "status c.db --open-asks=",
        "status c.db --png=",
        "report c.db --out=",
    ],
)
def test_no_other_command_writes_over_a_sheet(copy, run, fail, tmp_path, suffix, line):
    write(tmp_path / "pairs.csv", NAMES[:2], ("drug0", "target1"))
    sheet = pathlib.Path(f"next.{suffix}")
    with Campaign(copy) as campaign:
        campaign.ask(2, refit=False).save(sheet)
    before = sheet.read_bytes()
    printed = fail(*f"{line}{sheet}".split())
    assert f"{sheet}: this is the sheet of an ask" in printed
    assert "name another" in printed
    assert sheet.read_bytes() == before


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "content",
    [
        '"row";"column";"value";"status";"bits";"why"\r\na;x;1,5;;1;'.encode("utf-8-sig"),
        "row\tcolumn\tvalue\tStatus\tBits\tWhy\na\tx\t1\t\t1\t".encode("utf-16"),
        ",,,,,\nrow,column,value,status,bits,why\na,na\xefve,1,,1,".encode("latin1"),
    ],
    ids=["semicolons", "utf-16", "latin1"],
)
def test_a_sheet_is_known_as_a_spreadsheet_saved_it(copy, fail, content, packed):
    SHEET.write_bytes(gzip.compress(content) if packed else content)
    assert "the sheet of an ask" in fail("export", copy, "--out=next.csv")


def test_a_file_that_cannot_be_read_may_be_a_sheet(copy, fail):
    for name, content in (("n.csv.gz", gzip.compress(b"row,column")[:-9]), ("n.parquet", b"PAR1")):
        pathlib.Path(name).write_bytes(content)
        assert "delete this one" in fail("export", copy, f"--out={name}")
        assert pathlib.Path(name).read_bytes() == content


def test_what_a_command_reads_is_not_written_over(copy, run, fail, tmp_path):
    pairs = write(tmp_path / "pairs.csv", NAMES[:2], ("drug0", "target1"))
    before = pairs.read_bytes()
    for out in ("pairs.csv", "./pairs.csv", pairs):
        line = fail("predict", copy, "pairs.csv", f"--out={out}")
        assert "reads this file" in line
        assert "--out" in line
    assert "reads this file" in fail("ask", copy, "--closed=pairs.csv", "--out=pairs.csv")
    assert pairs.read_bytes() == before


def test_tables_that_are_no_sheets_are_replaced(copy, run):
    for _ in range(2):
        run("export", copy, "--out=all.csv")
    pathlib.Path("empty.csv").touch()
    run("export", copy, "--out=empty.csv")
    assert pathlib.Path("empty.csv").read_bytes() == pathlib.Path("all.csv").read_bytes()
