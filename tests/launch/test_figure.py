"""Figures of several panels, tuning, and the stopping rule, as launched."""

import csv
import io
import re
import shutil

import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
from launching import (
    CONFIG,
    FILES,
    HORIZON,
    REFITS,
    SEEDS,
    TINY,
    InterruptedBar,
    contents,
    finish,
    load,
    strict_json,
    tiny,
)
from scipy import stats
from tqdm import tqdm

from configs import figure1
from launch import experiment, runner, settings, tables
from launch import panels as figure
from launch.settings import ConfigError
from smc_jax.completion.stopping import HeldOut
from smc_jax.simulation.regret import Curves


def panels(changes=()):
    config = figure1.get_config()
    settings = {"policies": "oracle,random", "panel_values": (1, 2)}
    config.update_from_flattened_dict(TINY | settings | dict(changes))
    return config


def test_a_figure_is_a_run_a_panel_with_a_picture_and_tables(tmp_path, computed, capsys):
    summaries = figure.make(panels(), tmp_path)
    assert capsys.readouterr().out == "running on 2 x cpu\n"
    assert list(summaries) == ["true rank 1", "true rank 2"]
    assert contents(tmp_path).keys() == {"figure.png", "table.csv", "table.md"}
    for rank in (1, 2):
        folder = tmp_path / f"true_rank_{rank}"
        assert contents(folder).keys() == FILES
        assert strict_json(folder / "config.json")["config"]["true_rank"] == rank
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert [(row["panel"], row["policy"]) for row in rows] == [
        (title, name) for title in summaries for name in ("oracle", "random")
    ]
    one = summaries["true rank 2"]["policies"]["random"]
    assert float(rows[3]["regret_100"]) == pytest.approx(one["regret"]["100"], rel=1e-3)
    assert float(rows[3]["sem_25"]) == pytest.approx(one["sem"]["25"], rel=1e-3)
    found = [float(rows[3][f"minus_oracle{end}"]) for end in ("", "_low", "_high")]
    assert found == pytest.approx(one["paired"]["oracle"], rel=1e-3)
    assert rows[3]["minus_ids"] == ""
    text = (tmp_path / "table.md").read_text()
    assert f"| {one['regret']['100']:.0f} ± {one['sem']['100']:.0f} |" in text
    assert text.count("| random |") == 4  # regrets, and ratios to the oracle, in each panel
    pixels = matplotlib.image.imread(tmp_path / "figure.png")[..., :3]
    assert (pixels.min(2) < 0.5).mean() > 0.002

    # Started again it computes what is missing and nothing else.
    shutil.rmtree(tmp_path / "true_rank_2")
    computed.clear()
    again = figure.make(panels(), tmp_path)
    assert computed == ["oracle", "random"]
    one, other = (each["true rank 2"]["policies"] for each in (summaries, again))
    assert {name: each["regret"] for name, each in one.items()} == {
        name: each["regret"] for name, each in other.items()
    }


def test_tables_compare_with_greedy_and_with_each_oracle_along_the_horizon():
    """Against the formulas, on regrets that are made up."""
    rng = np.random.default_rng(0)
    names = ("ids", "greedy", "oracle", "oracle_ids", "mean_oracle_greedy")
    regret = {name: rng.uniform(1.0, 2.0, (5, 40)).cumsum(1) for name in names}
    none = dict.fromkeys(Curves._fields, np.zeros((5, 1))) | {"rows": np.zeros((5, 40), int)}
    made = {name: Curves(**none | {"regret": one}) for name, one in regret.items()}
    times = {name: {"seconds": 1.0, "compile_seconds": 2.0} for name in names}
    summary = tables.summarise(made, times)
    summary["setting"] = {"horizon": 40}
    for one in summary["policies"].values():
        one["commit"] = "abc"
    at = {"10": 3, "25": 9, "50": 19, "100": 39}
    for name, one in summary["policies"].items():
        assert one["paired_along"].keys() == {*names} - {"ids", name}
        for other, along in one["paired_along"].items():
            for percent, pick in at.items():
                gap = regret[name][:, pick] - regret[other][:, pick]
                width = stats.t.ppf(0.975, 4) * gap.std(ddof=1) / np.sqrt(5)
                expected = [gap.mean(), gap.mean() - width, gap.mean() + width]
                assert along[percent] == pytest.approx(expected)
        for base in {*names} - {"greedy"}:
            for percent, pick in at.items():
                ratio = regret[name][:, pick].mean() / regret[base][:, pick].mean()
                assert one["ratio"][base][percent] == pytest.approx(ratio)
    assert summary["policies"]["ids"]["paired"].keys() == {"oracle", "greedy"}
    rows = list(csv.DictReader(io.StringIO(tables.rows({"one": summary}))))
    one = summary["policies"]["oracle"]
    assert rows[2]["commit"] == "abc"
    found = [float(rows[2][f"minus_greedy_25{end}"]) for end in ("", "_low", "_high")]
    assert found == pytest.approx(one["paired_along"]["greedy"]["25"], rel=1e-3)
    ratio = one["ratio"]["mean_oracle_greedy"]["10"]
    assert float(rows[2]["ratio_mean_oracle_greedy_10"]) == pytest.approx(ratio, rel=1e-3)
    assert rows[2]["minus_oracle_10"] == ""
    text = tables.markdown({"one": summary}, "Made at commit abc.")
    assert "\nMade at commit abc.\n" in text
    along = summary["policies"]["ids"]["paired_along"]
    mean, low, high = along["greedy"]["50"]
    assert f"| {mean:+.0f} [{low:+.0f}, {high:+.0f}] |" in text
    for title in ("ids minus greedy", "ids minus oracle_ids", "oracle minus greedy"):
        assert f"| {title} | " in text
    ratios = summary["policies"]["greedy"]["ratio"]["oracle"].values()
    assert f"| greedy | {', '.join(f'{ratio:.2f}' for ratio in ratios)} |" in text
    printed = tables.table(summary)
    ratios = summary["policies"]["ids"]["ratio"]["oracle_ids"].values()
    told = f"ids / oracle_ids at 10, 25, 50, 100 %: {', '.join(f'{r:.2f}' for r in ratios)}"
    assert told in printed.splitlines()
    assert printed.splitlines()[0].endswith("; / NAME: the regret at 100 % divided by that of NAME")


