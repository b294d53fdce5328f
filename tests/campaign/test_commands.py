"""The command `smc-jax`: every command says what is next, every mistake is one line."""

import contextlib
import csv
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from smc_jax.campaign import command_line, compiled
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.commands import COMMANDS
from smc_jax.campaign.storage import Storage

# One shape for all tests with a model, so that few programs are compiled.
ROWS, COLUMNS = [f"drug{i}" for i in range(8)], [f"target{j}" for j in range(10)]
NAMES = ("drug", "target", "activity")
OPTIONS = ("--rows=drug", "--columns=target", "--maximise=activity", "--rank=2")


def truth():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 10)) + 0.1 * rng.normal(size=(8, 10))
    return values.round(3)


TRUTH = truth()
KNOWN = [
    (row, column, float(TRUTH[i, j]))
    for i, row in enumerate(ROWS)
    for j, column in enumerate(COLUMNS)
    if (i + j) % 2 == 0
]
KNOWN_PAIRS = {(row, column) for row, column, _ in KNOWN}


def write(path, *lines):
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    return path


def read(path):
    """The lines of a CSV, as dictionaries."""
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def dump(path):
    """Everything in the tables of a campaign."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def values_of(path):
    with Storage.open(path) as storage:
        log = storage.state(0.0).log
    named = zip(log.row, log.column, log.value.tolist(), strict=True)
    return sorted((log.row_ids[row], log.column_ids[column], value) for row, column, value in named)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Commands run in a folder of their own, and leave the user's cache alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command that must succeed; returns what it prints."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["smc-jax", *map(str, arguments)])
        command_line.main()
        printed = capsys.readouterr().out
        assert any(line.startswith("Next:") for line in printed.splitlines())
        return printed

    return call


@pytest.fixture
def fail(monkeypatch, capsys):
    """Runs a command that must fail with one line; returns the line."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["smc-jax", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            command_line.main()
        printed = capsys.readouterr()
        assert stopped.value.code == 2
        assert "Traceback" not in printed.out + printed.err
        assert "Next:" not in printed.out
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        assert printed.err.endswith("\n")
        return printed.err

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A campaign with a model, whose fit is in its cache; tests work on copies."""
    folder = tmp_path_factory.mktemp("made")
    table = write(folder / "assay.csv", NAMES, *KNOWN)
    settings = dict(zip(("rows", "columns", "value"), NAMES, strict=True))
    with Campaign.new(folder / "c.db", table, rank=2, **settings) as campaign:
        campaign.best(4)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    """A copy of the campaign in the folder where commands run."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / "c.db"


@pytest.fixture
def empty(tmp_path):
    """A campaign of which nothing but the ids is known."""
    with Campaign.new(tmp_path / "e.db") as campaign:
        campaign.add(rows=ROWS, columns=COLUMNS)
    return tmp_path / "e.db"


# What the commands do.


