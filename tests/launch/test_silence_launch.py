"""Silence from the command line: who heeds it, what is recorded, and fields that cannot be used."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from launching import load, tiny

from configs import silence
from launch import experiment, files, runner, styles, tables, validation
from launch.settings import ConfigError
from smc_jax.policies.heeding import Heeding
from smc_jax.policies.registry import base_of

SILENT = {"silence.lowest_rate": 0.3}
SLOPE = SILENT | {
    "silence.value_slope": 1.0,
    "silence.learn_value_slope": True,
    "inference.method": "mcmc",
    "model.loadings": "signed",
    "gibbs.draws": 4,
    "gibbs.first_sweeps": 3,
    "gibbs.sweeps": 1,
}


def test_the_experiment_is_silent_and_compares_who_heeds_it():
    config = silence.get_config()
    validation.validate(config)
    assert experiment.is_silent(config)
    assert not experiment.is_silent(tiny())
    assert {"ids", "ids_ignoring"} <= set(config.policies.split(","))


def test_answers_are_recorded_and_older_files_are_read(tmp_path):
    config = tiny({"policies": "optspace,optspace_ignoring", "optspace.steps": 3, **SILENT})
    summary = runner.run(config, tmp_path)
    assert summary["setting"]["silence"]["lowest_rate"] == 0.3
    assert "optspace_ignoring" in tables.table(summary)
    held = load(tmp_path)
    answered = held["optspace/answered"]
    assert answered.dtype == bool
    assert 0 < answered.sum() < answered.size
    np.testing.assert_array_equal(held["optspace/reward"][~answered], 0.0)
    older = {name: array for name, array in held.items() if not name.endswith("/answered")}
    np.savez(tmp_path / "curves.npz", **older)
    assert files.load_curves(tmp_path)["optspace"].answered.all()
    assert json.loads((tmp_path / "config.json").read_text())["config"]["silence"]["heed"]


@pytest.mark.parametrize(
    ("changes", "heeds"),
    [({}, False), (SILENT, True), (SILENT | {"silence.heed": False}, False)],
)
def test_policies_heed_silence_where_there_is_some(changes, heeds):
    config = tiny({"policies": "greedy", **changes})

    def state_of(name):
        loop = experiment.build(config, name)
        return jax.eval_shape(lambda seed: loop.init(loop.reset(seed)), np.uint32(0))

    assert isinstance(state_of("greedy"), Heeding) == heeds
    assert not isinstance(state_of("greedy_ignoring"), Heeding)
    assert not isinstance(state_of("random"), Heeding)  # it reads no probability


def test_policies_on_the_fitted_model_learn_that_answers_depend_on_values(tmp_path):
    config = tiny(SLOPE | {"policies": "greedy,greedy_ignoring"})
    for name, learns in (("greedy", True), ("greedy_ignoring", False), ("ids_gibbs", False)):
        made = experiment.make_policy(config, name)
        assert made.learns_answers == learns
        off = tiny(SLOPE | {"silence.learn_value_slope": False})
        assert not experiment.make_policy(off, name).learns_answers
    summary = runner.run(config, tmp_path)
    assert summary["setting"]["silence"]["learn_value_slope"]
    held = load(tmp_path)
    for name in ("greedy", "greedy_ignoring"):
        assert np.isfinite(held[f"{name}/regret"]).all()
        assert 0 < held[f"{name}/answered"].sum() < held[f"{name}/answered"].size
    validation.validate(silence.get_config("values"))
    with pytest.raises(ValueError, match="choose from synthetic, values, movielens"):
        silence.get_config("rows")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"silence.lowest_rate": 1.5}, "silence.lowest_rate"),
        ({"silence.lowest_rate": 0.0}, "silence.lowest_rate"),
        (SILENT | {"silence.highest_rate": 0.2}, "silence.highest_rate"),
        (SILENT | {"silence.row_spread": -1.0}, "silence.row_spread"),
        ({"silence.value_slope": 1.0}, "silence.value_slope"),
        ({"silence.ask_again": True}, "silence.ask_again"),
        ({"silence.heed": False}, "silence.heed"),
        ({"silence.learn_value_slope": True}, "silence.learn_value_slope"),
        (SILENT | {"once": False}, "silence"),
        (SILENT | {"equalise": True}, "equalise"),
        ({"policies": "greedy_ignoring"}, "policies"),
        (SILENT | {"policies": "optspace_ignoring", "optspace.rank": 500}, "optspace.rank"),
        (SLOPE | {"silence.heed": False}, "silence.learn_value_slope"),
        (SLOPE | {"model.loadings": "gamma"}, "silence.learn_value_slope"),
        (SLOPE | {"inference.method": "svi"}, "silence.learn_value_slope"),
        (SLOPE | {"prior": "old.npz"}, "silence.learn_value_slope"),
    ],
)
def test_fields_that_cannot_be_used_are_one_line(changes, field):
    with pytest.raises(ConfigError, match=rf"^config\.{field}: ") as caught:
        validation.validate(tiny(changes))
    assert "\n" not in str(caught.value)


def test_a_name_from_outside_is_taken_as_it_is():
    """Only names of POLICIES have the ending taken off."""
    assert base_of("ids_ignoring") == "ids"
    assert base_of("mine:made_ignoring") == "mine:made_ignoring"
    assert base_of("random") == "random"
    validation._check_silence(tiny({"policies": "mine:made_ignoring_users,random"}))


def test_a_policy_that_ignores_silence_is_of_the_family_of_its_own():
    found = styles.styles_of(["ids", "ids_ignoring", "oracle_ignoring", "oracle"])
    assert found["ids_ignoring"].colour == found["ids"].colour
    assert found["oracle_ignoring"].colour == found["oracle"].colour
    assert len({(style.marker, style.filling) for style in found.values()}) == 4
    curves = {"oracle_ignoring": SimpleNamespace(regret=np.ones((2, 3)))}
    assert tables.best_oracle(curves) == "oracle_ignoring"
