"""The study of how regret grows."""

import csv
import io

import numpy as np
import pytest
from launching import tiny

from launch import files, growth, plans, settings


def series(regret, values=(1.0, 2.0, 4.0)):
    taken = np.full(len(values), 0.5)
    return growth.Series("columns", "ids", np.asarray(values), np.asarray(regret, float), taken)


def test_a_power_law_has_its_exponent():
    values = np.array([1.0, 2.0, 4.0])
    exact = growth.exponent(series(3.0 * values[:, None] ** 0.7 * np.ones(4)))
    assert exact == pytest.approx((0.7, 0.7, 0.7))


def test_the_interval_holds_the_exponent_of_paired_seeds():
    """Of 200 studies 2 to 20 miss it: 5 % are expected, P(any other number) is below 2e-3."""
    rng = np.random.default_rng(0)
    values = np.array([1.0, 2.0, 4.0, 8.0])
    missed = 0
    for _ in range(200):
        level = rng.gamma(20.0, 1 / 20.0, 10)  # what a seed shares along the field
        noise = rng.gamma(50.0, 1 / 50.0, (4, 10))
        found = growth.exponent(series(values[:, None] ** 0.5 * level * noise, values))
        missed += not found.low <= 0.5 <= found.high
    assert 2 <= missed <= 20


def test_one_seed_has_no_interval():
    found = growth.exponent(series([[1.0], [2.0], [4.0]]))
    assert found.slope == pytest.approx(1.0)
    assert np.isnan([found.low, found.high]).all()


def test_the_point_that_all_fields_share_is_run_once(tmp_path):
    config = tiny()
    varied = {"columns": (6, config.columns), "noise_variance": (config.noise_variance, 0.4)}
    varied["horizon"] = (10, config.horizon)
    made = growth.plan(config, tmp_path, varied).experiments
    assert len(made) == 4
    assert {one.horizon: settings.initial_size(one) for one in made.values()} == {
        10: settings.initial_size(config),
        config.horizon: settings.initial_size(config),
    }


def test_the_table_of_a_study_says_what_the_curves_say(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "POLICIES", ("random", "oracle_ids"))
    config = tiny({"oracle.draws": 4})
    plan = growth.plan(config, tmp_path, {"noise_variance": (0.1, 0.4)})
    plans.run([plan])
    rows = list(csv.DictReader(io.StringIO((tmp_path / "growth.csv").read_text())))
    assert [(row["policy"], row["value"]) for row in rows] == [
        (policy, value) for policy in growth.POLICIES for value in ("0.1", "0.4")
    ]
    titles = {str(one.noise_variance): title for title, one in plan.experiments.items()}
    for row in rows:
        curves = files.load_curves(plan.folders[titles[row["value"]]])
        regret = curves[row["policy"]].regret[:, -1]
        assert float(row["regret"]) == pytest.approx(regret.mean(), rel=1e-3)
    assert "| noise_variance |" in (tmp_path / "growth.md").read_text()
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