@pytest.mark.parametrize("reference", ["greedy", "oracle_ids"])
def test_the_reference_that_was_asked_for_comes_first_in_the_printed_table(reference):
    """Also one that all policies are compared with anyway."""
    rng = np.random.default_rng(0)
    names = ("ids", "greedy", "oracle_ids", "random")
    none = dict.fromkeys(Curves._fields, np.zeros((3, 1))) | {"rows": np.zeros((3, 40), int)}
    made = {name: Curves(**none | {"regret": rng.random((3, 40)).cumsum(1)}) for name in names}
    times = {name: {"seconds": 1.0, "compile_seconds": 2.0} for name in names}
    summary = tables.summarise(made, times, reference)
    summary["setting"] = {"horizon": 40}
    assert tables.references_of(summary)[0] == reference
    lines = tables.table(summary).splitlines()
    begin = lines.index(f"differences from the reference {reference}, paired by seed:")
    end = lines.index("differences from other policies, paired by seed:")
    others = [name for name in names if name != reference]
    assert [line.partition(" at 100 %: ")[0] for line in lines[begin + 1 : end]] == [
        f"{name} - {reference}" for name in others
    ]
    assert not any(f"- {reference} at" in line for line in lines[end:])
    heads = tables.markdown({"one": summary}).splitlines()
    assert any(f"| 100 % | minus {reference} |" in line for line in heads)
    plain = tables.table(tables.summarise(made, times))
    assert "paired by seed" not in plain
    assert "ids - greedy at 100 %: " in plain
    alone = {name: Curves(*(x[:1] for x in one)) for name, one in made.items()}
    last = tables.table(tables.summarise(alone, times, reference)).splitlines()
    told = "none: pairs take two seeds, and runs of the same length"
    assert last[last.index(lines[begin]) + 1] == told


