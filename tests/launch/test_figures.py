"""All figures of the docs in one command: resumed, stamped, and refused where commits mix."""

import csv
import io
import json
import re
import runpy
import subprocess

import numpy as np
import pytest
from launching import ROOT, STEPS, assert_same_curves, finish, load
from ml_collections import ConfigDict

from configs import arylation, synthetic
from launch import commits, features, figures, plans, settings, validation
from launch.settings import ConfigError, DataUnavailable

TINY = STEPS | {"policies": "greedy,random", "rank": 3, "horizon": None}
CHANGES = TINY | {"rows": 8, "columns": 10, "refits": 3, "ids.draws": 4, "ids.bins": 4}
MADE = ("figure1", "figure1_true_rank")


def make(workdir, **settings):
    return figures.make(workdir, only=MADE, small=True, changes=CHANGES, **settings)


@pytest.fixture
def at(monkeypatch):
    """Pretends that the code is of a commit."""

    def pretend(commit):
        monkeypatch.setattr(commits, "current", lambda: commit)

    return pretend


def runs(workdir):
    """The curves of every run, by folder."""
    folders = [path.parent for path in workdir.rglob("curves.npz")]
    return {folder.relative_to(workdir): load(folder) for folder in folders}


def test_an_interrupted_command_goes_on_and_ends_as_one_that_was_not(
    tmp_path, monkeypatch, computed, at
):
    at("abc")
    assert make(tmp_path / "whole") == list(MADE)
    assert computed == 4 * ["greedy", "random"]
    whole = runs(tmp_path / "whole")
    assert len(whole) == 4

    class Interrupted(plans.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n > 0.6 * self.total:
                raise KeyboardInterrupt

    bar = plans.tqdm
    monkeypatch.setattr(plans, "tqdm", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "stopped")
    begun = computed[8:]
    finished = sum(len(arrays) for arrays in runs(tmp_path / "stopped").values())
    assert 0 < finished < sum(len(arrays) for arrays in whole.values())
    assert len(list((tmp_path / "stopped").rglob("*.checkpoint.npz"))) == 1

    shown = []

    def recorded(**settings):
        shown.append((settings["initial"], settings["total"]))
        return bar(**settings)

    monkeypatch.setattr(plans, "tqdm", recorded)
    computed.clear()
    make(tmp_path / "stopped")
    # What was finished is not computed again, and counts from the start; one policy is resumed.
    assert len(begun) + len(computed) == 9
    assert begun[-1] == computed[0]
    ((initial, total),) = shown
    assert 0.0 < initial < total
    again = runs(tmp_path / "stopped")
    assert again.keys() == whole.keys()
    for folder, arrays in whole.items():
        assert_same_curves(again[folder], arrays)
    for name in MADE:
        one, other = (
            (tmp_path / x / name / "figure.png").read_bytes() for x in ("whole", "stopped")
        )
        assert one == other
    computed.clear()
    make(tmp_path / "stopped")
    assert computed == []


def test_every_table_says_which_commit_it_was_made_at(tmp_path, computed, at):
    at("abc")
    figures.make(tmp_path, only=["figure1"], small=True, changes=CHANGES | {"panel_values": (1,)})
    folder = tmp_path / "figure1"
    assert "\nMade at commit abc.\n" in (folder / "table.md").read_text()
    rows = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text())))
    assert [row["commit"] for row in rows] == ["abc", "abc"]
    assert json.loads((folder / "true_rank_1" / "commits.json").read_text()) == {
        "greedy": ["abc"],
        "random": ["abc"],
    }
    # Another commit is refused before anything is run, and is told where it is allowed.
    at("xyz")
    computed.clear()
    more = CHANGES | {"panel_values": (1, 2)}
    told = r"^workdir: .*true_rank_1 holds greedy of commit abc, and this is xyz; choose another"
    with pytest.raises(ConfigError, match=told):
        figures.make(tmp_path, only=["figure1"], small=True, changes=more)
    assert computed == []
    assert not (folder / "true_rank_2").exists()
    figures.make(tmp_path, only=["figure1"], small=True, changes=more, mixed=True)
    assert computed == ["greedy", "random"]
    rows = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text())))
    assert [row["commit"] for row in rows] == ["abc", "abc", "xyz", "xyz"]
    assert "several commits" in (folder / "table.md").read_text()
    assert "abc (2), xyz (2)" in (folder / "table.md").read_text()


