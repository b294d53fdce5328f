"""The launcher's contract: its files, going on after a stop, and one line for bad input."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
from ml_collections import ConfigDict
from tqdm import tqdm

from configs import figure1, jester, synthetic
from launch import data, experiment, results, runner, settings
from launch import panels as figure
from launch.settings import ConfigError
from smc_jax.completable import HeldOut
from smc_jax.data.ratings import DataError

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = f"--config={ROOT / 'configs' / 'synthetic.py'}"
HORIZON, REFITS, SEEDS = 24, 3, 2
SHAPE = {"rows": 8, "columns": 10, "rank": 3, "true_rank": 2, "seeds": SEEDS, "first_seed": 5}
STEPS = {"inference.first_steps": 50, "inference.steps": 50, "horizon": HORIZON, "refits": REFITS}
TINY = {"policies": "thompson,random"} | SHAPE | STEPS
FILES = {"config.json", "curves.npz", "summary.json", "regret.png"}


def tiny(changes=()):
    config = synthetic.get_config()
    config.update_from_flattened_dict(TINY | dict(changes))
    return config


def load(workdir):
    with np.load(workdir / "curves.npz") as file:
        return dict(file)


def assert_same_curves(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def strict_json(path):
    return json.loads(path.read_text(), parse_constant=pytest.fail)  # NaN is not JSON


# As `python -m`, but heeding Ctrl-C even if the tests were started in the background of a shell,
# which makes all their children ignore it.
LAUNCH = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def begin(*arguments, cwd, module="launch.run"):
    """The command in a process of its own, with the devices and the cache of this one."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_NUM_CPU_DEVICES": str(jax.device_count()),
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
    }
    line = [sys.executable, "-c", LAUNCH, module, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, cwd=cwd, env=environment, text=True, **pipes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finished") / "made" / "by the run"
    runner.run(tiny(), workdir)
    return workdir


@pytest.fixture
def workdir(finished, tmp_path):
    """A copy of the finished run that a test may change."""
    return pathlib.Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture
def computed(monkeypatch):
    """The names of the policies that are run from here on."""
    names, run_policy = [], runner.run_policy

    def record(config, name, *rest):
        names.append(name)
        return run_policy(config, name, *rest)

    monkeypatch.setattr(runner, "run_policy", record)
    return names


def test_the_four_files_and_nothing_else(finished):
    assert contents(finished).keys() == FILES
    pixels = matplotlib.image.imread(finished / "regret.png")[..., :3]
    assert (np.ptp(pixels, axis=2) > 0.1).mean() > 0.002


def test_curves_have_the_keys_and_shapes_of_the_contract(finished):
    per_pick, per_refit = (SEEDS, HORIZON), (SEEDS, REFITS)
    shapes = dict.fromkeys(("regret", "reward", "rows", "cols"), per_pick)
    shapes |= dict.fromkeys(("elbo", "effective_rank", "completion_error", "zero_error"), per_refit)
    expected = {
        f"{p}/{key}": shape for p in ("thompson", "random") for key, shape in shapes.items()
    }
    curves = load(finished)
    assert {key: value.shape for key, value in curves.items()} == expected
    assert np.isfinite(curves["thompson/elbo"]).all()
    assert np.isin(curves["thompson/effective_rank"], [1, 2, 3]).all()
    assert np.isnan(curves["random/elbo"]).all()


def test_summary_says_what_the_curves_say(finished):
    summary, curves = strict_json(finished / "summary.json"), load(finished)
    assert summary["policies"].keys() == {"thompson", "random"}
    for name, one in summary["policies"].items():
        for percent, pick in (("10", 2), ("25", 6), ("50", 12), ("100", 24)):
            values = curves[f"{name}/regret"][:, pick - 1].astype(np.float64)
            assert one["regret"][percent] == pytest.approx(values.mean())
            assert one["sem"][percent] == pytest.approx(abs(values[0] - values[1]) / 2)
        assert one["seconds"] > 0
        assert one["compile_seconds"] > 0
    last = curves["thompson/effective_rank"][:, -1]
    assert summary["policies"]["thompson"]["effective_rank"] == pytest.approx(last.mean())
    assert summary["policies"]["random"]["effective_rank"] is None
    assert summary["setting"]["horizon"] == HORIZON
    assert summary["setting"]["seeds"] == [5, 6]


@pytest.mark.parametrize("name", ["thompson", "random"])
def test_regret_follows_from_the_entries_picked(finished, name):
    curves = load(finished)
    for index, seed in enumerate((5, 6)):
        start, _ = jax.jit(experiment.build(tiny(), "random").start)(seed)
        entries = np.asarray(start.problem.entries, np.float64)
        taken = np.asarray(start.world.times) > 0
        best = np.sort(entries[~taken])[::-1][:HORIZON]
        rows, cols = curves[f"{name}/rows"][index], curves[f"{name}/cols"][index]
        regret = np.cumsum(best - entries[rows, cols])
        np.testing.assert_allclose(curves[f"{name}/regret"][index], regret, atol=1e-4)
        np.testing.assert_allclose(curves[f"{name}/reward"][index], entries[rows, cols], rtol=1e-5)
        assert len(set(zip(rows, cols, strict=True))) == HORIZON
        assert not taken[rows, cols].any()


def test_config_json_repeats_the_run(finished, tmp_path):
    record = strict_json(finished / "config.json")
    assert record["versions"]["jax"] == jax.__version__
    runner.run(ConfigDict(record["config"]), tmp_path / "again")
    assert_same_curves(load(tmp_path / "again"), load(finished))


def test_a_finished_run_is_not_computed_again(workdir, computed):
    before, summary = load(workdir), strict_json(workdir / "summary.json")
    assert runner.run(tiny(), workdir) == summary
    assert computed == []
    assert_same_curves(load(workdir), before)


def test_a_policy_is_added_to_the_finished_ones(workdir, computed):
    before = load(workdir)
    summary = runner.run(tiny({"policies": "oracle,random"}), workdir)
    assert computed == ["oracle"]
    after = load(workdir)
    assert_same_curves({key: after[key] for key in before}, before)
    assert summary["policies"].keys() == {"thompson", "random", "oracle"}
    recorded = ConfigDict(strict_json(workdir / "config.json")["config"])
    assert set(settings.policy_names(recorded)) == summary["policies"].keys()


class InterruptedBar(runner.tqdm):
    def update(self, n=1):
        super().update(n)
        if self.n == 2:
            raise KeyboardInterrupt


def test_an_interrupted_policy_goes_on_from_its_checkpoint(finished, tmp_path, monkeypatch, capsys):
    runner.run(tiny({"policies": "random"}), tmp_path)
    monkeypatch.setattr(runner, "tqdm", InterruptedBar)
    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny(), tmp_path)
    assert {key.split("/")[0] for key in load(tmp_path)} == {"random"}
    assert contents(tmp_path).keys() == FILES | {"thompson.checkpoint.npz"}
    monkeypatch.undo()
    capsys.readouterr()
    runner.run(tiny(), tmp_path)
    assert "1" not in re.findall(r"thompson[^\r]* (\d)/3 ", capsys.readouterr().err)
    assert contents(tmp_path).keys() == FILES
    assert_same_curves(load(tmp_path), load(finished))