def test_the_horizon_of_a_panel_is_read_either_way():
    free = {"horizon": None, "rank": 3, "panel_values": (1, 2)}
    readings = {"bound": [45, 45], "true_rank": [17, 32]}
    for reading, expected in readings.items():
        made = figure.panels(panels(free | {"horizon_reading": reading}))
        assert [settings.horizon(panel) for panel in made.values()] == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("horizon_reading", "tea_leaves"),
        ("panel_field", "colour"),
        ("panel_field", "panel_values"),
        ("panel_values", ()),
        ("panel_values", (2, 2)),
        ("horizon_reading", "true_rank"),  # although the horizon is given
        ("panel_values", (1, 99)),
        ("panel_values", ("one",)),
        ("seeds", 0),
    ],
)
def test_a_figure_that_cannot_be_made_costs_nothing(tmp_path, field, value):
    config = panels({field: value})
    with pytest.raises(ConfigError, match=rf"^config\.{field}: "):
        figure.make(config, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_panel_that_cannot_be_run_is_told_by_its_value():
    told = r"^config\.panel_values: with true_rank = 99: must be at most rows = 8, got 99$"
    with pytest.raises(ConfigError, match=told):
        figure.resolve(panels({"panel_values": (1, 99)}))


def test_a_reference_of_one_s_own_has_its_columns_in_the_tables(tmp_path):
    config = panels({"panel_values": (2,), "reference": "random"})
    summaries = figure.make(config, tmp_path)
    one = summaries["true rank 2"]["policies"]["oracle"]["paired"]["random"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    found = [float(rows[0][f"minus_random{end}"]) for end in ("", "_low", "_high")]
    assert found == pytest.approx(one, rel=1e-3)
    assert "| minus random | minus oracle |" in (tmp_path / "table.md").read_text()


def test_a_run_of_one_experiment_is_no_figure(tmp_path):
    arguments = [CONFIG, "--workdir=new"]
    process = finish(*arguments, cwd=tmp_path, module="launch.figure")
    assert process.returncode == 2
    assert re.fullmatch(r"error: config\.horizon_reading: missing.*\n", process.stderr)


@pytest.mark.slow
def test_a_grid_of_settings_is_tried_in_every_panel(tmp_path):
    settings = TINY | {"horizon": 6, "refits": 1, "panel_values": "(1,)"}
    flags = [f"--config.{field}={value}" for field, value in settings.items()]
    line = [CONFIG.replace("synthetic", "figure1"), "--policy=empirical", *flags]
    process = finish(*line, "--grid=floor=0.2,0.4", cwd=tmp_path, module="launch.tune")
    assert process.returncode == 0, process.stderr
    head, *rows, last = (row.split() for row in process.stdout.splitlines())
    assert head == ["empirical", "true", "rank", "1", "mean"]
    means = {row[0]: float(row[2]) for row in rows}
    assert list(means) == ["floor=0.2", "floor=0.4"]
    assert last == ["least", "mean:", min(means, key=means.get)]
    line = line[:1] + flags
    for wrong, named in (
        (["--policy=empirical", "--grid=floor"], "grid: give FIELD=VALUE"),
        (["--policy=thompson", "--grid=roof=1"], "grid: thompson has no setting 'roof'"),
        (["--policy=empirical", "--grid=floor=-1"], r"config\.empirical\.floor"),
        (["--policy=nonsense"], "give --config=.* --policy"),
    ):
        process = finish(*line, *wrong, cwd=tmp_path, module="launch.tune")
        assert process.returncode == 2
        assert re.fullmatch(rf"error: {named}.*\n", process.stderr)


def test_a_run_ends_where_the_matrix_can_be_completed_stopped_or_not(tmp_path, monkeypatch):
    """An error that falls below the noise once so much is seen, at another refit for each seed."""

    def made_up(**settings):
        def errors(key, observations):
            enough = observations.number() > 20
            return HeldOut(jnp.where(enough, 0.3, 9.0), jnp.asarray(9.0))

        return errors

    monkeypatch.setattr(experiment, "held_out_errors", made_up)
    ends = {"policies": "random", "initial_fraction": 0.25, "refits": 6}
    summary = runner.run(tiny(ends | {"completable.check": True}), tmp_path / "checked")
    first = summary["policies"]["random"]["completable_at"]
    assert all(0 < refit < 6 for refit in first)
    assert "picks" not in summary["policies"]["random"]
    whole = load(tmp_path / "checked")

    stopping = tiny(ends | {"stop_when_completable": True})
    monkeypatch.setattr(runner, "tqdm", InterruptedBar)
    with pytest.raises(KeyboardInterrupt):
        runner.run(stopping, tmp_path / "stopped")
    monkeypatch.setattr(runner, "tqdm", tqdm)
    summary = runner.run(stopping, tmp_path / "stopped")
    assert summary["policies"]["random"]["completable_at"] == first
    assert summary["policies"]["random"]["picks"] == [4 * refit for refit in first]
    mean = 4 * np.mean(first)
    printed = tables.table(summary)
    assert f"random: stopped early, after {mean:.1f} picks on average" in printed.splitlines()
    curves = load(tmp_path / "stopped")
    for seed, refit in enumerate(first):
        made = curves["random/rows"][seed] >= 0
        assert made.tolist() == [pick < 4 * refit for pick in range(HORIZON)]
        kept, before = (each["random/regret"][seed, made] for each in (curves, whole))
        np.testing.assert_array_equal(kept, before)
    assert curves["random/completion_error"].shape == (SEEDS, 6)


def test_asking_for_completion_reports_the_errors(tmp_path):
    many = {"policies": "random", "initial_fraction": 1.5, "completable.held_out": 0.9}
    runner.run(tiny(many | {"completable.check": True}), tmp_path)
    errors = load(tmp_path)["random/completion_error"]
    assert errors.shape == (SEEDS, REFITS)
    assert (errors > 0).all()
