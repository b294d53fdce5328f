"""Features in experiments: found by id, checked before any compute, and used by the fit."""

import jax
import numpy as np
import pytest
from launching import load

from configs import jester, synthetic, table
from launch import experiment, runner, validation
from launch.features import describe_features, make_features
from launch.settings import ConfigError
from smc_jax.observations import Observations

ROWS, COLUMNS = 8, 10


@pytest.fixture
def made_up(tmp_path):
    """A table that features of its rows explain, and these features in a file."""
    rng = np.random.default_rng(0)
    known = rng.normal(size=(ROWS, 2))
    entries = known @ rng.normal(size=(2, COLUMNS)) + 0.1 * rng.normal(size=(ROWS, COLUMNS))
    lines = [f"r{i},c{j},{entries[i, j]:.4f}" for i in range(ROWS) for j in range(COLUMNS)]
    (tmp_path / "table.csv").write_text("row,column,value\n" + "\n".join(lines) + "\n")
    features = "\n".join(f"r{i},{x:.4f},{y:.4f}" for i, (x, y) in enumerate(known))
    (tmp_path / "rows.csv").write_text(f"id,x,y\n{features}\n")
    config = table.get_config()
    small = {"rank": 2, "seeds": 2, "horizon": 20, "refits": 2, "policies": "ids"}
    small |= {"gibbs.first_sweeps": 30, "gibbs.sweeps": 1, "initial_fraction": 1.0}
    config.update_from_flattened_dict(small | {"path": str(tmp_path / "table.csv")})
    return config, tmp_path


def test_features_are_found_by_id_and_change_the_picks(made_up):
    config, folder = made_up
    runner.run(config, folder / "without")
    config.row_features = str(folder / "rows.csv")
    found = make_features(validation.resolve(config))
    assert found.rows.shape == (ROWS, 2)
    assert found.columns is None
    runner.run(config, folder / "with")
    picks = [load(folder / name)["ids/rows"] for name in ("without", "with")]
    assert (picks[0] != picks[1]).any()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"row_features": "nowhere.csv"}, r"^config.row_features: cannot read nowhere.csv"),
        ({"column_features": "rows.csv"}, r"^config.column_features: .*no line is of one of"),
        ({"entry_prediction": "nowhere.csv"}, r"^config.entry_prediction: cannot read nowhere.csv"),
        ({"entry_prediction": "rows.csv"}, r"^config.entry_prediction: .*no entry of the matrix"),
        (
            {"entry_prediction": "table.csv", "equalise": True},
            r"^config.equalise: must be False with config.entry_prediction, got True",
        ),
        ({"model.residual": False}, r"^config.model.residual: False needs config.inference.method"),
        (
            {"model.residual": False, "row_features": "rows.csv", "inference.method": "svi"},
            r"^config.model.residual: False needs config.inference.method",
        ),
        (
            {"model.residual": False, "model.loadings": "gamma", "model.common": 0.0},
            r"^config.model.residual: False needs loadings=signed",
        ),
    ],
)
def test_features_that_cannot_be_used_are_named(made_up, monkeypatch, changes, told):
    config, folder = made_up
    monkeypatch.chdir(folder)
    config.update_from_flattened_dict(changes)
    with pytest.raises(ConfigError, match=told) as error:
        validation.resolve(config)
    assert "\n" not in str(error.value)


def test_ids_of_one_part_are_categories_like_any(made_up):
    config, _ = made_up
    config.row_features = "ids"
    assert make_features(validation.resolve(config)).rows.shape == (ROWS, ROWS - 1)


def test_features_of_noise_are_the_same_at_every_run_and_tell_nothing(made_up):
    config, _ = made_up
    config.update(row_features="noise", column_features="noise")
    filled = validation.resolve(config)
    assert describe_features(filled)[1].startswith("column_features: 20 numbers an id that tell no")
    found, again = make_features(filled), make_features(filled)
    # Of 20 features there are as many coordinates as ids can tell apart.
    assert found.rows.shape == (ROWS, ROWS - 1)
    assert found.columns.shape == (COLUMNS, COLUMNS - 1)
    np.testing.assert_array_equal(found.rows, again.rows)
    assert filled.features_checksum is None


@pytest.mark.parametrize("module", [synthetic, jester])
def test_data_without_ids_have_no_features(module):
    config = module.get_config()
    config.row_features = "ids"
    with pytest.raises(ConfigError, match="have no ids, by which features are found"):
        make_features(config)


def test_features_that_have_changed_since_are_another_experiment(made_up, capsys):
    config, folder = made_up
    config.row_features = str(folder / "rows.csv")
    config.policies = "random"
    runner.run(config, folder / "with")
    assert "row_features: 8 of 8 ids have a line; columns of numbers 2" in capsys.readouterr().out
    text = (folder / "rows.csv").read_text()
    (folder / "rows.csv").write_text(text.replace("r0,", "r0,1"))
    config.policies = "random,ids"
    with pytest.raises(ConfigError, match="features_checksum is "):
        runner.run(config, folder / "with")


def test_every_command_that_fits_the_config_has_its_features(made_up):
    config, folder = made_up
    config.row_features = str(folder / "rows.csv")
    filled = validation.resolve(config)
    data, key = Observations.empty(ROWS, COLUMNS), jax.random.key(0)
    assert experiment.make_belief(filled).init(key, data).inner.states.row_weights is not None
    paper = experiment.make_setting(filled).paper
    assert jax.eval_shape(paper.init, key, data).inner.q.mean.row_relevance is None


@pytest.mark.parametrize(
    "changes",
    [{"model.residual": False}, {"inference.method": "svi"}, {"model.loadings": "gamma"}],
    ids=["features alone", "svi", "gamma loadings"],
)
def test_every_model_takes_features_and_a_prediction(made_up, changes):
    config, folder = made_up
    values = (folder / "table.csv").read_text().splitlines()
    (folder / "scores.csv").write_text("\n".join(values[:60]) + "\n")
    small = {"inference.first_steps": 10, "hmc.first_transitions": 2, "hmc.leapfrogs": 2}
    config.update_from_flattened_dict(small | changes)
    config.row_features = str(folder / "rows.csv")
    config.entry_prediction = str(folder / "scores.csv")
    filled = validation.resolve(config)
    told = describe_features(filled)
    assert told[-1] == "entry_prediction: 59 of 80 entries are predicted"
    data, key = Observations.empty(ROWS, COLUMNS).add(0, 0, 1.0, 1.0), jax.random.key(0)
    belief = experiment.make_belief(filled)
    state = jax.eval_shape(belief.refit, key, belief.init(key, data), data)
    drawn = jax.eval_shape(belief.draw, key, state)
    assert drawn.prediction.shape == (COLUMNS, ROWS)
    experiment.make_setting(filled)
