"""The command `smc-jax`: what every command does, and that it says what is next."""

import csv
import io
import pathlib
import sys

import pytest
from commanding import (
    COLUMNS,
    KNOWN,
    KNOWN_PAIRS,
    NAMES,
    OPTIONS,
    ROWS,
    TRUTH,
    read,
    values_of,
    write,
)

from smc_jax.campaign import command_line
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.commands import COMMANDS

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_a_campaign_from_beginning_to_end(made, run, tmp_path):
    """The commands of the README, one after the other."""
    printed = run("new", "c.db", f"--table={made / 'assay.csv'}", *OPTIONS)
    assert "Read as a long table" in printed
    assert "7 rows, 8 columns, 28 known" in printed
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
    assert "30 known, 0 pending, 1 failed" in printed
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
    cells = [[row, *(1.5 if j % 2 else "" for j in range(8))] for row in ROWS]
    write(pathlib.Path("wide.csv"), ["", *COLUMNS], *cells)
    printed = run("new", "n.db", "--table=wide.csv", "--minimise=dose", "--seed=5", "--noise=0.2")
    assert "Read as a wide table" in printed
    assert "7 rows, 8 columns, 28 known" in printed
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
    assert "Only 56 entries were open" in run("ask", empty, f"--number={10**12}")


def test_what_expires_at_once_is_free(empty, run):
    run("ask", empty, "--number=80", "--expires=1e-9")
    run("ask", empty, "--number=80", "--expires=24")
    with Campaign(empty) as campaign:
        assert campaign.sizes()["pending"] == 56


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
    (tmp_path / "rows.txt").write_text("drug6\ndrug8\n")
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


def test_ids_that_the_terminal_cannot_show(empty, monkeypatch):
    """Where the output is ASCII, as it may be in a pipe."""
    with Campaign(empty) as campaign:
        campaign.tell([("naïve", "β2", 1.0)])
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "argv", ["smc-jax", "status", str(empty)])
    command_line.main()
    printed = terminal.buffer.getvalue()
    assert b"na\\xefve" in printed
    assert b"Next:" in printed
