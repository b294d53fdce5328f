"""The file under several processes: nothing told is lost, nothing is asked twice."""

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
from storing import named, table, told

from smc_jax.campaign import schema
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.types import Records

PACKAGE = pathlib.Path(schema.__file__).resolve().parent.parent
PATIENCE = 300.0  # seconds; a machine under load is slow, and only a hang takes this long


# The processes import the storage without the package, which would load JAX.

HEAD = """
import sys, time, types
package = types.ModuleType("smc_jax")
package.__path__ = [sys.argv[1]]
sys.modules["smc_jax"] = package
import numpy as np
from smc_jax.campaign.storage import Conflict, Storage
from smc_jax.campaign.types import Records, Suggestion
assert "jax" not in sys.modules

def tell(campaign, rows, columns, values):
    kinds = ["value"] * len(rows)
    records = Records(rows, columns, kinds, np.array(values), str, rows, columns, [])
    return campaign.add(records, source=sys.argv[3])

campaign = Storage.open(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
"""
TELLING = """
number = int(sys.argv[3])
while True:
    rows = [f"row {number}"] * 3
    tell(campaign, rows, ["x", "y", "z"], [number + 0.0, number + 0.1, number + 0.2])
    print(number, flush=True)
    number += 1
"""
ASKING = """
me, done = sys.argv[3], 0
while done < 30:
    log = campaign.state(0.0).log
    taken = set(zip(log.row.tolist(), log.column.tolist()))
    taken |= set(zip(log.pending_row.tolist(), log.pending_column.tolist()))
    free = [(row, column) for row in range(12) for column in range(12)]
    pairs = [pair for pair in free if pair not in taken][:2]
    names = [(log.row_ids[row], log.column_ids[column]) for row, column in pairs]
    asked = [
        (*pair, Suggestion(*name, 0.0, 1.0, -1.0, 1.0, 0.5, 0.1, "free"))
        for pair, name in zip(pairs, names)
    ]
    time.sleep(0.01)  # a model would think here, and the other process acts
    stamps = dict(position=log.position, fitted_at=None, expires=None, source=me)
    try:
        campaign.record_ask(f"{me} {done}", asked, **stamps)
    except Conflict:
        continue
    print("asked", *names[0], sep=",", flush=True)
    print("asked", *names[1], sep=",", flush=True)
    value = done + 0.5
    tell(campaign, [names[0][0], f"{me} {done}"], [names[0][1], "own"], [value, value])
    print("told", *names[0], value, sep=",", flush=True)
    print("told", f"{me} {done}", "own", value, sep=",", flush=True)
    done += 1
"""


