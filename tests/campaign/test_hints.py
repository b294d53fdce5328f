"""What the commands say is next works, and what they say of forecasts is what holds now."""

import pathlib
import re
import shlex

import numpy as np
import pytest
from commanding import NAMES, read, write

from smc_jax.campaign import show
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.types import Calibration

pytestmark = pytest.mark.usefixtures("elsewhere")


def next_of(printed):
    return next(line for line in printed.splitlines() if line.startswith("Next: "))[6:]


def fill(name, number):
    """Fills in the first lines of a sheet."""
    lines = read(name)
    for i, line in enumerate(lines[:number]):
        line["value"] = 0.5 + i
    write(pathlib.Path(name), list(lines[0]), *(line.values() for line in lines))


def test_a_sheet_that_waits_is_not_offered_to_the_next_ask(empty, run):
    run("ask", empty, "--number=3", "--out=next.csv")
    step = next_of(run("tell", empty, "next.csv"))
    assert "fill in the column 'value' of next.csv, then tell it again" in step
    fill("next.csv", 2)
    step = next_of(run("tell", empty, "next.csv"))
    assert "--out=next2.csv" in step
    run(*shlex.split(step.partition(", or")[0])[1:])
    fill("next.csv", 3)
    assert "--out=next.csv" in next_of(run("tell", empty, "next.csv"))


def test_one_line_that_waits_is_one(empty, run, fail):
    run("ask", empty, "--number=2", "--out=next.csv")
    fill("next.csv", 1)
    run("tell", empty, "next.csv")
    assert "1 of 2 lines in it has no answer" in fail("ask", empty, "--out=next.csv")


def test_where_nothing_is_open_no_ask_is_suggested(empty, run, fail):
    printed = run("new", "n.db")
    assert next_of(printed).startswith("smc-jax add n.db")
    assert "smc-jax add" in fail("ask", "n.db")
    run("ask", empty, "--number=56", "--token=all")
    step = next_of(run("status", empty))
    assert "smc-jax ask" not in step
    assert "smc-jax tell" in step
    line = fail("ask", empty)
    assert all(part in line for part in ("smc-jax tell", "smc-jax withdraw", "lists the tokens"))
    assert next_of(run("withdraw", empty, "all")) == f"smc-jax ask {empty}"


def test_where_the_advice_is_to_stop_a_report_is_offered_first(copy, run, monkeypatch):
    with Campaign(copy) as campaign:
        found = campaign.status()
    for chance, first in ((0.01, "report"), (0.5, "ask")):
        status = found._replace(chance=chance)
        monkeypatch.setattr(Campaign, "status", lambda self, status=status: status)
        step = next_of(run("status", copy))
        assert step.startswith(f"smc-jax {first} {copy}, or smc-jax ")
        assert "smc-jax report" in step


def test_a_full_table_is_reported(run):
    write(pathlib.Path("full.csv"), ("row", "column", "value"), ("a", "x", 1.0))
    assert "smc-jax report full.db" in next_of(run("new", "full.db", "--table=full.csv"))


def test_new_says_which_values_are_wanted(run):
    assert "High values are wanted; --minimise=NAME makes" in run("new", "high.db")
    assert "Low values are wanted; --maximise=NAME makes" in run("new", "low.db", "--minimise=dose")


def test_a_table_of_forecasts_has_known_values_as_told(copy, run):
    with Campaign(copy) as campaign:
        campaign.tell([("drug0", "target1", 4.64), ("drug0", "target3", 0.1 + 0.2)])
    lines = [("drug0", "target1"), ("drug0", "target3"), ("drug0", "target5")]
    write(pathlib.Path("pairs.csv"), NAMES[:2], *lines)
    run("predict", copy, "pairs.csv", "--out=forecasts.csv")
    found = read("forecasts.csv")
    assert [line["known"] for line in found] == ["4.64", "0.30000000000000004", ""]
    for line in found:
        for name in ("mean", "sd", "low", "high"):
            assert line[name] == repr(float(f"{float(line[name]):.6g}"))


def test_the_known_value_of_repeats_is_their_mean(new):
    campaign = new()
    campaign.set(repeats=True)
    campaign.tell([("d6", "t1", 4.0), ("d6", "t1", 5.0)])
    assert campaign.predict([("d6", "t1")])[0].known == 4.5


def test_intervals_are_judged_by_their_answers():
    def said(answers, outside):
        value = np.where(np.arange(answers) < outside, 9.0, 0.0)
        ones = np.ones(answers)
        return show.coverage(Calibration(0.0 * ones, ones, -ones, ones, value))

    assert "90 of 100 cases" in said(9, 0)
    assert said(18, 5) == "Of 18 answers so far 13 lay in their 90 % interval."


def test_a_report_lists_what_waits_with_the_forecasts_of_now(copy, run):
    with Campaign(copy) as campaign:
        asked = campaign.ask(4)
        first, *others = asked
        campaign.tell([(first.row, first.column, first.mean + 5.0)])
        now = campaign.predict([(one.row, one.column) for one in others])
        campaign.report("r.html")
    assert any(abs(one.mean - new.mean) > 0.05 for one, new in zip(others, now, strict=True))
    page = pathlib.Path("r.html").read_text()
    table = page[page.index('aria-label="Table: pending suggestions"') :]
    lines = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")])[1:]
    for line, one in zip(lines, now, strict=True):
        cells = re.sub(r"<[^>]*>", " ", line).replace("&minus;", "-").split()
        assert cells[:2] == [one.row, one.column]
        assert float(cells[2]) == pytest.approx(one.mean, abs=0.006)
    assert "Bits, when asked" in table