@pytest.mark.parametrize("unwritten", sorted(FILES))
def test_an_interrupt_between_two_files_is_mended(finished, tmp_path, monkeypatch, unwritten):
    def stop(source, target):
        if target.name == unwritten:
            raise KeyboardInterrupt
        os.rename(source, target)

    monkeypatch.setattr(results.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny({"policies": "random"}), tmp_path)
    monkeypatch.undo()
    runner.run(tiny({"policies": "random"}), tmp_path)
    expected = {key: value for key, value in load(finished).items() if key.startswith("random")}
    assert_same_curves(load(tmp_path), expected)
    assert contents(tmp_path).keys() == FILES


def test_ctrl_c_exits_with_130_and_the_same_command_goes_on(tmp_path):
    # Long refits after the first leave time for the signal.
    slow = {"policies": "random,thompson", "refits": 6, "inference.steps": 5000}
    settings = [f"--config.{field}={value}" for field, value in (TINY | slow).items()]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    line = [CONFIG, *settings, f"--workdir={stopped}"]
    with begin(*line, cwd=tmp_path) as process:
        said = b""
        while not re.search(rb"thompson[^\r]* [1-5]/6 ", said):
            more = os.read(process.stderr.fileno(), 4096)
            assert more, said.decode()
            said += more
        process.send_signal(signal.SIGINT)
        _, last_words = process.communicate()
    assert process.returncode == 130, last_words
    assert "Traceback" not in last_words
    assert {key.split("/")[0] for key in load(stopped)} == {"random"}
    assert (stopped / "thompson.checkpoint.npz").exists()

    process = begin(*line, cwd=tmp_path)
    table = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert table[0].startswith("cumulative regret")
    assert table[1].split()[:9] == ["policy", "10", "%", "25", "%", "50", "%", "100", "%"]
    assert [row.split()[0] for row in table[2:4]] == ["random", "thompson"]
    runner.run(tiny(slow), whole)
    assert_same_curves(load(stopped), load(whole))


