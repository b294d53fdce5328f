"""The command `smc-jax`: every mistake is one line, and changes nothing."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import sys

import pytest
from commanding import COLUMNS, KNOWN, KNOWN_PAIRS, NAMES, ROWS, dump, values_of, write

from smc_jax.campaign import command_line
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.storage import Storage

pytestmark = pytest.mark.usefixtures("elsewhere")


# What is wrong: one line, status 2, and nothing written. In `arguments`, c.db has a model, e.db
# has ids alone, full.db has nothing open; the files are those of `wrong_files`.


def wrong_files(folder):
    def text(name, content):
        (folder / name).write_text(content)

    row, column, value = KNOWN[0]
    write(folder / "ok.csv", NAMES, ("drug0", "target1", 1.0))
    write(folder / "other.csv", NAMES, ("drug0", "target1", 1.0), (row, column, value + 1.0))
    write(folder / "misnamed.csv", ("drug", "target", "plate"), ("drug0", "target1", 1.0))
    write(folder / "lost.csv", NAMES, (row, column, "failed"))
    write(folder / "unit.csv", NAMES, ("drug0", "target1", "4.5 uM"))
    write(folder / "bound.csv", NAMES, ("drug0", "target1", "<3"))
    write(folder / "inf.csv", NAMES, ("drug0", "target1", "inf"))
    write(folder / "large.csv", NAMES, ("drug0", "target1", "1e31"))
    write(folder / "noid.csv", NAMES, ("", "target1", 1.0))
    write(folder / "status.csv", (*NAMES, "status"), ("drug0", "target1", "", "faild"))
    write(folder / "both.csv", (*NAMES, "status"), ("drug0", "target1", 1.0, "failed"))
    write(folder / "short.csv", NAMES, ("drug0", "target1"))
    write(folder / "narrow.csv", ("drug", "activity"), ("drug0", 1.0))
    write(folder / "header.csv", NAMES)
    write(folder / "twice.csv", ("drug", "drug", "activity"), ("a", "b", 1.0))
    write(folder / "clash.csv", NAMES, ("a", "x", 1.0), ("a", "x", 2.0))
    text("quote.csv", 'drug,target,activity\n"drug0,target1,1.0\n')
    text("nothing.csv", "")
    (folder / "latin.csv").write_bytes("drug,target,activity\nna\xefve,t,1\n".encode("latin1"))
    (folder / "nul.csv").write_bytes(b"drug,target,activity\n\0,t,1\n")
    (folder / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00abc")
    (folder / "bad.parquet").write_bytes(b"PAR1 it is not")
    (folder / "book.csv").write_bytes(b"PK\x03\x04 a workbook")
    text("ids.txt", "drug0\n")
    text("unknown.txt", "drug00\n")
    text("column.txt", "target0\ntarget77\n")
    text("known.txt", "target0\n")
    text("only_header.txt", "drug\n")
    write(folder / "pairs.csv", ("drug", "target"), ("drug0", "target1"))
    write(folder / "strange.csv", ("drug", "target"), ("drug0", "targt1"))
    write(folder / "partial.csv", ("drug", "target"), ("drug0", ""))
    write(folder / "free.csv", ("drug", "target"), ("", ""))
    write(folder / "three.csv", ("a", "b", "c"), ("drug0", "target1", "x"))
    write(folder / "all.csv", ("drug", "target"), *((row, "") for row in ROWS))
    write(folder / "plate.csv", ("id", "group"), ("drug0", "A"))
    write(folder / "plate3.csv", ("row", "group", "more"), ("drug0", "A", "x"))
    write(folder / "plate_none.csv", ("row", "group"), ("drug77", "A"))
    write(folder / "plate_two.csv", ("row", "group"), ("drug0", "A"), ("drug0", "B"))
    write(folder / "plate_empty.csv", ("row", "group"), ("drug0", ""))
    text("text.db", "this is no campaign\n" * 100)
    text("blank.db", "")
    (folder / "folder.db").mkdir()
    (folder / "folder.csv").mkdir()
    with contextlib.closing(sqlite3.connect(folder / "sqlite.db")) as database:
        database.execute("CREATE TABLE a (b)")
    content = bytearray((folder / "c.db").read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (folder / "corrupt.db").write_bytes(content)
    (folder / "truncated.db").write_bytes((folder / "c.db").read_bytes()[:5000])
    with Campaign.new(folder / "full.db") as campaign:
        campaign.tell([("a", "x", 1.0)])
    with Campaign.new(folder / "c.html") as campaign:  # its report would take its name
        campaign.tell([("a", "x", 1.0)])


WRONG = {
    # commands and their arguments
    "unknown command": ("aks c.db", "aks", "ask"),
    "flag before the command": ("--number=3 ask c.db", "--number=3"),
    "unknown flag": ("ask c.db --nubmer=3", "nubmer", "--help"),
    "flag of another command": ("tell c.db ok.csv --out=x.csv", "out"),
    "no campaign": ("ask", "CAMPAIGN"),
    "extra argument": ("ask c.db e.db", "CAMPAIGN"),
    "table without its flag": ("new n.db ok.csv", "--table=ok.csv"),
    "number without its flag": ("ask c.db 20", "--number=20"),
    "ids in place of pairs": ("predict c.db drug0 target1", "PAIRS is one CSV file"),
    "no table to tell": ("tell c.db", "TABLE"),
    "no pairs to predict": ("predict c.db", "PAIRS"),
    "two pairs to close": ("close c.db pairs.csv all.csv", "PAIRS"),
    "missing flag file": ("ask c.db --flagfile=missing.txt", "missing.txt"),
    "flag without its value": ("ask c.db --number", "number"),
    "suggestions over a table": ("ask c.db --out=ok.csv", "ok.csv", "no ask wrote it"),
    "report over the log": ("report c.db --out=c.db-wal", "the campaign itself"),
    "values of another name": ("tell c.db misnamed.csv", "'activity'", "'plate'"),
    "token of no ask": ("withdraw c.db nobody", "'nobody'", "no ask", "smc-jax status lists"),
    "flag for a name": ("new n.db --maximise --table=ok.csv", "value", "--table=ok.csv"),
    # values of flags
    "number 0": ("ask c.db --number=0", "number", "at least 1"),
    "number -1": ("ask c.db --number=-1", "number"),
    "number abc": ("ask c.db --number=abc", "number=abc: must be a whole number"),
    "number 1e9": ("ask c.db --number=1e9", "number", "1e9"),
    "number 2.5": ("ask c.db --number=2.5", "number"),
    "number empty": ("ask c.db --number=", "number"),
    "expires -1": ("ask c.db --expires=-1", "expires"),
    "expires 0": ("ask c.db --expires=0", "expires"),
    "expires nan": ("ask c.db --expires=nan", "expires"),
    "expires soon": ("ask c.db --expires=soon", "expires=soon: must be a number"),
    "token empty": ("ask c.db --token=", "token"),
    "refit perhaps": ("ask c.db --refit=perhaps", "refit"),
    "correct perhaps": ("tell c.db ok.csv --correct=perhaps", "correct"),
    # settings
    "rank 0": ("new n.db --rank=0", "rank"),
    "rank abc": ("new n.db --rank=abc", "rank=abc: must be a whole number or none"),
    "rank -3 later": ("set c.db --rank=-3", "rank"),
    "noise -1": ("new n.db --noise=-1", "noise"),
    "noise 0": ("new n.db --noise=0", "noise"),
    "noise too small": ("new n.db --noise=1e-300", "noise", "1e-30"),
    "noise nan": ("new n.db --noise=nan", "noise"),
    "noise inf": ("set c.db --noise=inf", "noise"),
    "policy foo": ("new n.db --policy=foo", "policy", "'foo'", "ids"),
    "policy foo later": ("set c.db --policy=foo", "policy"),
    "one good and one bad setting": ("set c.db --rank=3 --budget=0", "budget"),
    "seed -1": ("new n.db --seed=-1", "seed"),
    "seed too large": ("new n.db --seed=4294967296", "seed"),
    "seed later": ("set c.db --seed=1", "seed"),
    "budget 0": ("new n.db --budget=0", "budget"),
    "maximise and minimise": ("new n.db --maximise=a --minimise=b", "--maximise and --minimise"),
    "names that collide": ("new n.db --rows=a --columns=a", "three names"),
    "value named as the rows": ("new n.db --rows=a --maximise=a", "three names"),
    "value named status": ("new n.db --maximise=status", "status"),
    "name empty": ("new n.db --rows=", "rows"),
    "nothing to set": ("set c.db", "--policy"),
    "policy none": ("set c.db --policy=none", "policy", "'none'"),
    "budget nothing": ("set c.db --budget=nothing", "budget", "nothing"),
    # campaigns
    "missing campaign": ("ask missing.db", "no campaign", "smc-jax new missing.db"),
    "campaign in a missing folder": ("status missing/c.db", "missing/c.db"),
    "new in a missing folder": ("new missing/c.db", "missing"),
    "folder as campaign": ("status folder.db", "folder.db", "folder"),
    "text as campaign": ("status text.db", "text.db", "no campaign"),
    "blank file as campaign": ("status blank.db", "blank.db", "no campaign"),
    "table as campaign": ("tell ok.csv c.db", "ok.csv", "no campaign"),
    "another database as campaign": ("ask sqlite.db", "sqlite.db", "no campaign"),
    "corrupt campaign": ("ask corrupt.db", "corrupt.db", "damaged"),
    "truncated campaign": ("ask truncated.db", "truncated.db", "damaged"),
    "new over a campaign": ("new c.db --table=ok.csv", "c.db exists", "smc-jax status c.db"),
    "new over a folder": ("new folder.db", "folder.db exists"),
    "name too long": (f"new {'n' * 300}.db", "nnn"),
    # tables
    "new of a missing table": ("new n.db --table=missing.csv", "missing.csv", "no such file"),
    "new of a folder": ("new n.db --table=folder.csv", "folder"),
    "new with two values of an entry": (
        "new n.db --table=clash.csv",
        "clash.csv, line 3",
        "2.0",
        "smc-jax new --repeats",
    ),
    "new with an absent name": ("new n.db --table=ok.csv --maximise=yield", "yield", "activity"),
    "missing table": ("tell c.db missing.csv", "missing.csv", "no such file"),
    "folder as table": ("tell c.db folder.csv", "folder.csv"),
    "another value": (
        "tell c.db other.csv",
        "line 3",
        str(KNOWN[0][2]),
        "--correct",
        "smc-jax set c.db --repeats",
    ),
    "failed after a value": ("tell c.db lost.csv", "line 2", "--correct"),
    "cell with a unit": ("tell c.db unit.csv", "unit.csv, line 2", "4.5 uM"),
    "cell with a bound": ("tell c.db bound.csv", "line 2", "bound"),
    "cell inf": ("tell c.db inf.csv", "line 2", "finite"),
    "cell too large": ("tell c.db large.csv", "line 2", "1e+30"),
    "cell without an id": ("tell c.db noid.csv", "line 2", "empty"),
    "unknown status": ("tell c.db status.csv", "line 2", "faild"),
    "value and failed": ("tell c.db both.csv", "line 2", "failed"),
    "short line": ("tell c.db short.csv", "line 2", "cells"),
    "two columns": ("tell c.db narrow.csv", "2 column"),
    "names alone": ("tell c.db header.csv", "no line follows"),
    "one name twice": ("tell c.db twice.csv", "'drug'"),
    "open quotation": ("tell c.db quote.csv", "quot"),
    "empty table": ("tell c.db nothing.csv", "no text"),
    "latin1 table": ("tell c.db latin.csv", "UTF-8"),
    "NUL in a table": ("tell c.db nul.csv", "NUL"),
    "gzip cut off": ("tell c.db cut.csv.gz", "gzip"),
    "broken parquet": ("tell c.db bad.parquet", "Parquet"),
    "workbook": ("tell c.db book.csv", "workbook"),
    "campaign as table": ("tell c.db e.db", "e.db"),
    # ids, pairs and plates
    "unknown row": ("ask c.db --only-rows=unknown.txt", "'drug00'", "did you mean 'drug0'"),
    "unknown column": ("ask c.db --only-columns=column.txt", "'target77'", "did you mean"),
    "missing ids": ("ask c.db --only-rows=missing.txt", "missing.txt"),
    "ids without an id": ("ask c.db --only-rows=only_header.txt", "no id"),
    "ids with two columns": ("ask c.db --only-rows=pairs.csv", "more than one column"),
    "unknown pair closed for now": ("ask c.db --closed=strange.csv", "'targt1'", "'target1'"),
    "all closed for now": ("ask c.db --closed=all.csv", "no entry is open"),
    "missing closed": ("ask c.db --closed=missing.csv", "missing.csv"),
    "nothing open": ("ask full.db", "no entry is open", "1 of 1 are known"),
    "plate with a bad header": ("ask c.db --plate=plate.csv", "line 1", "row,group"),
    "plate of three columns": ("ask c.db --plate=plate3.csv", "line 1", "row,group"),
    "plate of unknown ids": ("ask c.db --plate=plate_none.csv", "none of the grouped ids"),
    "plate with two groups of an id": ("ask c.db --plate=plate_two.csv", "line 3", "two groups"),
    "plate without groups": ("ask c.db --plate=plate_empty.csv", "none of the grouped ids"),
    "missing plate": ("ask c.db --plate=rows", "rows", "no such file"),
    "predict unknown pair": ("predict c.db strange.csv", "'targt1'", "did you mean 'target1'"),
    "predict half a pair": ("predict c.db partial.csv", "line 2", "empty"),
    "predict three columns": ("predict c.db three.csv", "two"),
    "predict from nothing": ("predict e.db pairs.csv", "too few"),
    "close unknown pair": ("close c.db strange.csv", "'targt1'", "did you mean"),
    "close everything": ("close c.db free.csv", "free.csv"),
    "reopen missing pairs": ("reopen c.db missing.csv", "missing.csv"),
    "add nothing": ("add c.db", "--rows"),
    "add missing ids": ("add c.db --rows=ids.txt --columns=missing.txt", "missing.txt"),
    # files to write
    "ask into a missing folder": ("ask e.db --out=missing/next.csv", "missing"),
    "ask into an unknown kind": ("ask e.db --out=next.xlsx", ".csv, .csv.gz or .parquet"),
    "ask into a folder": ("ask e.db --out=folder.csv", "folder.csv", "folder"),
    "ask into nothing": ("ask e.db --out=", "end the name"),
    "ask into what is no folder": ("ask e.db --out=ok.csv/next.csv", "ok.csv"),
    "ask into proc": ("ask e.db --out=/proc/next.csv", "/proc/next.csv", "written"),
    "ask into a long name": (f"ask e.db --out={'n' * 300}.csv", "nnn"),
    "predict into a missing folder": ("predict c.db pairs.csv --out=missing/p.csv", "missing"),
    "predict into an unknown kind": ("predict c.db pairs.csv --out=p.txt", "p.txt", ".csv"),
    "picture into a missing folder": ("status e.db --png=missing/p.png", "missing"),
    "picture over the campaign": ("status e.db --png=e.db", "campaign itself"),
    "open asks into an unknown kind": ("status e.db --open-asks=asks.txt", "asks.txt", ".csv"),
    "report into a missing folder": ("report e.db --out=missing/r.html", "missing"),
    "report over the campaign": ("report e.db --out=./e.db", "campaign itself"),
    "report of a campaign named html": ("report c.html", "campaign itself"),
    "report over a table": ("report e.db --out=ok.csv", "--out=ok.csv", ".html or .htm"),
    "picture over a table": ("status e.db --png=ok.csv", "--png=ok.csv", "in .png"),
    "export over its own table": ("export c.db --out=assay.csv", "assay.csv", "told", "--out"),
    "export over another table": ("export c.db --out=pairs.csv", "no export wrote it", "--out"),
    "export without a file": ("export c.db", "--out"),
    "export into an unknown kind": ("export c.db --out=all.json", "all.json", ".csv"),
    "export into a missing folder": ("export c.db --out=missing/all.csv", "missing"),
}


@pytest.fixture(scope="module")
def wrong(made, tmp_path_factory):
    """A folder with campaigns and files to go wrong with; no test may change it."""
    folder = tmp_path_factory.mktemp("wrong")
    for path in made.iterdir():
        shutil.copy(path, folder)
    with Campaign.new(folder / "e.db") as campaign:
        campaign.add(rows=ROWS, columns=COLUMNS)
    wrong_files(folder)
    return folder


def state_of(folder):
    """What the campaigns of a folder hold, the names of its files, and what the others hold."""
    campaigns = {name: dump(folder / name) for name in ("c.db", "e.db", "full.db", "c.html")}
    # Files that SQLite has while a campaign is open, and may leave to the next one.
    files = [path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]
    others = {
        path.name: path.is_file() and path.name not in campaigns and path.read_bytes()
        for path in files
    }
    return campaigns, others


@pytest.mark.parametrize("kind", WRONG)
def test_a_mistake_is_one_line_and_changes_nothing(wrong, fail, monkeypatch, kind):
    arguments, *parts = WRONG[kind]
    monkeypatch.chdir(wrong)
    before = state_of(wrong)
    line = fail(*arguments.split())
    assert all(part in line for part in parts), line
    assert state_of(wrong) == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="no folder is read-only to the superuser; run the tests as another user",
)
@pytest.mark.parametrize("line", ["new locked/n.db", "ask e.db --out=locked/n.csv"])
def test_a_folder_that_cannot_be_written(empty, fail, tmp_path, line):
    (tmp_path / "locked").mkdir(mode=0o500)
    before = dump(empty)
    fail(*line.split())
    assert dump(empty) == before


def test_suggestions_are_printed_even_if_the_disk_is_full(empty, monkeypatch, capsys):
    """The file is checked before the ask; what goes wrong later must not cost the suggestions."""
    from smc_jax.campaign import writing

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", no_space)
    monkeypatch.setattr(Storage, "record_ask", lambda *_, **__: (0, None))
    monkeypatch.setattr(sys, "argv", ["smc-jax", "ask", str(empty), "--out=n.csv", "--number=2"])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert "--token=" in printed.out
    assert "No space left" in printed.err
    assert not pathlib.Path("n.csv").exists()


def test_of_several_tables_one_bad_one_refuses_all(copy, monkeypatch, capsys, tmp_path):
    write(tmp_path / "good.csv", NAMES, ("drug0", "target1", 1.0))
    write(tmp_path / "bad.csv", NAMES, ("drug0", "target3", 1.0), ("drug0", "target5", "x"))
    monkeypatch.setattr(sys, "argv", ["smc-jax", "tell", str(copy), "good.csv", "bad.csv"])
    with pytest.raises(SystemExit):
        command_line.main()
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("error: bad.csv, line 3")
    found = {(row, column) for row, column, _ in values_of(copy)}
    assert found == KNOWN_PAIRS


def test_an_interrupt_is_one_line(empty, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    before = dump(empty)
    monkeypatch.setattr(Storage, "record_ask", interrupted)
    monkeypatch.setattr(sys, "argv", ["smc-jax", "ask", str(empty)])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.strip().count("\n") == 0
    assert dump(empty) == before


def test_there_are_many_kinds_of_mistakes():
    assert len(WRONG) >= 60