def plan_of(folder, names="ids,random", parts=()):
    """A plan of one run, which says what it would keep."""
    return plans.Plan({"one": ConfigDict({"policies": names})}, {"one": folder}, print, parts)


def test_a_policy_that_was_begun_at_another_commit_has_both(tmp_path, at):
    at("abc")
    assert commits.note(tmp_path, "ids") == "abc"
    commits.note(tmp_path, "random")
    (tmp_path / "ids.checkpoint.npz").write_bytes(b"")
    at("xyz")
    commits.note(tmp_path, "ids", resumed=True)
    commits.note(tmp_path, "random")
    assert commits.load(tmp_path) == {"ids": ["abc", "xyz"], "random": ["xyz"]}
    # What was noted and left nothing behind is made anew, whatever the commit.
    assert commits.kept(tmp_path, ["ids", "random"], []) == {"ids": ["abc", "xyz"]}
    with pytest.raises(ConfigError, match=r"holds ids of commit abc, and this is xyz; choose"):
        figures.check_commits([plan_of(tmp_path)], "xyz")
    figures.check_commits([plan_of(tmp_path, "random")], "none of them")
    assert commits.made_at(tmp_path, "ids") == "abc and xyz"
    assert commits.made_at(tmp_path, "greedy") == "unknown"
    (tmp_path / commits.FILE).write_text("[1")
    with pytest.raises(ConfigError, match=r"^workdir: cannot read .*commits\.json"):
        commits.load(tmp_path)


@pytest.mark.parametrize(
    ("held", "here", "fix"),
    [
        (None, "abc", ", and this is abc; choose another directory"),
        ("unknown", "abc", ", and this is abc; choose another directory"),
        ("abc-dirty", "abc", ", and this is abc; choose another directory"),
        ("abc-dirty", "abc-dirty", ", and this is abc-dirty; commit what you changed, and choose"),
        ("abc", "abc-dirty", ", and this is abc-dirty; commit what you changed, and choose"),
        ("unknown", "unknown", "; work in a clone, where git names the commit, and choose"),
    ],
)
def test_code_that_no_commit_names_is_never_the_same(tmp_path, at, held, here, fix):
    """Two trees that are dirty, or unknown, look alike and need not be."""
    (tmp_path / "fit.json").write_text("{}")
    (tmp_path / "random.checkpoint.npz").write_bytes(b"")
    if held is not None:
        at(held)
        for name in ("random", "fit.json"):
            commits.note(tmp_path, name)
    for plan, name in (
        (plan_of(tmp_path), "random"),
        (plan_of(tmp_path, "ids", ("fit.json",)), "fit.json"),
    ):
        told = rf"^workdir: .* holds {name} of commit {held or 'unknown'}{fix}.*, or say --mixed$"
        with pytest.raises(ConfigError, match=told):
            figures.check_commits([plan], here)


def test_results_of_this_commit_are_added_to(tmp_path, at):
    at("abc")
    for name in ("random", "fit.json"):
        commits.note(tmp_path, name)
    (tmp_path / "fit.json").write_text("{}")
    (tmp_path / "random.checkpoint.npz").write_bytes(b"")
    figures.check_commits([plan_of(tmp_path, parts=("fit.json",))], "abc")


