"""The study of how many entries are asked at once prints a line an ask."""

import re

from launching import ROOT, TINY, finish


def study(*arguments):
    fields = [f"--config.{name}={value}" for name, value in TINY.items()]
    process = finish(*fields, *arguments, cwd=ROOT, module="launch.batches")
    return process.returncode, process.stdout.splitlines(), process.stderr


def test_every_ask_is_compared_with_the_first():
    status, lines, complaint = study("--asks=1,3", "--frozen=3", "--policy=random")
    assert status == 0, complaint
    titles = [re.split(r"\s{2,}", line)[0] for line in lines[2:]]
    assert titles == ["1 at once", "3 at once", "3 frozen"]
    assert "+0.0%  +0 [+0, +0]" in lines[2]
    gaps = [re.search(r"[+-]\d+\.\d%  [+-]\d+ \[[+-]\d+, [+-]\d+\]$", line) for line in lines[2:]]
    assert all(gaps)


def test_what_is_not_a_number_of_entries_is_refused():
    status, _, complaint = study("--asks=1,none")
    assert status == 2
    assert complaint == "error: asks: give whole numbers above 0, got 1,none\n"
