"""Two runs of the same experiment side by side, seed by seed."""

import json
import re
import shutil

import numpy as np
import pytest
from launching import STEPS, finish
from ml_collections import ConfigDict

from launch import files, paired, runner, validation
from launch.settings import ConfigError


def test_a_line_has_both_regrets_and_their_paired_difference():
    first = np.outer([1.0, 2.0, 3.0], np.arange(1, 101))
    second = 0.9 * first - np.array([[0.0], [0.3], [0.6]])
    *_, last = paired.lines("ids", first, second)
    differences = second[:, -1] - first[:, -1]  # -10, -20.3, -30.6
    half = 4.302653 * differences.std(ddof=1) / np.sqrt(3)  # the t quantile of two degrees
    mean = differences.mean()
    low, high = mean - half, mean + half
    told = f"{mean:+.0f} [{low:+.0f}, {high:+.0f}]"
    part = f"{mean / 200:+.1%} [{low / 200:+.1%}, {high / 200:+.1%}]"
    assert last.split() == f"ids 100 % 200.0 ±57.7 179.7 ±51.8 {told} {part}".split()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of the same matrices, with two picks of a batch and with one; and of other matrices."""
    from configs import synthetic

    folder = tmp_path_factory.mktemp("runs")
    small = STEPS | {"policies": "greedy,random", "rank": 3, "rows": 8, "columns": 10}
    small |= {"horizon": 20, "refits": 2, "seeds": 2}
    for name, more in {"one": {}, "two": {"refits": 4}, "other": {"true_rank": 2}}.items():
        config = synthetic.get_config()
        config.update_from_flattened_dict(small | more)
        runner.run(validation.resolve(ConfigDict(config)), folder / name)
    return folder


def test_the_command_compares_what_both_have_finished(runs):
    command = [f"--before={runs / 'one'}", f"--after={runs / 'two'}"]
    process = finish(*command, cwd=runs, module="launch.paired")
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == 4 * ["greedy"] + 4 * ["random"]
    before, after = (
        json.loads((runs / name / "summary.json").read_text())["policies"]["greedy"]["regret"]
        for name in ("one", "two")
    )
    cells = lines[3].split()
    told = [float(cells[number]) for number in (3, 5)]
    assert told == pytest.approx([before["100"], after["100"]], abs=0.05)
    part = float(re.search(r"([+-][\d.]+)% \[", lines[3])[1])
    assert part == pytest.approx(100 * (after["100"] / before["100"] - 1), abs=0.06)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("other", "after: it differs in true_rank, which is 2 and was 5"),
        ("nowhere", "after: cannot read"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(runs, second, told):
    command = [f"--before={runs / 'one'}", f"--after={runs / second}"]
    process = finish(*command, cwd=runs, module="launch.paired")
    assert process.returncode == 2
    assert told in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1
    assert not process.stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"arrivals": 3},
        {"once": False},
        {"first_seed": 7},
        {"horizon": 9},
        {"noise_variance": 0.4},
        {"offers.row_budget": 2},
        {"silence.lowest_rate": 0.5},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_runs_whose_policies_met_something_else_are_not_compared(runs, changes):
    world = paired.load("before", str(runs / "one")).world
    ((field, value),) = changes.items()
    assert field in world
    with pytest.raises(ConfigError, match=f"^after: it differs in {field}"):
        paired.check_alike(world, {**world, field: value})


def test_what_policies_know_may_differ(runs):
    world = paired.load("before", str(runs / "one")).world
    assert not {"rank", "row_features", "history", "silence.heed", "model"} & world.keys()
    paired.check_alike(world, dict(world))


def test_what_ended_at_other_picks_is_not_compared(runs, tmp_path):
    shorter = tmp_path / "shorter"
    shutil.copytree(runs / "two", shorter)
    curves = files.load_curves(shorter)
    ended = {name: one._replace(rows=one.rows.copy()) for name, one in curves.items()}
    ended["greedy"].rows[0, -1] = -1
    files.save_curves(shorter, ended)
    command = [f"--before={runs / 'one'}", f"--after={shorter}"]
    process = finish(*command, cwd=runs, module="launch.paired")
    assert not process.stderr
    first, *others = process.stdout.splitlines()[1:]
    assert first.split()[:3] == ["greedy", "not", "compared:"]
    assert [line.split()[0] for line in others] == 4 * ["random"]