BAD = {
    "policies": ("ids,telepathy", " , ", 5, (1, 2)),
    "noise_variance": (-0.1, 0.0),
    "beta": (-0.1, 1.1, float("nan")),
    "horizon": (81, 0),
    "seeds": (0,),
    "rank": (9, 0),
    "refits": (25,),
    "model.noise_rate": (0.0,),
    "model.loadings": ("imaginary",),
    "inference.start": ("middle",),
    "inference.steps": (0,),
    "ids.scope": ("galaxy",),
    "ids.draws": (0,),
    "oracle.picks": ("both",),
    "oracle.draws": (0,),
    "oracle.covariance": ("invented",),
    "empirical.floor": (0.0,),
    "empirical.strength": (0.0,),
    "optspace.rank": (0, 9),
    "optspace.steps": (0,),
    "optspace.penalty": (-1.0,),
    "particle.particles": (0,),
    "particle.users": ("nobody",),
    "particle.noise_variance": (0.0,),
    "icf.rule": ("thumb",),
    "icf.sweeps": (0,),
    "icf.first_sweeps": (0,),
    "icf.shape": (0.0,),
    "icf.factor_variance": (-1.0,),
    "completable.held_out": (0.0, 1.0),
    "completable.factor": (0.0,),
    "completable.noise_deviation": (-1.0,),
    "initial_fraction": (float("inf"),),
    "first_seed": (-1, 2**32),
}


@pytest.mark.parametrize(("field", "value"), [(f, value) for f in BAD for value in BAD[f]])
def test_a_field_that_cannot_be_used_is_named(tmp_path, field, value):
    config = tiny({"policies": "ids", field: value})
    with pytest.raises(ConfigError, match=rf"^config\.{re.escape(field)}: "):
        runner.run(config, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_config_of_another_shape(tmp_path):
    config = tiny()
    with config.ignore_type():
        config.seeds = "4"
    with pytest.raises(ConfigError, match=r"^config\.seeds: must be of type int"):
        runner.run(config, tmp_path / "new")
    config = tiny()
    del config.rows
    with pytest.raises(ConfigError, match=r"^config\.rows: missing"):
        runner.run(config, tmp_path / "new")


def test_results_that_no_config_explains_are_left_alone(workdir):
    (workdir / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"^workdir: .*no config\.json"):
        runner.run(tiny(), workdir)


def test_a_file_in_the_way_of_the_workdir(tmp_path):
    (tmp_path / "file").write_text("mine")
    for blocked in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"^workdir: "):
            runner.run(tiny(), blocked)
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("field", ["seeds", "true_rank", "inference.steps"])
def test_another_experiment_in_the_workdir_is_left_alone(workdir, field):
    before = contents(workdir)
    with pytest.raises(ConfigError, match=rf"^workdir: .*config\.{field.split('.')[0]}"):
        runner.run(tiny({field: 1}), workdir)
    assert contents(workdir) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([CONFIG, "--workdir=new", "--config.seeds=abc"], "config.seeds"),
        ([CONFIG, "--workdir=new", "--config.sedes=3"], "field: 'sedes'"),
        ([CONFIG, "--workdir=new", "--config.policies=ids", "--config.ids.scope=x"], "ids.scope"),
        (["--config=missing.py", "--workdir=new"], "missing.py"),
        ([], "--config"),
        ([CONFIG, "--workdir=", "--config.policies=random", "--config.seeds=1"], "--workdir"),
        ([CONFIG.replace("synthetic", "figure1"), "--workdir=new"], "launch.figure"),
    ],
    ids=["type", "field", "scope", "file", "flags", "workdir", "figure"],
)
def test_bad_input_costs_one_line_and_status_2(tmp_path, arguments, named):
    process = begin(*arguments, cwd=tmp_path)
    printed, complaint = process.communicate()
    assert process.returncode == 2, complaint
    assert re.fullmatch(r"error: .+\n", complaint)
    assert named in complaint
    assert printed == ""
    assert list(tmp_path.iterdir()) == []


def panels(changes=()):
    config = figure1.get_config()
    settings = {"policies": "oracle,random", "panel_values": (1, 2)}
    config.update_from_flattened_dict(TINY | settings | dict(changes))
    return config