def test_the_commit_of_another_repository_is_not_that_of_this_code(tmp_path):
    """As where the files were copied into it without their history."""
    (tmp_path / "launch").mkdir()
    copy = tmp_path / "launch" / "commits.py"
    copy.write_text((ROOT / "launch" / "commits.py").read_text())
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], [*own, "commit", "-q", "--allow-empty", "-m", "other"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    module = runpy.run_path(str(copy))
    assert module["current"]() == "unknown"
    subprocess.run(["git", "-C", str(tmp_path), "add", "launch"], check=True)
    assert runpy.run_path(str(copy))["current"]().endswith("-dirty")


def test_the_commit_is_what_git_says_or_unknown(monkeypatch):
    commits.current.cache_clear()
    line = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(line, capture_output=True, text=True)
    except OSError:
        asked = None
    if asked is None or asked.returncode:
        assert commits.current() == "unknown"
    else:
        assert asked.stdout.startswith(commits.current().removesuffix("-dirty"))
    commits.current.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert commits.current() == "unknown"
    monkeypatch.undo()
    commits.current.cache_clear()


def test_every_figure_can_be_made_on_at_least_ten_seeds(tmp_path, monkeypatch):
    """All but the recorded data, which are not read here."""
    monkeypatch.setattr(figures.panels, "resolve", figures.panels.panels)
    monkeypatch.setattr(figures.validation, "resolve", lambda config: config)
    made = {name: make() for name, make in figures.makers(tmp_path).items()}
    assert list(made) == [
        *("figure1", "figure1_true_rank", "figure2", "replay", "tables", "arrivals", "silence"),
        *("history", "steps", "ablation", "growth"),
    ]
    both = {
        f"{oracle}{by}" for oracle in ("oracle", "mean_oracle") for by in ("", "_ids", "_greedy")
    }
    for name, plan in made.items():
        assert len(set(plan.folders.values())) == len(plan.experiments)
        for config in plan.experiments.values():
            assert config.seeds >= 10
            if name.startswith("figure"):
                assert both | {"ids_paper", "greedy"} <= set(settings.policy_names(config))
    horizons = [settings.horizon(c) for c in made["figure1_true_rank"].experiments.values()]
    assert horizons == [149, 725, 1400, 2025, 2600]
    assert {settings.horizon(c) for c in made["figure1"].experiments.values()} == {2600}
    assert list(made["figure2"].experiments) == ["jester", "movielens"]
    assert list(made["arrivals"].experiments) == ["jester", "movielens"]
    assert {c.arrivals for c in made["arrivals"].experiments.values()} == {10}
    assert list(made["tables"].experiments)[:2] == ["davis", "davis features"]
    for title, config in made["tables"].experiments.items():
        assert (config.row_features is not None) == title.endswith(" features")
    assert {c.data for c in made["silence"].experiments.values()} == {"synthetic", "movielens"}
    assert [(c.columns, c.history) for c in made["history"].experiments.values()] == [(500, 500)]
    assert {c.first_seed for c in made["ablation"].experiments.values()} == {1000}


def test_the_bar_counts_what_a_refit_costs():
    """A matrix that is twice as wide takes twice as long to fit."""
    config = figures.synthetic.get_config()
    one = plans.cost(config)
    assert one == 10 * 50 * (100 * (48 + 2 * 4) * 16 + 65 * 20 * 48)
    config.inference.method = "svi"
    assert plans.cost(config) == 10 * 50 * (100 * 100 + 65 * 20 * 48)
    bar = plans.tqdm(total=100, disable=True)
    bar.n, bar.initial = 10.0, 10.0
    share = plans.Share(bar, 5.0)
    share.n += 2
    share.initial += 2
    assert (bar.n, bar.initial) == (20.0, 20.0)
    told = []
    bar.update = told.append
    share.update(3)
    assert told == [15.0]


def test_what_there_is_not_costs_one_line(tmp_path):
    process = finish("--only=figure9", cwd=tmp_path, module="launch.figures")
    assert process.returncode == 2
    assert re.fullmatch(
        r"error: only: no figure 'figure9'; choose from figure1, .*\n", process.stderr
    )
    assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["matrix", "features"])
def test_figures_whose_data_are_missing_are_left_out_in_a_line(
    tmp_path, at, monkeypatch, capsys, missing
):
    at("abc")
    ran = []
    monkeypatch.setattr(plans, "run", lambda made: ran.extend(made) or [])
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    config = arylation.get_config()
    if missing == "features":
        config = synthetic.get_config()
        config.row_features = "no.csv"
        ids = np.arange(config.rows), np.arange(config.columns)
        monkeypatch.setattr(features, "ids_of", lambda config: ids)

    def makers(workdir, **settings):
        there = plans.Plan({}, {}, lambda summaries: None)
        return {"there": lambda: there, "away": lambda: validation.resolve(config)}

    monkeypatch.setattr(figures, "makers", makers)
    assert figures.make(tmp_path / "made", small=True) == ["there"]
    assert len(ran) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("away is left out: config.")
    with pytest.raises(DataUnavailable):
        figures.make(tmp_path / "made", only=["away"], small=True)
