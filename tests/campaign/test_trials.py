"""Campaigns under fire: two processes at once, and processes that are killed, with the real model.

`SMC_TRIAL_SECONDS` and `SMC_TRIAL_KILLS` make the trials longer; `pytest -s` shows their counts.
"""

import contextlib
import os
import pathlib
import random
import select
import subprocess
import sys
import time

import numpy as np
import pytest

from smc_jax.campaign.storage import Storage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="select on pipes, and signals"),
]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = float(os.environ.get("SMC_TRIAL_SECONDS", "10"))
KILLS = int(os.environ.get("SMC_TRIAL_KILLS", "10"))
PATIENCE = 300.0  # seconds; a machine under load is slow, and only a hang takes this long

# A process that asks and tells until it is told to end, or killed. It prints a line after each
# command has returned: what is printed was acknowledged.
WORKER = """
import math, sys, time
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.compiled import keep_compiled_programs
from smc_jax.campaign.types import CampaignError

path, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

def value(row, column):
    i, j = int(row[1:]), int(column[1:])
    return math.sin(i) * math.cos(j) + 0.01 * i

def say(kind, *words):
    print(kind, *words, flush=True)

with keep_compiled_programs(), Campaign(path) as campaign:
    say("ready")
    sys.stdin.readline()
    start, rounds = time.monotonic(), 0
    while rounds == 0 or time.monotonic() - start < seconds:
        try:
            batch = campaign.ask(number)
        except CampaignError as error:
            if "no entry is open" not in str(error):
                raise
            say("full")
            break
        for one in batch:
            say("asked", one.row, one.column)
        rounds += 1
        # Of every third batch, one answer never comes.
        answers = [(one.row, one.column, value(one.row, one.column)) for one in batch]
        answers = answers[rounds % 3 == 0 and number > 1 :]
        campaign.tell(answers)
        for row, column, told in answers:
            say("told", row, column, repr(told))
say("done")
"""


class Worker:
    """A process of the trial, and the lines that it prints."""

    def __init__(self, path, cache, *, number, seconds):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(number), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._rest = b""

    def line(self):
        """The next line, in words; None where the process has ended, perhaps within a line."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, "the process is silent"
            found = os.read(self.process.stdout.fileno(), 65536)
            if not found:
                return None
            self._rest += found
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode().split()

    def lines(self):
        """All lines up to the end of the process."""
        found = []
        while (line := self.line()) is not None:
            found.append(line)
        self.process.wait(PATIENCE)
        return found

    def go(self):
        assert self.line() == ["ready"]
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path):
    """Starts processes that share compiled programs, and ends them at last."""
    with contextlib.ExitStack() as stack:

        def run(path, *, number=2, seconds=0.0):
            worker = Worker(path, tmp_path / "cache", number=number, seconds=seconds)
            stack.callback(worker.end)
            return worker

        yield run


def make(path, rows, columns):
    """A campaign of which a fifth is known."""
    from smc_jax.campaign.campaign import Campaign

    rng = np.random.default_rng(0)
    with Campaign.new(path, rank=2) as campaign:
        campaign.add(rows=[f"r{i}" for i in range(rows)], columns=[f"c{j}" for j in range(columns)])
        chosen = rng.permutation(rows * columns)[: rows * columns // 5]
        known = [(f"r{k // columns}", f"c{k % columns}", float(rng.normal())) for k in chosen]
        campaign.tell(known)
    return path, known


def found_in(path):
    """The values of a campaign, after a look at the file and at what was ever asked."""
    with Storage.open(path) as storage:
        database = storage._database
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        asked = database.execute("SELECT row, column FROM suggestions").fetchall()
        assert len(asked) == len(set(asked))
        log = storage.state(time.time()).log
    assert log.value.size == len(set(zip(log.row.tolist(), log.column.tolist(), strict=True)))
    named = zip(log.row, log.column, log.value.tolist(), strict=True)
    return {(log.row_ids[row], log.column_ids[column]): value for row, column, value in named}


def told_in(lines):
    return {(line[1], line[2]): float(line[3]) for line in lines if line[0] == "told"}


def asked_in(lines):
    return [(line[1], line[2]) for line in lines if line[0] == "asked"]


def test_two_processes_ask_and_tell_at_once(tmp_path, start, capsys):
    path, known = make(tmp_path / "campaign.db", 20, 30)
    first = start(path)  # it compiles for the others
    first.go()
    lines = first.lines()
    workers = [start(path, seconds=SECONDS) for _ in range(2)]
    for worker in workers:
        worker.go()
    told = told_in(lines)
    by_worker = [worker.lines() for worker in workers]
    assert [worker.process.returncode for worker in workers] == [0, 0]
    for own in by_worker:
        assert own[-1] == ["done"]
        assert not told.keys() & told_in(own).keys()
        lines += own
        told |= told_in(own)
    asked = asked_in(lines)
    assert len(asked) == len(set(asked))
    assert not set(asked) & {(row, column) for row, column, _ in known}
    expected = {(row, column): value for row, column, value in known} | told
    assert found_in(path) == expected
    full = sum(own[-2] == ["full"] for own in by_worker)
    shares = " + ".join(str(len(asked_in(own))) for own in by_worker)
    with capsys.disabled():
        print(
            f"\ntwo processes, {SECONDS:g} s: {shares} entries asked, {len(told)} answers told,"
            f" 0 lost, 0 asked twice; {full} processes found nothing more to ask"
        )


def test_processes_that_are_killed_lose_nothing_that_was_acknowledged(tmp_path, start, capsys):
    path, known = make(tmp_path / "campaign.db", 20, 60)
    expected = {(row, column): value for row, column, value in known}
    first = start(path, number=1)
    first.go()
    expected |= told_in(first.lines())
    generator, told, unacknowledged = random.Random(0), 0, 0
    for _ in range(KILLS):
        worker = start(path, number=1, seconds=PATIENCE)
        worker.go()
        lines = [worker.line() for _ in range(generator.randrange(1, 6))]
        assert lines[0][0] == "asked"  # the file that the last one left can be asked
        if generator.random() < 0.5:  # within the next tell, and else mostly within an ask
            while lines[-1][0] != "asked":
                lines.append(worker.line())
            time.sleep(generator.random() * 0.02)
        else:
            time.sleep(generator.random() * 0.5)
        worker.process.kill()
        lines += worker.lines()
        assert lines[-1] not in (["done"], ["full"])
        acknowledged = told_in(lines)
        told += len(acknowledged)
        expected |= acknowledged
        found = found_in(path)
        assert expected.items() <= found.items()
        # At most the one command that was cut short was whole and is not acknowledged.
        assert len(found) <= len(expected) + 1
        unacknowledged += len(found) - len(expected)
        expected = found
    last = start(path, number=1)
    last.go()
    assert len(told_in(last.lines())) == 1
    assert last.process.returncode == 0
    with capsys.disabled():
        print(
            f"\n{KILLS} kills: {told} answers acknowledged, 0 lost; {unacknowledged} written and"
            " not acknowledged; the last ask works"
        )
