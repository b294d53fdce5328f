"""Policies from outside the package: run, compared with any reference, in a colour of their own."""

import itertools
import json
import re
import sys

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest
from launching import CONFIG, FILES, TINY, contents, finish, load, tiny

from launch import files, plot, runner, styles
from launch.settings import ConfigError
from smc_jax.policies.registry import POLICIES

RULES = '''
import jax
import jax.numpy as jnp
from smc_jax import Choice, Policy
from smc_jax.policies.greedy import greedy
from smc_jax.policies.random import random


def first_rows(setting, *, skip: int = 0):
    """The first open entry, row by row."""
    def choose(key, state, data, offer):
        row, position = jnp.divmod(jnp.argmax(offer.open.ravel()), offer.open.shape[1])
        return Choice(row, offer.column_of(position))
    return random()._replace(choose=choose)


def eager(setting):
    return greedy(setting.belief, draws=2)


def broken(setting):
    raise KeyError("no luck")


def demanding(setting, *, needed):
    return random()


def nothing(setting):
    return None


number = 5
'''


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A module of policies in the current directory."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "my_rules.py").write_text(RULES)
    (folder / "torn.py").write_text("def unfinished(:\n")
    (folder / "sad.py").write_text("raise RuntimeError('out of order')\n")
    monkeypatch.syspath_prepend(folder)
    for name in ("my_rules", "torn", "sad"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield folder
    sys.modules.pop("my_rules", None)


def flags(changes):
    return [f"--config.{field}={value}" for field, value in (TINY | changes).items()]


def test_a_policy_from_the_current_directory_is_run_and_compared(rules, tmp_path):
    mine = "my_rules:first_rows"
    changes = {"policies": f"random,{mine}", "reference": mine}
    process = finish(CONFIG, *flags(changes), f"--workdir={tmp_path / 'run'}", cwd=rules)
    assert process.returncode == 0, process.stderr
    assert contents(tmp_path / "run").keys() == FILES
    curves = load(tmp_path / "run")
    flat = curves[f"{mine}/rows"] * 10 + curves[f"{mine}/cols"]
    assert (np.diff(flat) > 0).all()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    paired = summary["policies"]["random"]["paired"][mine]
    ends = (curves[f"{name}/regret"][:, -1] for name in ("random", mine))
    assert paired[0] == pytest.approx(np.subtract(*ends).mean())
    assert f"random - {mine} at 100 %: {paired[0]:+.1f}" in process.stdout
    assert "running on 2 x cpu" in process.stdout.splitlines()


@pytest.mark.usefixtures("rules")
def test_a_policy_from_outside_has_the_belief_of_the_experiment(tmp_path, computed):
    summary = runner.run(tiny({"policies": "my_rules:eager", "seeds": 1}), tmp_path)
    assert computed == ["my_rules:eager"]
    assert summary["policies"]["my_rules:eager"]["effective_rank"] in (1.0, 2.0, 3.0)
    # A reference that an earlier run of the same experiment has finished will do.
    again = tiny({"policies": "random", "seeds": 1, "reference": "my_rules:eager"})
    runner.run(again, tmp_path)
    assert computed == ["my_rules:eager", "random"]


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent:rule", "cannot import the policy 'absent:rule': No module named 'absent'"),
        ("my_rules:absent", "cannot import the policy 'my_rules:absent': .*"),
        ("my_rules:number", ".*"),
        ("torn:rule", ".*invalid syntax.*"),
        ("sad:rule", "out of order"),
        ("my_rules:broken", "my_rules:broken cannot be made: KeyError: 'no luck'"),
        ("my_rules:demanding", "my_rules:demanding cannot be made: .*'needed'"),
        ("my_rules:nothing", r"my_rules:nothing must return a smc_jax\.Policy, got NoneType"),
        (":rule", ".*"),
        ("my_rules:", ".*"),
    ],
)
def test_a_policy_that_cannot_be_had_is_named(tmp_path, name, told):
    with pytest.raises(ConfigError, match=rf"^config\.policies: {told}$"):
        runner.run(tiny({"policies": f"random,{name}"}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_module_that_is_not_there_costs_one_line(tmp_path):
    line = [CONFIG, "--workdir=new", "--config.policies=absent:rule"]
    process = finish(*line, cwd=tmp_path)
    assert process.returncode == 2
    assert re.fullmatch(r"error: config\.policies: .*'absent'\n", process.stderr)
    assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_rule_that_was_edited_is_another_experiment(rules, tmp_path):
    import my_rules

    config = tiny({"policies": "my_rules:eager"})
    before = files.fingerprint(config, "my_rules:eager")
    assert files.fingerprint(config, "my_rules:eager") == before
    path = rules / "my_rules.py"
    path.write_text(RULES.replace("draws=2", "draws=3"))
    assert my_rules.__file__ == str(path)
    assert files.fingerprint(config, "my_rules:eager") != before
    assert files.checkpoint_path(tmp_path, "my_rules:eager").name == "my_rules.eager.checkpoint.npz"


def test_colours_are_told_apart():
    outside = [f"mine:{n}" for n in range(8)]
    found = styles.styles_of([*POLICIES, *outside])
    assert found.keys() == {*POLICIES, *outside}
    assert len(set(map(str, found.values()))) == len(found)
    own = {name: np.array(matplotlib.colors.to_rgb(found[name][0])) for name in outside}
    built_in = {name: np.array(matplotlib.colors.to_rgb(found[name][0])) for name in POLICIES}
    for name, other in itertools.product(own, own | built_in):
        if name != other:
            apart = np.linalg.norm(own[name] - (own | built_in)[other])
            assert apart > 0.25, (name, other)
    # By their order, whatever the built-in policies beside them.
    assert styles.styles_of(["random", "a:b", "ids", "c:d"])["c:d"] == found["mine:1"]
    many = styles.styles_of([f"mine:{n}" for n in range(20)])
    assert len(set(many.values())) == 20


def test_a_policy_from_outside_is_drawn_in_its_colour(tmp_path):
    rng = np.random.default_rng(0)
    regret = rng.random((2, 30)).cumsum(1)
    none = np.zeros((2, 0))
    curves = files.Curves(regret, regret, regret, regret, *5 * [none], regret > 0)
    plot.regret_plot(tmp_path / "one.png", {"mine:rule": curves}, title="")
    pixels = matplotlib.image.imread(tmp_path / "one.png")[..., :3]
    colour = np.array(matplotlib.colors.to_rgb(styles.OUTSIDE[0]))
    assert (np.abs(pixels - colour).max(-1) < 0.02).sum() > 100
