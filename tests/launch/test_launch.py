"""The launcher's contract: its files, and resuming after a stop."""

import json
import os
import pathlib
import re
import shutil
import signal

import jax
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
    WAIT_FOR_CTRL_C,
    InterruptedBar,
    assert_same_curves,
    begin,
    contents,
    finish,
    load,
    strict_json,
    tiny,
)
from ml_collections import ConfigDict

from launch import command, commits, experiment, files, runner, settings, tables
from launch.settings import ConfigError
from smc_jax.simulation.regret import Curves


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finished") / "made" / "by the run"
    runner.run(tiny(), workdir)
    return workdir


@pytest.fixture
def workdir(finished, tmp_path):
    """A copy of the finished run that a test may change."""
    return pathlib.Path(shutil.copytree(finished, tmp_path / "copy"))


def test_the_four_files_and_nothing_else(finished):
    assert contents(finished).keys() == FILES
    pixels = matplotlib.image.imread(finished / "regret.png")[..., :3]
    assert (np.ptp(pixels, axis=2) > 0.1).mean() > 0.002


def test_curves_have_the_keys_and_shapes_of_the_contract(finished):
    per_pick, per_refit = (SEEDS, HORIZON), (SEEDS, REFITS)
    shapes = dict.fromkeys(("regret", "reward", "rows", "cols", "answered"), per_pick)
    recorded = ("elbo", "effective_rank", "signal_rank", "completion_error", "zero_error")
    shapes |= dict.fromkeys(recorded, per_refit)
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
    assert summary["setting"]["arrivals"] == 0
    assert summary["best"] == "exact"


def test_the_columns_of_the_table_end_where_their_headings_do(finished):
    curves = {
        name: Curves(*(v[:1] for v in one)) for name, one in files.load_curves(finished).items()
    }
    times = dict.fromkeys(curves, dict.fromkeys(files.TIMES, 1.0))
    _, head, *rows = tables.table(tables.summarise(curves, times)).splitlines()
    ends = [match.end() for match in re.finditer(r"\d+ %|\w+(?= |$)", head)]
    assert len(rows) == 2
    for row in rows:
        assert {match.end() for match in re.finditer(r"[\d.]+", row)} <= set(ends)


@pytest.mark.parametrize("name", ["thompson", "random"])
def test_regret_follows_from_the_entries_picked(finished, name):
    curves = load(finished)
    for index, seed in enumerate((5, 6)):
        start, _ = jax.jit(experiment.build(tiny(), "random").start)(seed)
        entries = np.asarray(start.world.problem.entries, np.float64)
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


def test_a_policy_is_added_to_the_finished_ones(workdir, computed, monkeypatch):
    before, made = load(workdir), commits.current()
    assert strict_json(workdir / "commits.json") == {"thompson": [made], "random": [made]}
    monkeypatch.setattr(commits, "current", lambda: "abc")
    summary = runner.run(tiny({"policies": "oracle,random"}), workdir)
    stamps = {"oracle": "abc", "random": made, "thompson": made}
    assert {name: one["commit"] for name, one in summary["policies"].items()} == stamps
    assert strict_json(workdir / "summary.json") == summary
    assert computed == ["oracle"]
    after = load(workdir)
    assert_same_curves({key: after[key] for key in before}, before)
    assert summary["policies"].keys() == {"thompson", "random", "oracle"}
    recorded = ConfigDict(strict_json(workdir / "config.json")["config"])
    assert set(settings.policy_names(recorded)) == summary["policies"].keys()


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


CHAINS = {"inference.method": "mcmc", "inference.first_steps": 5, "hmc.draws": 4, "ids.draws": 4}
CHAINS |= {"hmc.first_transitions": 2, "hmc.transitions": 1, "hmc.leapfrogs": 2}
CHAINS |= {"gibbs.draws": 4, "gibbs.first_sweeps": 2, "gibbs.sweeps": 1}


