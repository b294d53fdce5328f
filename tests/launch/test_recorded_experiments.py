"""Experiments on recorded ratings, and the commands about them."""

import re

import numpy as np
import pytest
from launching import ROOT, finish, load

from configs import figure2, jester, ratings, replay
from launch import data, panels, runner, served, validation
from launch.settings import ConfigError
from smc_jax.data.ratings import DataError, Ratings, from_triplets
from smc_jax.simulation import service


@pytest.fixture
def jokes(monkeypatch):
    """Twelve made-up users who rated every joke, on a scale of their own."""
    rng = np.random.default_rng(0)
    values = 3.0 + 2.0 * np.outer(rng.normal(size=100), rng.normal(size=12))
    values += rng.normal(size=12)
    values += rng.normal(size=values.shape)
    monkeypatch.setattr(data, "_jester", lambda: (values, np.ones(values.shape, bool)))
    return values


def jester_config(changes=(), model="ratings"):
    config = jester.get_config(model)
    settings = {"columns": 10, "rank": 2, "seeds": 2, "horizon": 12, "refits": 2}
    settings |= {"inference.first_steps": 50, "inference.steps": 50, "initial_fraction": 5.0}
    settings |= {"inference.method": "svi"}
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


@pytest.mark.parametrize("model", ratings.MODELS)
@pytest.mark.usefixtures("jokes")
def test_every_model_that_a_config_offers_is_valid(model):
    validation.resolve(jester_config(model=model))


def test_a_replay_chooses_what_exists(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    values, mask = rng.integers(1, 6, (8, 12)), rng.random((8, 12)) < 0.6
    films = Ratings(*map(np.int32, mask.nonzero()), values[mask], np.arange(8), np.arange(12), None)
    monkeypatch.setattr(data, "_movielens", lambda rows, columns: films)
    config = replay.get_config()
    config.update({"rows": 8, "columns": 12, "rank": 2, "seeds": 2, "horizon": 30, "refits": 2})
    config.gibbs.first_sweeps, config.gibbs.sweeps = 20, 1
    config.policies = "ids,random"
    runner.run(config, tmp_path)
    curves = load(tmp_path)
    for policy in ("ids", "random"):
        picked = curves[f"{policy}/rows"], curves[f"{policy}/cols"]
        assert mask[picked].all()
        np.testing.assert_array_equal(curves[f"{policy}/reward"], values[picked])


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


@pytest.mark.parametrize(("field", "shape"), [("rows", (6, 4)), ("columns", (5, 5))])
def test_no_more_films_and_users_than_there_are(monkeypatch, field, shape):
    films = from_triplets(np.arange(5), np.arange(5) % 4, np.ones(5))
    monkeypatch.setattr(data, "fetch", lambda name: None)
    monkeypatch.setattr(data, "read_movielens", lambda path, release: films)
    told = rf"^config\.{field}: must be at most \d, the {field} of MovieLens 1M, got \d$"
    with pytest.raises(ConfigError, match=told):
        data._movielens.__wrapped__(*shape)


def test_ratings_that_cannot_be_had_cost_one_line(tmp_path, monkeypatch):
    def offline():
        raise DataError("could not download it")

    monkeypatch.setattr(data, "_jester", offline)
    with pytest.raises(ConfigError, match=r"^config\.data: could not download it"):
        runner.run(jester_config(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_of_several_data_sets(jokes):
    made = panels.panels(figure2.get_config())
    assert list(made) == ["jester", "movielens"]
    assert [panel.data for panel in made.values()] == list(made)
    config = figure2.get_config()
    config.horizon_reading = "true_rank"
    with pytest.raises(ConfigError, match=r"^config\.horizon_reading: "):
        panels.panels(config)


def test_a_grid_of_the_model_is_held_out(tmp_path):
    settings = {"rows": 8, "columns": 10, "rank": 2, "true_rank": 1, "seeds": 2, "horizon": 6}
    settings |= {"refits": 1, "inference.first_steps": 50, "inference.method": "svi"}
    flags = [f"--config.{field}={value}" for field, value in settings.items()]
    line = [f"--config={ROOT / 'configs' / 'synthetic.py'}", *flags]
    process = finish(
        *line,
        "--seen=0.5",
        "--grid=loadings=gamma,signed standardise=False",
        cwd=tmp_path,
        module="launch.heldout",
    )
    assert process.returncode == 0, process.stderr
    first, second = process.stdout.splitlines()[1:]
    assert first.startswith("loadings=gamma standardise=False")
    assert second.startswith("loadings=signed standardise=False")
    # The second line ends with its difference from the first in percent, and the interval.
    assert "%" not in first
    gamma, signed = (float(line.split()[3]) for line in (first, second))
    percent = float(re.search(r"([+-]\d+\.\d+) % \[", second)[1])
    assert percent == pytest.approx(100 * (signed / gamma - 1), abs=0.02)
    process = finish(*line, "--config.seeds=1", "--seen=0.5", cwd=tmp_path, module="launch.heldout")
    assert process.returncode == 0
    assert re.fullmatch(r"defaults +0\.5( +-?\d+\.\d+){3} *", process.stdout.splitlines()[1])
    for wrong, named in (
        ("--seen=1.5", "seen: give fractions"),
        ("--grid=loading=1", "grid: model has no setting 'loading'"),
        ("--grid=seeds=1,2", "grid: model has no setting 'seeds'"),
        ("--grid=common=-1.0", r"config\.model\.common"),
    ):
        process = finish(*line, wrong, cwd=tmp_path, module="launch.heldout")
        assert process.returncode == 2
        assert re.fullmatch(rf"error: {named}.*\n", process.stderr)


def test_who_is_served(tmp_path, monkeypatch, jokes):
    jokes = jokes + np.linspace(-6.0, 6.0, 12)  # some users rate far higher than others
    monkeypatch.setattr(data, "_jester", lambda: (jokes, np.ones(jokes.shape, bool)))
    longer = {"horizon": 60, "initial_fraction": 2.0}
    runner.run(jester_config(longer | {"policies": "greedy,random"}), tmp_path / "plain")
    fair = jester_config(longer | {"policies": "greedy", "equalise": True})
    runner.run(fair, tmp_path / "fair")
    one = served.load(tmp_path / "plain")["random"]
    curves = load(tmp_path / "plain")
    assert one.picks.sum() == curves["random/cols"].size
    for seed, cols in enumerate(curves["random/cols"]):
        rewards = curves["random/reward"][seed]
        for n in set(cols.tolist()):  # each user's ratings are among those of the data
            user = np.abs(jokes.mean(0) - one.average[seed, n]).argmin()
            gaps = np.abs(jokes[:, user, None] - rewards[cols == n]).min(0)
            assert gaps.max() < 1e-4
    shares = {
        run: service.describe(served.load(tmp_path / run)["greedy"]) for run in ("plain", "fair")
    }
    assert shares["fair"].gini < shares["plain"].gini - 0.1
    assert shares["fair"].top_tenth < shares["plain"].top_tenth