@pytest.fixture
def start():
    """Starts processes, waits until they have opened the campaign, and ends them at last."""
    with contextlib.ExitStack() as stack:

        def run(script, path, name):
            process = subprocess.Popen(
                [sys.executable, "-c", HEAD + script, str(PACKAGE), str(path), str(name)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(process.wait)
            stack.callback(process.stdout.close)
            stack.callback(process.stdin.close)
            stack.callback(process.kill)
            assert next_line(process) == "ready"
            return process

        yield run


def next_line(process):
    """The next line that a process prints; an error if it prints none for very long."""
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: what is buffered, `select` does not see
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        assert ready, "the process is silent"
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            return None
        line += byte
    return line.decode().rstrip("\n")


def rest(process):
    lines = []
    while (line := next_line(process)) is not None:
        lines.append(line)
    process.wait(PATIENCE)
    return lines


def check_integrity(campaign):
    database = campaign._database
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.skipif(os.name != "posix", reason="select on pipes")
def test_two_processes_lose_nothing_and_ask_nothing_twice(create, start):
    campaign = create()
    ids = [f"{number}" for number in range(12)]
    campaign.add(table(row_ids=ids, column_ids=ids), source="test")
    processes = [start(ASKING, campaign.path, name) for name in ("left", "right")]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    lines = [line.split(",") for process in processes for line in rest(process)]
    assert [process.returncode for process in processes] == [0, 0]
    check_integrity(campaign)
    loaded = campaign.state(time.time()).log
    asked = [(row, column) for kind, row, column, *_ in lines if kind == "asked"]
    assert len(asked) == len(set(asked)) == 2 * 30 * 2
    acknowledged = [(line[1], line[2], float(line[3])) for line in lines if line[0] == "told"]
    assert sorted(told(loaded)) == sorted(acknowledged)
    assert len(acknowledged) == 2 * 30 * 2
    answered = {(row, column) for row, column, _ in acknowledged}
    assert sorted(named(loaded, "pending")) == sorted(set(asked) - answered)
    assert len(loaded.row_ids) == 12 + 60
    assert loaded.column_ids == [*ids, "own"]


@pytest.mark.skipif(os.name != "posix", reason="select on pipes")
def test_what_was_acknowledged_survives_kill_9_at_any_moment(create, start):
    campaign, generator = create(), random.Random(5)
    acknowledged, first = [], 0
    for _ in range(10):
        process = start(TELLING, campaign.path, first)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        for _ in range(generator.randrange(1, 12)):
            acknowledged.append(int(next_line(process)))
        time.sleep(generator.random() * 0.01)  # somewhere inside a command
        process.kill()
        acknowledged += [int(line) for line in rest(process)]
        with Storage.open(campaign.path) as reopened:
            check_integrity(reopened)
            found = told(reopened.state(time.time()).log)
        rows = list(dict.fromkeys(row for row, _, _ in found))
        numbers = [int(row.removeprefix("row ")) for row in rows]
        # All that was acknowledged, each whole, and at most the command that was cut short.
        assert found == [
            (f"row {number}", column, number + digit)
            for number in numbers
            for column, digit in (("x", 0.0), ("y", 0.1), ("z", 0.2))
        ]
        assert set(acknowledged) <= set(numbers)
        assert numbers == list(range(len(numbers)))
        first = len(numbers)
    assert len(acknowledged) >= 10


@pytest.mark.slow
def test_a_million_answers(create, capsys):
    campaign, rows, columns = create(), 2000, 500
    row_ids = [f"row {row}" for row in range(rows)]
    column_ids = [f"column {column}" for column in range(columns)]
    order = np.random.default_rng(0).permutation(rows * columns)
    row, column = np.divmod(order, columns)
    value = np.random.default_rng(1).normal(size=rows * columns)
    for part in np.array_split(np.arange(rows * columns), 20):
        names = [row_ids[i] for i in row[part]], [column_ids[j] for j in column[part]]
        records = Records(*names, ["value"] * len(part), value[part], str, row_ids, column_ids, [])
        assert campaign.add(records, source="test").values == len(part)
    fixed = order[:1000]
    records = Records(
        [row_ids[i] for i in row[:1000]],
        [column_ids[j] for j in column[:1000]],
        ["value"] * 1000,
        value[:1000] + 1.0,
        str,
        [],
        [],
        [],
    )
    assert campaign.add(records, source="test", corrections=True).corrected == len(fixed)
    started = time.perf_counter()
    loaded = campaign.state(time.time()).log
    seconds = time.perf_counter() - started
    with capsys.disabled():
        print(f"\n10^6 answers loaded in {seconds:.2f} s")
    history = [(line.row, line.column, line.value) for line in campaign.history()]
    assert len(history) == rows * columns + 1000
    assert history[-1] == (row_ids[row[999]], column_ids[column[999]], value[999] + 1.0)
    last = np.r_[1000 : rows * columns, :1000]
    np.testing.assert_array_equal(loaded.row, row[last])
    np.testing.assert_array_equal(loaded.column, column[last])
    np.testing.assert_array_equal(loaded.value[:-1000], value[1000:])
    np.testing.assert_array_equal(loaded.value[-1000:], value[:1000] + 1.0)
    assert not loaded.asked.any()
