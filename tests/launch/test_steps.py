"""The walk from IDS to the letter to ours, and the ablation of starts, as launched."""

import csv
import io
import itertools
import operator
import re

import numpy as np
import pytest
from launching import CONFIG, contents, finish, load, tiny
from scipy import stats
from tqdm import tqdm

from configs import jester, synthetic
from launch import commits, plans, settings, starts, validation, walk
from launch.settings import ConfigError

OURS = {
    "ids.conditioned": True,
    "ids.scope": "matrix",
    "ids.gain": "gaussian",
    "ids.best_of": 16,
    "ids.selection": "deterministic",
    "inference.method": "mcmc",
}
# IDS that differs from the paper's in one setting: two runs rather than eight.
NEAR = walk.LETTER | {"ids.best_of": 3}
NEAR |= {"ids.draws": 4, "ids.bins": 4}


def read(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_each_case_differs_from_its_neighbour_in_one_setting():
    made = walk.cases(synthetic.get_config())
    assert [case.title for case in made] == [
        "to the letter",
        "+ conditioned=True",
        "+ scope=matrix",
        "+ gain=gaussian",
        "+ best_of=16",
        "+ method=mcmc = ours",
        "ours, but conditioned=False",
        "ours, but scope=covariance",
        "ours, but gain=histogram",
        "ours, but best_of=1",
        "ours, but method=svi (the same run as: + best_of=16)",
    ]
    assert made[0].settings == walk.LETTER
    assert made[5].settings == OURS

    def changed(one, other):
        return [name for name in one.settings if one.settings[name] != other.settings[name]]

    for before, after in itertools.pairwise(made[:6]):
        assert len(changed(before, after)) == 1
    taken_back = [changed(case, made[5]) for case in made[6:]]
    names = ("ids.conditioned", "ids.scope", "ids.gain", "ids.best_of", "inference.method")
    assert taken_back == [[name] for name in names]
    # What is the last step of the walk taken back is its last step but one, and is not run again.
    assert made[10].folder() == made[4].folder()
    assert len({case.folder() for case in made}) == 10


def test_the_walk_ends_at_the_settings_of_the_config():
    """Ratings measure regret from half of the horizon; a selection can differ too."""
    assert walk.cases(jester.get_config())[4].title == "+ best_of=half of H"
    config = synthetic.get_config()
    config.ids.selection, config.ids.gain = "two_action", "histogram"
    made = walk.cases(config)
    assert [case.title for case in made[:6]] == [
        "to the letter",
        "+ conditioned=True",
        "+ scope=matrix",
        "+ best_of=16",
        "+ selection=two_action",
        "+ method=mcmc = ours",
    ]


def test_every_case_is_a_run_of_ids_with_its_settings(tmp_path):
    config = tiny({"ids.best_of": 16, "reference": "random", "policies": "ids,random"})
    plan = walk.plan(config, tmp_path)
    assert len(plan.experiments) == 8
    for name, experiment in plan.experiments.items():
        assert settings.policy_names(experiment) == ("ids",)
        own = {field: operator.attrgetter(field)(experiment) for field in walk.LETTER}
        assert walk.Case("", own).folder() == name
    assert (
        next(iter(plan.experiments)) == walk.Case("", OURS | {"inference.method": "svi"}).folder()
    )
    assert list(tmp_path.iterdir()) == []


def test_the_table_says_what_the_curves_say_and_a_stop_changes_nothing(
    tmp_path, monkeypatch, computed
):
    config = tiny(NEAR)
    plans.run([walk.plan(config, tmp_path / "whole")])
    assert len(computed) == 2
    folders = [path for path in (tmp_path / "whole").iterdir() if path.is_dir()]
    runs = {path.name: load(path)["ids/regret"] for path in folders}
    ours = runs[walk.Case("", walk.LETTER | {"ids.best_of": 3}).folder()]
    letter = runs[walk.Case("", walk.LETTER).folder()]
    rows = read(tmp_path / "whole" / "steps.csv")
    titles = ["to the letter", "+ best_of=3 = ours"]
    titles.append("ours, but best_of=1 (the same run as: to the letter)")
    assert [row["settings"] for row in rows] == titles
    assert {row["commit"] for row in rows} == {commits.current()}
    for row, regret in zip(rows, (letter, ours, letter), strict=True):
        for percent, pick in (("10", 1), ("25", 5), ("50", 11), ("100", 23)):
            values = regret[:, pick]
            assert float(row[f"regret_{percent}"]) == pytest.approx(values.mean(), rel=1e-3)
            error = values.std(ddof=1) / np.sqrt(2)
            assert float(row[f"sem_{percent}"]) == pytest.approx(error, rel=1e-3, abs=1e-6)
            if regret is ours:
                assert row[f"minus_ours_{percent}"] == ""
                continue
            gap = letter[:, pick] - ours[:, pick]
            width = stats.t.ppf(0.975, 1) * gap.std(ddof=1) / np.sqrt(2)
            found = [float(row[f"minus_ours_{percent}{end}"]) for end in ("", "_low", "_high")]
            expected = [gap.mean(), gap.mean() - width, gap.mean() + width]
            assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)
    text = (tmp_path / "whole" / "steps.md").read_text()
    assert "true rank 2; H = 24; seeds 5 to 6. Made at commit" in text
    assert text.count("\n| ") == 4
    assert "The last line is the line before ours again" in text

    computed.clear()
    before = contents(tmp_path / "whole")
    plans.run([walk.plan(config, tmp_path / "whole")])
    assert computed == []
    assert contents(tmp_path / "whole") == before

    class Interrupted(plans.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n > 0.7 * self.total:
                raise KeyboardInterrupt

    monkeypatch.setattr(plans, "tqdm", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        plans.run([walk.plan(config, tmp_path / "stopped")])
    assert len(read(tmp_path / "stopped" / "steps.csv")) == 1
    monkeypatch.setattr(plans, "tqdm", tqdm)
    computed.clear()
    plans.run([walk.plan(config, tmp_path / "stopped")])
    assert computed == ["ids"]
    assert contents(tmp_path / "stopped") == before


def test_a_walk_that_cannot_be_taken_costs_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"^config\.ids: is to the letter already"):
        walk.plan(tiny(NEAR | {"ids.best_of": 1}), tmp_path / "new")
    flags = [CONFIG, "--workdir=new"]
    for wrong, told in (
        (["--config.ids.draws=0"], r"config\.ids\.draws: must be at least 1, got 0"),
        (["--workdir="], "give --workdir=DIR"),
        (["--config.horizon=999999"], r"config\.horizon: .*"),
    ):
        process = finish(*flags, *wrong, cwd=tmp_path, module="launch.steps")
        assert process.returncode == 2
        assert re.fullmatch(rf"error: {told}\n", process.stderr)
        assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_settings_of_an_oracle_reach_the_oracles_of_that_name():
    config = synthetic.get_config()
    config.oracle.covariance, config.oracle.best_of, config.mean_oracle.draws = "population", 7, 5
    config.ids.draws, config.thompson.noisy = 6, False
    expected = {"covariance": "population", "best_of": 7, "draws": 48}
    assert settings.policy_settings(config, "oracle_ids") == expected
    del expected["best_of"]
    assert settings.policy_settings(config, "oracle_greedy") == expected
    assert settings.policy_settings(config, "mean_oracle_greedy") == {"draws": 5}
    assert settings.policy_settings(config, "ids_paper")["draws"] == 6
    assert settings.policy_settings(config, "thompson_paper") == {"noisy": False}
    config.policies, config.once, config.beta = "oracle_ids", False, 0.5
    with pytest.raises(ConfigError, match=r"^config\.oracle\.best_of: must be 1"):
        validation.validate(config)


def test_starts_and_optimisers_have_a_line_each_and_fits_are_kept(tmp_path, monkeypatch, computed):
    monkeypatch.setattr(starts, "STARTS", {"spectral": starts.STARTS["spectral"]})
    config = tiny({"first_seed": 1000, "ids.draws": 4})
    plan = starts.plan(config, tmp_path, 0.5)
    assert {one.inference.get("method", "svi") for one in plan.experiments.values()} == {"svi"}
    plans.run([plan])
    assert computed == ["ids", "ids"]
    rows = read(tmp_path / "ablation.csv")
    assert [(row["start"], row["optimiser"]) for row in rows] == [
        ("spectral", "adam"),
        ("spectral", "adadelta"),
    ]
    regret = load(tmp_path / "spectral_adam")["ids/regret"][:, -1]
    assert float(rows[0]["regret"]) == pytest.approx(regret.mean(), rel=1e-3)
    assert 0.0 < float(rows[0]["RMSE"]) < 2.0
    assert rows[0]["ELBO"] != rows[1]["ELBO"]
    assert {row[of] for row in rows for of in ("commit", "fit_commit")} == {commits.current()}
    assert commits.load(tmp_path / "spectral_adam")["fit.json"] == [commits.current()]
    assert plan.parts == ("fit.json",)
    text = (tmp_path / "ablation.md").read_text()
    assert f"{regret.mean():.1f} ± {regret.std(ddof=1) / np.sqrt(2):.1f} |" in text

    # What was fitted is not fitted again, unless another part of the entries is to be seen.
    before = contents(tmp_path)
    fitted = []
    single_fit = starts.single_fit
    monkeypatch.setattr(starts, "single_fit", lambda *a: fitted.append(a) or single_fit(*a))
    plans.run([starts.plan(config, tmp_path, 0.5)])
    assert fitted == []
    assert contents(tmp_path) == before
    made = commits.current()
    monkeypatch.setattr(commits, "current", lambda: "abc")
    plans.run([starts.plan(config, tmp_path, 0.6)])
    assert len(fitted) == 2
    row = read(tmp_path / "ablation.csv")[0]
    assert (row["commit"], row["fit_commit"]) == (made, "abc")
    told = f"Made at several commits, each with its number of results: {made} (2), abc (2)."
    assert told in (tmp_path / "ablation.md").read_text()
    assert read(tmp_path / "ablation.csv")[0]["ELBO"] != rows[0]["ELBO"]
    (tmp_path / "spectral_adam" / "fit.json").write_text("{")
    with pytest.raises(ConfigError, match=r"^workdir: cannot read .*fit\.json"):
        plans.run([starts.plan(config, tmp_path, 0.6)])
