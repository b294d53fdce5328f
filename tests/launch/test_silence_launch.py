"""Silence from the command line: who heeds it, what is recorded, and fields that cannot be used."""

import json

import numpy as np
import pytest
from launching import load, tiny

from configs import silence
from launch import experiment, files, runner, tables, validation
from launch.settings import ConfigError
from smc_jax.policies.heeding import Heeding

SILENT = {"silence.lowest_rate": 0.3}


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
    config = tiny({"policies": "random", **changes})

    def state_of(name):
        loop = experiment.build(config, name)
        begun = loop.reset(np.uint32(0))
        return loop.init(begun)

    assert isinstance(state_of("random"), Heeding) == heeds
    assert not isinstance(state_of("random_ignoring"), Heeding)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"silence.lowest_rate": 1.5}, "silence.lowest_rate"),
        ({"silence.lowest_rate": 0.0}, "silence.lowest_rate"),
        (SILENT | {"silence.highest_rate": 0.2}, "silence.highest_rate"),
        (SILENT | {"silence.row_spread": -1.0}, "silence.row_spread"),
        (SILENT | {"once": False}, "silence"),
        (SILENT | {"equalise": True}, "equalise"),
        ({"policies": "greedy_ignoring"}, "policies"),
    ],
)
def test_fields_that_cannot_be_used_are_one_line(changes, field):
    with pytest.raises(ConfigError, match=rf"^config\.{field}: ") as caught:
        validation.validate(tiny(changes))
    assert "\n" not in str(caught.value)