def test_a_campaign_from_beginning_to_end(made, run, tmp_path):
    """The commands of the README, one after the other."""
    printed = run("new", "c.db", f"--table={made / 'assay.csv'}", *OPTIONS)
    assert "Read as a long table" in printed
    assert "8 rows, 10 columns, 40 known" in printed
    printed = run("ask", "c.db", "--number=4", "--out=next.csv")
    lines = read("next.csv")
    asked = [(line["drug"], line["target"]) for line in lines]
    assert len(set(asked)) == 4
    assert not set(asked) & KNOWN_PAIRS
    assert all(row in printed and column in printed for row, column in asked)
    told = [float(TRUTH[ROWS.index(row), COLUMNS.index(column)]) for row, column in asked]
    for line, value in zip(lines[:2], told, strict=False):
        line["activity"] = value
    lines[2]["status"] = "failed"
    with open("next.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    printed = run("tell", "c.db", "next.csv")
    assert "2 new values, 1 failed" in printed
    assert "1 line has no value yet" in printed
    assert "3 known already" in run("tell", "c.db", "next.csv")
    assert "1 withdrawn" in run(
        "tell", "c.db", write(tmp_path / "w.csv", NAMES, (*asked[3], "withdrawn"))
    )
    printed = run("status", "c.db", "--png=progress.png")
    assert "42 known, 0 pending, 1 failed" in printed
    assert pathlib.Path("progress.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    run("report", "c.db")
    page = pathlib.Path("c.html").read_text()
    assert all(one in page for one in (*ROWS, *COLUMNS, "activity"))
    run("report", "c.db", "--out=other.html")
    assert pathlib.Path("other.html").exists()
    pairs = write(tmp_path / "pairs.csv", ("drug", "target"), asked[0], ("drug1", "target2"))
    printed = run("predict", "c.db", pairs, "--out=predicted.csv")
    first, second = read("predicted.csv")
    assert (first["drug"], first["target"]) == asked[0]
    assert float(first["known"]) == pytest.approx(told[0], abs=1e-6)
    assert second["known"] == ""
    assert float(second["low"]) < float(second["mean"]) < float(second["high"])
    assert "90 of 100" in printed


@pytest.mark.parametrize("table", [None, "wide"])
def test_new(run, table):
    if table is None:
        assert "0 rows, 0 columns, 0 known" in run("new", "n.db")
        return
    cells = [[row, *(1.5 if j % 2 else "" for j in range(10))] for row in ROWS]
    write(pathlib.Path("wide.csv"), ["", *COLUMNS], *cells)
    printed = run("new", "n.db", "--table=wide.csv", "--minimise=dose", "--seed=5", "--noise=0.2")
    assert "Read as a wide table" in printed
    assert "8 rows, 10 columns, 40 known" in printed
    with Campaign("n.db") as campaign:
        found = campaign.settings
    assert (found["maximise"], found["value"], found["seed"], found["noise"]) == (
        False, "dose", 5, 0.2,
    )  # fmt: skip


def test_ask_for_some_rows_and_columns(copy, run, tmp_path):
    (tmp_path / "rows.txt").write_text("drug0\ndrug1\n")
    write(tmp_path / "columns.csv", ["target"], *([column] for column in COLUMNS[:6]))
    write(tmp_path / "closed.csv", ("drug", "target"), ("drug0", "target1"), ("", "target2"))
    run("ask", copy, "--only-rows=rows.txt", "--only-columns=columns.csv", "--number=8",
        "--closed=closed.csv", "--out=next.csv")  # fmt: skip
    found = {(line["drug"], line["target"]) for line in read("next.csv")}
    wanted = {(row, column) for row in ROWS[:2] for column in COLUMNS[:6]} - KNOWN_PAIRS
    wanted = {pair for pair in wanted if pair[1] != "target2"} - {("drug0", "target1")}
    assert found == wanted


def test_both_spellings_of_a_flag(empty, run):
    pathlib.Path("rows.txt").write_text("drug3\n")
    for number, arguments in enumerate(
        (["--only-rows=rows.txt"], ["--only_rows=rows.txt"], ["--only-rows", "rows.txt"])
    ):
        run("ask", empty, *arguments, "--number=2", f"--out={number}.csv", "--norefit")
        assert {line["row"] for line in read(f"{number}.csv")} == {"drug3"}
    assert "retry_failed is True" in run("set", empty, "--retry-failed")
    assert "retry_failed is False" in run("set", empty, "--noretry_failed")


@pytest.mark.parametrize("plate", ["row", "column", "groups.csv", "named.csv"])
def test_ask_for_a_plate(copy, run, plate, tmp_path):
    groups = {column: "AB"[j % 2] for j, column in enumerate(COLUMNS[:6])}
    write(tmp_path / "groups.csv", ("column", "group"), *groups.items())
    write(tmp_path / "named.csv", ("target", "plate"), *groups.items(), ("target9", ""))
    run("ask", copy, f"--plate={plate}", "--number=4", "--out=next.csv")
    lines = read("next.csv")
    assert len(lines) == 4
    key = {
        "row": lambda line: line["drug"],
        "column": lambda line: line["target"],
    }.get(plate, lambda line: groups[line["target"]])
    assert len({key(line) for line in lines}) == 1


def test_a_token_gives_the_same_file(empty, run):
    for out in ("a.csv", "b.csv"):
        printed = run("ask", empty, "--number=3", "--token=help", f"--out={out}")
        assert "--token=help" in printed
    assert pathlib.Path("a.csv").read_bytes() == pathlib.Path("b.csv").read_bytes()
    with Campaign(empty) as campaign:
        assert campaign.sizes()["pending"] == 3


def test_answers_that_were_not_told_are_not_written_over(empty, run, fail):
    run("ask", empty, "--number=2", "--out=next.csv")
    (header, *lines) = pathlib.Path("next.csv").read_text().splitlines()
    first, second = ([*line.split(",")[:2], "1.5", *line.split(",")[3:]] for line in lines)
    pathlib.Path("next.csv").write_text("\n".join([header, ",".join(first), lines[1]]))
    assert "not told" in fail("ask", empty, "--out=next.csv")
    run("tell", empty, "next.csv")
    assert "1 of the entries in it are still pending" in fail("ask", empty, "--out=next.csv")
    pathlib.Path("next.csv").write_text("\n".join([header, ",".join(first), ",".join(second)]))
    run("tell", empty, "next.csv")
    run("ask", empty, "--number=2", "--out=next.csv")


def test_a_sheet_that_waits_for_answers_is_not_written_over(empty, run, fail):
    """Nothing of it is filled in; it is written again by its token, and not by another ask."""
    run("ask", empty, "--number=2", "--token=monday", "--out=next.csv")
    sheet, before = pathlib.Path("next.csv").read_bytes(), dump(empty)
    for more in ([], ["--token=tuesday"]):
        line = fail("ask", empty, "--number=2", "--out=next.csv", *more)
        assert "next.csv: 2 of the entries in it are still pending" in line
        assert "withdraw" in line
        assert "--out" in line
    assert dump(empty) == before
    pathlib.Path("next.csv").write_bytes(sheet.replace(b"It spreads", b"It spread"))
    run("ask", empty, "--number=2", "--token=monday", "--out=next.csv")
    assert pathlib.Path("next.csv").read_bytes() == sheet
    run("withdraw", empty, "monday")
    run("ask", empty, "--number=2", "--token=tuesday", "--out=next.csv")
    assert "2 of the entries" in fail(
        "ask", empty, "--number=2", "--token=monday", "--out=next.csv"
    )


def test_what_a_tell_notes_is_printed_once(empty, run):
    run("ask", empty, "--number=2", "--out=next.csv")
    printed = run("tell", empty, "next.csv")
    assert printed.count("Nothing was told") == 1
    assert printed.count("nothing new") == 1
    printed = run("tell", empty, write(pathlib.Path("new.csv"), ("row", "column", "value"),
                                       ("drug8", "target0", 1.0)))  # fmt: skip
    assert printed.count("New row: 'drug8'") == 1


def test_an_ask_is_taken_back(empty, run):
    run("ask", empty, "--number=5", "--token=monday")
    assert "monday: 5 withdrawn." in run("withdraw", empty, "monday")
    with Campaign(empty) as campaign:
        assert campaign.sizes()["pending"] == 0


def test_status_lists_the_open_asks(empty, run):
    run("ask", empty, "--number=5", "--token=monday")
    run("ask", empty, "--number=3", "--token=tuesday", "--expires=48")
    run("ask", empty, "--number=2", "--token=told")
    with Campaign(empty) as campaign:
        first, *_ = campaign.ask(5, token="monday")
        campaign.tell([(first.row, first.column, "failed")])
        campaign.tell([(one.row, one.column, 1.0) for one in campaign.ask(2, token="told")])
        left = next(iter(campaign.best(1)))
        campaign.tell([(left.row, left.column, "pending")])
    printed = run("status", empty, "--open-asks=asks.csv")
    lines = printed[printed.index("open asks, the oldest first") :].splitlines()
    assert lines[1].split() == ["token", "by", "asked", "pending", "expires"]
    monday, tuesday, announced = (" ".join(line.split()) for line in lines[2:5])
    assert monday.startswith("monday ")
    assert monday.endswith(" 0 min ago 4 of 5 never")
    assert tuesday.startswith("tuesday ")
    assert tuesday.endswith(" 3 of 3 in 48 h")
    assert announced.startswith("(in a table) ")
    assert announced.endswith(" 1 of 1 never")
    assert lines[5].startswith("best value so far")
    found = read("asks.csv")
    assert [(line["token"], line["number"], line["pending"]) for line in found] == [
        ("monday", "5", "4"),
        ("tuesday", "3", "3"),
        ("", "1", "1"),
    ]
    assert [bool(line["expires"]) for line in found] == [False, True, False]
    run("withdraw", empty, "monday")
    assert "monday" not in run("status", empty)


def test_of_many_open_asks_the_oldest_are_listed(empty, run):
    with Campaign(empty) as campaign:
        for number in range(13):
            campaign.ask(1, token=f"ask{number}" + "x" * (100 if number == 0 else 0))
    printed = run("status", empty, "--open-asks=asks.csv")
    assert "ask9" in printed
    assert "ask10" not in printed
    assert "and 3 later; --open-asks=FILE.csv has all of them" in printed
    assert "x" * 32 not in printed
    assert [line["token"][:5] for line in read("asks.csv")][::12] == ["ask0x", "ask12"]


def test_a_setting_goes_back_to_none(copy, run):
    run("set", copy, "--budget=100", "--noise=0.5", "--rank=3")
    printed = run("set", copy, "--budget=none", "--noise=None", "--rank=none")
    assert "rank is none, budget is none, noise is none from here on" in printed
    with Campaign(copy) as campaign:
        found = campaign.settings
    assert {found[name] for name in ("budget", "noise", "rank")} == {None}


def test_a_huge_number_is_what_is_open(empty, run):
    assert "Only 80 entries were open" in run("ask", empty, f"--number={10**12}")


def test_what_expires_at_once_is_free(empty, run):
    run("ask", empty, "--number=80", "--expires=1e-9")
    run("ask", empty, "--number=80", "--expires=24")
    with Campaign(empty) as campaign:
        assert campaign.sizes()["pending"] == 80


def test_tell_corrections_repeats_and_several_tables(copy, run, tmp_path):
    row, column, value = KNOWN[0]
    write(tmp_path / "one.csv", NAMES, (row, column, 5.0))
    write(tmp_path / "two.csv", NAMES, ("drug8", "target0", 1.0))
    printed = run("tell", copy, "one.csv", "two.csv", "--correct")
    assert "one.csv, two.csv: 1 new value, 1 correction, 1 new row." in printed
    assert "New drug: 'drug8' (close to 'drug" in printed
    run("set", copy, "--repeats", "--budget=100", "--policy=greedy", "--noise=0.5", "--rank=3")
    write(tmp_path / "three.csv", NAMES, (row, column, 6.0))
    assert "1 repeat measurement." in run("tell", copy, "three.csv")
    found = [told for own, other, told in values_of(copy) if (own, other) == (row, column)]
    assert found == [5.0, 6.0]
    assert value not in found


def test_close_reopen_and_add(copy, run, tmp_path):
    write(tmp_path / "pairs.csv", ("drug", "target"), ("drug0", "*"), ("drug1", "target0"))
    assert "2 of 2 were open" in run("close", copy, "pairs.csv")
    assert "0 of 2 were open" in run("close", copy, "pairs.csv")
    assert "2 of 2 were closed" in run("reopen", copy, "pairs.csv")
    (tmp_path / "rows.txt").write_text("drug7\ndrug8\n")
    (tmp_path / "columns.txt").write_text("target\ntarget10\ntarget11\n")
    printed = run("add", copy, "--rows=rows.txt", "--columns=columns.txt")
    assert "1 new row, 2 new columns" in printed


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_campaign_made_from_an_export_is_the_same(copy, run, suffix):
    with Campaign(copy) as campaign:
        campaign.add(rows=["drug8", "drug9"], columns=["target10"])
        campaign.tell([("drug0", "target1", "failed"), ("drug0", "target3", "pending")])
        campaign.tell([("drug0", "target5", 0.1 + 0.2), ("drug0", "target7", -1e-30)])
    run("export", copy, f"--out=all.{suffix}")
    run("new", "again.db", f"--table=all.{suffix}", *OPTIONS)
    assert values_of("again.db") == values_of(copy)
    with Campaign(copy) as one, Campaign("again.db") as other:
        assert one.sizes() == other.sizes()
    run("export", copy, f"--out=history.{suffix}", "--history")


def test_the_history_has_what_was_corrected(copy, run, tmp_path):
    row, column, value = KNOWN[0]
    run("tell", copy, write(tmp_path / "one.csv", NAMES, (row, column, 5.0)), "--correct")
    run("export", copy, "--history", "--out=history.csv")
    lines = [
        line for line in read("history.csv") if (line["drug"], line["target"]) == (row, column)
    ]
    assert [float(line["activity"]) for line in lines] == [value, 5.0]
    assert [line["correction"] for line in lines] == ["False", "True"]
    assert "one.csv" in lines[1]["source"]
    run("export", copy, "--out=now.csv")
    now = {(line["drug"], line["target"]): line["activity"] for line in read("now.csv")}
    assert now[row, column] == "5.0"
    assert len(now) == len(KNOWN)


def test_an_empty_campaign_has_a_status_and_a_report(run):
    run("new", "n.db")
    assert "0 x 0 entries" in run("status", "n.db", "--png=n.png")
    run("report", "n.db")
    run("export", "n.db", "--out=n.csv")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"], ["--helpfull"]], ids=str)
def test_help(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["smc-jax", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_names_every_flag(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "argv", ["smc-jax", name, "missing.db", "--help"])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for flag in COMMANDS[name].flags:
        no = "[no]" if flag.kind is bool else ""
        assert f"--{no}{flag.name.replace('_', '-')}" in printed
        assert flag.meaning in printed


def test_ids_that_the_terminal_cannot_show(empty):
    """In a process whose output is ASCII, as it may be in a pipe."""
    with Campaign(empty) as campaign:
        campaign.tell([("naïve", "β2", float(number)) for number in (1,)])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "smc_jax.campaign.command_line", "status", str(empty)]
    found = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    assert "na\\xefve" in found.stdout
    assert "Next:" in found.stdout


COMPILED = """
import os, pathlib, sys
import jax, jax.numpy as jnp
from smc_jax.campaign import compiled
from smc_jax.campaign.compiled import keep_compiled_programs
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
folder = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "smc_jax" / "campaign"
stale = folder / "process-killed"
stale.mkdir(parents=True)
(stale / "lock").write_bytes(b"")  # left of a process that was killed
with keep_compiled_programs():
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    own = pathlib.Path(jax.config.jax_compilation_cache_dir)
    assert own.is_dir() and not stale.exists()
    jax.jit(lambda x: jnp.linalg.cholesky(x) + 1.0)(jnp.eye(3)).block_until_ready()
    made = {path.name for path in own.iterdir()} - {"lock"}
    assert made
    (own / "half").write_bytes(next(own.glob("*-cache")).read_bytes()[:-50])  # of a full disk
kept = {path.name for path in (folder / "kept").iterdir()}
assert kept == made and not own.exists()
with keep_compiled_programs():
    other = pathlib.Path(jax.config.jax_compilation_cache_dir)
    assert kept <= {path.name for path in other.iterdir()}
    with keep_compiled_programs():  # a process that lives is left alone
        assert other.is_dir()
assert not other.exists()
try:
    with keep_compiled_programs():
        own = pathlib.Path(jax.config.jax_compilation_cache_dir)
        (own / "more").write_bytes(b"more")
        raise KeyboardInterrupt
except KeyboardInterrupt:
    assert not own.exists()
assert {path.name for path in (folder / "kept").iterdir()} == kept
old = folder / "kept" / "old"
old.write_bytes(b"old")
os.utime(old, (1.0, 1.0))
compiled.MOST = len(kept)
with keep_compiled_programs():
    pass
assert not old.exists()
assert {path.name for path in (folder / "kept").iterdir()} == kept
os.environ["XDG_CACHE_HOME"] = sys.argv[1]  # a file: there can be no folder in it
with keep_compiled_programs():
    print("goes on without")
"""


def test_compiled_programs_are_kept(tmp_path):
    (tmp_path / "file").write_text("")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    del environment["JAX_COMPILATION_CACHE_DIR"]
    line = [sys.executable, "-c", COMPILED, str(tmp_path / "file")]
    found = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "goes on without\n"


@pytest.mark.parametrize(("most", "size"), [(2, 1000), (100, 25), (100, 29)])
def test_the_programs_that_were_not_used_for_longest_are_removed(tmp_path, monkeypatch, most, size):
    """Of five entries of ten bytes, two are left by their number or by their size.

    The oldest one was read of late, by whichever process: it stays.
    """
    monkeypatch.setattr(compiled, "MOST", most)
    monkeypatch.setattr(compiled, "MOST_BYTES", size)
    for age, name in enumerate("edcba"):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (0.0 if age else 500.0, 1000.0 - age))
    os.utime(tmp_path / "a", (2000.0, 996.0))
    compiled._prune(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "e"}


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
    "no table to tell": ("tell c.db", "TABLE"),
    "no pairs to predict": ("predict c.db", "PAIRS"),
    "two pairs to close": ("close c.db pairs.csv all.csv", "PAIRS"),
    "missing flag file": ("ask c.db --flagfile=missing.txt", "missing.txt"),
    "flag without its value": ("ask c.db --number", "number"),
    "suggestions over a table": ("ask c.db --out=ok.csv", "ok.csv", "no ask wrote it"),
    "report over the log": ("report c.db --out=c.db-wal", "the campaign itself"),
    "values of another name": ("tell c.db misnamed.csv", "'activity'", "'plate'"),
    "token of no ask": ("withdraw c.db nobody", "'nobody'", "no ask"),
    "flag for a name": ("new n.db --maximise --table=ok.csv", "value", "--table=ok.csv"),
    # values of flags
    "number 0": ("ask c.db --number=0", "number", "at least 1"),
    "number -1": ("ask c.db --number=-1", "number"),
    "number abc": ("ask c.db --number=abc", "number", "abc"),
    "number 1e9": ("ask c.db --number=1e9", "number", "1e9"),
    "number 2.5": ("ask c.db --number=2.5", "number"),
    "number empty": ("ask c.db --number=", "number"),
    "expires -1": ("ask c.db --expires=-1", "expires"),
    "expires 0": ("ask c.db --expires=0", "expires"),
    "expires nan": ("ask c.db --expires=nan", "expires"),
    "expires soon": ("ask c.db --expires=soon", "expires", "soon"),
    "token empty": ("ask c.db --token=", "token"),
    "refit perhaps": ("ask c.db --refit=perhaps", "refit"),
    "correct perhaps": ("tell c.db ok.csv --correct=perhaps", "correct"),
    # settings
    "rank 0": ("new n.db --rank=0", "rank"),
    "rank abc": ("new n.db --rank=abc", "rank"),
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
    "missing campaign": ("ask missing.db", "missing.db", "no campaign"),
    "campaign in a missing folder": ("status missing/c.db", "missing/c.db"),
    "new in a missing folder": ("new missing/c.db", "missing"),
    "folder as campaign": ("status folder.db", "folder.db", "folder"),
    "text as campaign": ("status text.db", "text.db", "no campaign"),
    "blank file as campaign": ("status blank.db", "blank.db", "no campaign"),
    "table as campaign": ("tell ok.csv c.db", "ok.csv", "no campaign"),
    "another database as campaign": ("ask sqlite.db", "sqlite.db", "no campaign"),
    "corrupt campaign": ("ask corrupt.db", "corrupt.db", "damaged"),
    "truncated campaign": ("ask truncated.db", "truncated.db", "damaged"),
    "new over a campaign": ("new c.db --table=ok.csv", "c.db exists"),
    "new over a folder": ("new folder.db", "folder.db exists"),
    "name too long": (f"new {'n' * 300}.db", "nnn"),
    # tables
    "new of a missing table": ("new n.db --table=missing.csv", "missing.csv", "no such file"),
    "new of a folder": ("new n.db --table=folder.csv", "folder"),
    "new with two values of an entry": ("new n.db --table=clash.csv", "clash.csv, line 3", "2.0"),
    "new with an absent name": ("new n.db --table=ok.csv --maximise=yield", "yield", "activity"),
    "missing table": ("tell c.db missing.csv", "missing.csv", "no such file"),
    "folder as table": ("tell c.db folder.csv", "folder.csv"),
    "another value": ("tell c.db other.csv", "line 3", str(KNOWN[0][2]), "--correct"),
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