@pytest.mark.parametrize("loadings", ["gamma", "signed"])
def test_chains_go_on_from_their_checkpoint(tmp_path, monkeypatch, loadings):
    """Of the method that the presets have."""
    config = tiny(CHAINS | {"policies": "ids", "model.loadings": loadings})
    runner.run(config, tmp_path / "whole")
    monkeypatch.setattr(runner, "tqdm", InterruptedBar)
    with pytest.raises(KeyboardInterrupt):
        runner.run(config, tmp_path / "stopped")
    monkeypatch.undo()
    runner.run(config, tmp_path / "stopped")
    assert_same_curves(load(tmp_path / "stopped"), load(tmp_path / "whole"))


def test_the_papers_policies_do_not_depend_on_the_method(tmp_path):
    for method in ("svi", "mcmc"):
        changes = CHAINS | {"policies": "thompson_paper", "inference.method": method}
        runner.run(tiny(changes), tmp_path / method)
    assert_same_curves(load(tmp_path / "svi"), load(tmp_path / "mcmc"))


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A run of thompson that was interrupted."""
    monkeypatch.setattr(runner, "tqdm", InterruptedBar)
    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny({"policies": "thompson"}), tmp_path / "begun")
    monkeypatch.undo()
    return tmp_path / "begun"


@pytest.mark.usefixtures("own_programs")
def test_the_time_before_an_interrupt_counts(begun):
    checkpoint = begun / "thompson.checkpoint.npz"
    with np.load(checkpoint) as file:
        stored = dict(file)
    assert stored["seconds"] > 0
    assert stored["compile_seconds"] > 0
    np.savez(checkpoint, **stored | {"seconds": 1e6, "compile_seconds": 2e6})
    found = runner.run(tiny({"policies": "thompson"}), begun)["policies"]["thompson"]
    assert 0 < found["seconds"] - 1e6 < 1e5
    assert 0 < found["compile_seconds"] - 2e6 < 1e5


def test_a_checkpoint_of_another_experiment_is_refused(begun, computed, monkeypatch):
    """Other data, another version, or another policy: of the same shapes all of them."""
    asked = tiny({"policies": "random,thompson"})
    checkpoint = begun / "thompson.checkpoint.npz"
    told = (
        rf"^workdir: {re.escape(str(checkpoint))} is a checkpoint of another experiment.*"
        "; delete the file, and the policy starts anew$"
    )

    def refused():
        before = contents(begun)
        with pytest.raises(ConfigError, match=told):
            runner.run(asked, begun)
        assert computed == []  # not even the policy that has no checkpoint
        assert contents(begun).keys() == before.keys()

    monkeypatch.setattr(files.smc_jax, "__version__", "0.0.0")
    refused()
    monkeypatch.undo()
    held = checkpoint.read_bytes()
    other = begun.parent / "other"
    with np.load(checkpoint) as file:
        stored = dict(file)
    for changes in ({"noise_variance": 0.2}, {"first_seed": 6}, {"thompson.noisy": False}):
        marked = files.fingerprint(tiny({"policies": "thompson", **changes}), "thompson")
        np.savez(checkpoint, **stored | {"fingerprint": marked})
        refused()
    np.savez(checkpoint, **stored | {"fingerprint": files.fingerprint(asked, "random")})
    refused()
    del stored["fingerprint"]  # as of a version that had none
    np.savez(checkpoint, **stored)
    refused()
    checkpoint.write_bytes(held[:1000])
    with pytest.raises(ConfigError, match=r"^workdir: cannot resume from .*delete the file"):
        runner.run(asked, begun)
    # What changes the report alone is the same experiment.
    checkpoint.write_bytes(held)
    shutil.copytree(begun, other)
    runner.run(tiny({"policies": "random,thompson", "reference": "random"}), other)
    assert contents(other).keys() == FILES


def test_the_data_are_a_part_of_the_fingerprint(monkeypatch):
    config = tiny()
    before = files.fingerprint(config, "random")
    monkeypatch.setattr(files.data, "checksum", lambda config: "another")
    assert files.fingerprint(config, "random") != before


def test_a_regret_that_is_not_finite_is_never_written(tmp_path, monkeypatch):
    def broken(config, make_problem, **how):
        made = whole(config, make_problem, **how)
        best = lambda key, world, horizon: made.best(key, world, horizon) * np.nan  # noqa: E731
        return made._replace(best=best)

    whole = experiment.environment
    monkeypatch.setattr(experiment, "environment", broken)
    with pytest.raises(FloatingPointError, match=r"^the regret of seed 5 is not finite at pick 0$"):
        runner.run(tiny({"policies": "random"}), tmp_path)
    assert contents(tmp_path).keys() == {"config.json", "commits.json"}
    with pytest.raises(SystemExit, match="2"), command.one_line():
        runner.run(tiny({"policies": "random"}), tmp_path)


@pytest.mark.parametrize("unwritten", sorted(FILES))
def test_an_interrupt_between_two_files_is_mended(finished, tmp_path, monkeypatch, unwritten):
    def stop(source, target):
        if target.name == unwritten:
            raise KeyboardInterrupt
        os.rename(source, target)

    monkeypatch.setattr(files.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny({"policies": "random"}), tmp_path)
    monkeypatch.undo()
    runner.run(tiny({"policies": "random"}), tmp_path)
    expected = {key: value for key, value in load(finished).items() if key.startswith("random")}
    assert_same_curves(load(tmp_path), expected)
    assert contents(tmp_path).keys() == FILES


def test_ctrl_c_exits_with_130_and_the_same_command_goes_on(tmp_path):
    # Long refits after the first, so that the signal comes amid one.
    slow = {"policies": "random,thompson", "refits": 6, "inference.steps": 5000}
    settings = [f"--config.{field}={value}" for field, value in (TINY | slow).items()]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    line = [CONFIG, *settings, f"--workdir={stopped}"]
    with begin(*line, cwd=tmp_path, first=WAIT_FOR_CTRL_C) as process:
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

    process = finish(*line, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    device, *table = process.stdout.splitlines()
    assert device == "running on 2 x cpu"
    assert table[0].startswith("cumulative regret")
    assert table[1].split()[:9] == ["policy", "10", "%", "25", "%", "50", "%", "100", "%"]
    assert [row.split()[0] for row in table[2:4]] == ["random", "thompson"]
    runner.run(tiny(slow), whole)
    assert_same_curves(load(stopped), load(whole))


def test_the_folder_of_a_picture_is_made(finished, tmp_path):
    workdirs, picture = f"--workdirs={finished}", tmp_path / "new" / "folder" / "served.png"
    process = finish(workdirs, f"--picture={picture}", cwd=tmp_path, module="launch.served")
    assert process.returncode == 0, process.stderr
    assert contents(picture.parent).keys() == {"served.png"}
    line = [workdirs, f"--picture={picture / 'below.png'}"]
    process = finish(*line, cwd=tmp_path, module="launch.served")
    assert re.fullmatch(r"error: picture: cannot write .*below\.png: .*\n", process.stderr)


def test_a_field_that_a_run_did_not_know_of_has_its_default(workdir, computed):
    path = workdir / "config.json"
    record = json.loads(path.read_text())
    del record["config"]["shard"]
    path.write_text(json.dumps(record))
    runner.run(tiny(), workdir)
    assert computed == []
    with pytest.raises(ConfigError, match=r'config\.shard is "seeds" there, "columns" here'):
        runner.run(tiny({"shard": "columns"}), workdir)


def test_columns_over_devices(tmp_path):
    settings = {"policies": "ids,random", "shard": "columns"}
    with pytest.raises(ConfigError, match=r"^config\.columns: must be a multiple of 2, .* got 11"):
        runner.run(tiny(settings | {"columns": 11}), tmp_path / "uneven")
    runner.run(tiny(settings), tmp_path / "columns")
    runner.run(tiny(settings | {"shard": "seeds"}), tmp_path / "seeds")
    found, expected = load(tmp_path / "columns"), load(tmp_path / "seeds")
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


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


@pytest.mark.parametrize(
    ("field", "value", "there", "here"),
    [
        ("seeds", 1, "2", "1"),
        ("true_rank", 1, "2", "1"),
        ("inference.steps", 1, "50", "1"),
        ("inference.learning_rate", 0.5, "null", "0.5"),
    ],
)
def test_another_experiment_in_the_workdir_is_left_alone(workdir, field, value, there, here):
    before = contents(workdir)
    told = (
        rf"^workdir: .*: config\.{field} is {there} there, {here} here; choose an empty directory$"
    )
    with pytest.raises(ConfigError, match=told):
        runner.run(tiny({field: value}), workdir)
    assert contents(workdir) == before