def test_a_figure_is_a_run_a_panel_with_a_picture_and_tables(tmp_path, computed):
    summaries = figure.make(panels(), tmp_path)
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
    assert text.count("| random |") == 2
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


def test_the_horizon_of_a_panel_is_read_either_way():
    free = {"horizon": None, "rank": 3, "panel_values": (1, 2)}
    readings = {"bound": [45, 45], "true_rank": [17, 32]}
    for reading, expected in readings.items():
        made = experiment.panels(panels(free | {"horizon_reading": reading}))
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
        ("true_rank", (1, 99)),
        ("true_rank", ("one",)),
    ],
)
def test_a_figure_that_cannot_be_made_costs_nothing(tmp_path, field, value):
    config = panels({field: value} if field != "true_rank" else {"panel_values": value})
    with pytest.raises(ConfigError, match=rf"^config\.{field}: "):
        figure.make(config, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_one_experiment_is_no_figure(tmp_path):
    arguments = [CONFIG, "--workdir=new"]
    process = begin(*arguments, cwd=tmp_path, module="launch.figure")
    _, complaint = process.communicate()
    assert process.returncode == 2
    assert re.fullmatch(r"error: config\.horizon_reading: missing.*\n", complaint)


def test_a_grid_of_settings_is_tried_in_every_panel(tmp_path):
    settings = TINY | {"horizon": 6, "refits": 1, "panel_values": "(1,)"}
    flags = [f"--config.{field}={value}" for field, value in settings.items()]
    line = [CONFIG.replace("synthetic", "figure1"), "--policy=empirical", *flags]
    process = begin(*line, "--grid=floor=0.2,0.4", cwd=tmp_path, module="launch.tune")
    printed, complaint = process.communicate()
    assert process.returncode == 0, complaint
    head, *rows, last = (row.split() for row in printed.splitlines())
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
        process = begin(*line, *wrong, cwd=tmp_path, module="launch.tune")
        complaint = process.communicate()[1]
        assert process.returncode == 2
        assert re.fullmatch(rf"error: {named}.*\n", complaint)


def test_a_run_ends_where_the_matrix_can_be_completed_stopped_or_not(tmp_path, monkeypatch):
    """An error that falls below the noise once so much is seen, at another refit for each seed."""

    def made_up(**settings):
        def errors(key, observations):
            enough = observations.count.sum() > 20
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


@pytest.fixture
def jokes(monkeypatch):
    """Twelve made-up users who rated every joke, on a scale of their own."""
    rng = np.random.default_rng(0)
    values = 3.0 + 2.0 * np.outer(rng.normal(size=100), rng.normal(size=12))
    values += rng.normal(size=values.shape)
    monkeypatch.setattr(data, "_jester", lambda: (values, np.ones(values.shape, bool)))
    return values


def jester_config(changes=()):
    config = jester.get_config()
    settings = {"columns": 10, "rank": 2, "seeds": 2, "horizon": 12, "refits": 2}
    settings |= {"inference.first_steps": 50, "inference.steps": 50, "initial_fraction": 5.0}
    config.update_from_flattened_dict(settings | dict(changes))
    return config


def test_recorded_ratings_run_like_any_data(tmp_path, jokes):
    policies = "thompson,oracle,random"
    summary = runner.run(jester_config({"policies": policies}), tmp_path)
    assert summary["setting"]["data"] == "jester"
    curves = load(tmp_path)
    gaps = np.abs(curves["oracle/reward"][..., None] - jokes.ravel()).min(-1)
    assert gaps.max() < 1e-4
    assert curves["oracle/regret"][:, -1].mean() < curves["random/regret"][:, -1].mean()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("columns", 13),
        ("rows", 99),
        ("data", "jokes"),
        ("oracle.covariance", "true"),
        ("completable.check", True),
    ],
)
def test_what_recorded_ratings_cannot_do_is_named(tmp_path, jokes, field, value):
    named = "completable.noise_deviation" if field == "completable.check" else field
    with pytest.raises(ConfigError, match=rf"^config\.{re.escape(named)}: "):
        runner.run(jester_config({field: value}), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_ratings_that_cannot_be_had_cost_one_line(tmp_path, monkeypatch):
    def offline():
        raise DataError("could not download it")

    monkeypatch.setattr(data, "_jester", offline)
    with pytest.raises(ConfigError, match=r"^config\.data: could not download it"):
        runner.run(jester_config(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
