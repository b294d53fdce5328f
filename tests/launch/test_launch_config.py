"""Configs made from the factories' signatures, and one line for a field that cannot be used."""

import ast
import itertools
import json
import re

import pytest
from launching import CONFIG, ROOT, InterruptedBar, assert_same_curves, finish, load, tiny

from configs import figure2, jester, ml1m, movielens, replay, synthetic, table
from launch import config, data, experiment, runner, usage, validation
from launch.settings import ConfigError
from smc_jax import presets
from smc_jax.policies.registry import POLICIES

CONFIGS = {"synthetic": synthetic, "jester": jester, "movielens": movielens, "replay": replay}
CONFIGS |= {"table": table, "ml1m": ml1m, "figure2": figure2}


def test_a_group_holds_the_settings_of_its_factory_and_their_defaults():
    made = config.library_fields()
    for name, entry in POLICIES.items():
        assert (name in made) == bool(entry.settings and not entry.groups)
        if name in made:
            assert made[name].to_dict() == dict(entry.settings)
    assert set(made.model) == {
        *("loadings", "intercepts", "intercept_scale", "noise_shape", "noise_rate", "fixed_noise"),
        *("noise_bound", "noise_spread", "common", "offsets", "residual"),
    }
    assert set(made.inference) == {
        *("start", "optimiser", "learning_rate", "first_steps", "steps", "draws", "columns"),
        *("window", "tolerance", "start_scale", "method"),
    }
    assert "first_steps" not in made.hmc  # it is that of the inference
    assert set(made.gibbs) == {"chains", "draws", "sweeps", "first_sweeps"}
    assert made.refits == 40
    assert made.vmap_width is None


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("model.fixed_noise", float),
        ("model.noise_bound", float),
        ("inference.learning_rate", float),
        ("inference.columns", int),
        ("icf.noise_variance", float),
        ("ids.best_of", int),
        ("oracle.best_of", int),
        ("vmap_width", int),
    ],
)
def test_a_setting_that_may_be_none_knows_its_type(field, kind):
    made = config.library_fields()
    *group, name = field.split(".")
    held = made[group[0]] if group else made
    assert held.get_type(name) is kind
    held[name] = kind(3)
    held[name] = None
    with pytest.raises(TypeError):
        held[name] = "three"


def test_a_factory_with_a_new_setting_has_a_new_field():
    def make(setting, *, draws: int = 3, width: float | None = None):
        """Makes something.

        Args:
          setting: of the experiment.
          draws: how many draws,
            counted from one.
          width: how wide; None is as wide as can be.
        """

    group = config.Group((make,), config.settings_of(make))
    assert group.fields().to_dict() == {"draws": 3, "width": None}
    assert group.fields().get_type("width") is float
    assert group.meaning("draws") == "how many draws, counted from one."


@pytest.mark.parametrize("name", CONFIGS)
def test_every_field_has_a_meaning(name):
    described = usage.describe_fields(CONFIGS[name].get_config())
    missing = [field.name for field in described if len(field.meaning) < 2]
    assert missing == []
    defaults = {field.name: field.default for field in described}
    assert defaults["inference.window"] == 50
    assert defaults["arrivals"] == 0


def test_the_configs_say_what_the_presets_say():
    """The command and the README's example run the same."""
    presets_of = {"synthetic": presets.paper(), "jester": presets.ratings()}
    for name, preset in presets_of.items():
        made = CONFIGS[name].get_config()
        assert (made.rank, made.standardise) == (preset.rank, preset.standardise)
        for group, settings in (
            ("model", preset.model),
            ("inference", preset.inference),
            ("hmc", preset.hmc),
            ("gibbs", preset.gibbs),
            *preset.policies.items(),
        ):
            defaults = dict(config.GROUPS[group].settings)
            assert made[group].to_dict() == defaults | dict(settings)
    paper = jester.get_config("paper")
    assert paper.model == config.library_fields().model
    assert paper.standardise
    assert paper.ids.best_of == 1
    assert paper.thompson.noisy
    assert paper.optspace.rank == presets.RATING_BASELINES["optspace"]["rank"]


def test_validation_neither_reads_nor_changes(monkeypatch, tmp_path):
    def read(*arguments, **settings):
        raise AssertionError

    for name in ("_jester", "_movielens", "_completion", "_table", "fetch", "read_table"):
        monkeypatch.setattr(data, name, read)
    for name in ("synthetic", "jester", "movielens", "replay", "table"):
        checked = CONFIGS[name].get_config()
        if name == "table":
            checked.path = str(tmp_path / "not there.csv")
        before = checked.to_json_best_effort()
        validation.validate(checked)
        assert checked.to_json_best_effort() == before


def test_resolving_returns_another_config(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(
        "item,user,stars\n" + "".join(f"{i},{j},3\n" for i in (1, 2) for j in (1, 2, 3))
    )
    left = table.get_config()
    left.update({"path": str(path), "rank": 1, "horizon": 2, "refits": 1})
    before = left.to_json_best_effort()
    filled = validation.resolve(left)
    assert left.to_json_best_effort() == before
    assert (filled.rows, filled.columns) == (2, 3)
    assert re.fullmatch(r"[0-9a-f]{64}", filled.checksum)


BAD = {
    "policies": ("ids,telepathy", " , ", 5, (1, 2)),
    "noise_variance": (-0.1, 0.0),
    "beta": (-0.1, 1.1, float("nan")),
    "horizon": (81, 0),
    "seeds": (0,),
    "arrivals": (-1, 11),
    "vmap_width": (0,),
    "reference": ("thompson", "nobody", "my_module:my_rule"),
    "equalise_strength": (0.0,),
    "true_rank": (0, 9),
    "loadings": ("heavy",),
    "rank": (9, 0),
    "shard": ("rows",),
    "refits": (25,),
    "model.noise_rate": (0.0,),
    "model.loadings": ("imaginary",),
    "model.fixed_noise": (0.0,),
    "model.common": (-1.0,),
    "inference.optimiser": ("walk",),
    "inference.learning_rate": (0.0,),
    "inference.first_steps": (0,),
    "inference.window": (0,),
    "inference.columns": (0,),
    "inference.draws": (0,),
    "inference.start_scale": (0.0,),
    "inference.tolerance": (-1.0,),
    "inference.start": ("middle",),
    "inference.method": ("guess", "hmc"),
    "hmc.chains": (0,),
    "hmc.draws": (0, 7),
    "hmc.thin": (0,),
    "hmc.leapfrogs": (0,),
    "hmc.first_transitions": (-1,),
    "hmc.transitions": (-1,),
    "hmc.acceptance": (0.0, 1.0),
    "inference.steps": (0,),
    "ids.scope": ("galaxy",),
    "ids.draws": (0,),
    "ids.bins": (1,),
    "ids.chunk": (0,),
    "ids.best_of": (0,),
    "thompson.pool": (-1,),
    "greedy.draws": (0,),
    "ucb.exploration": (-1.0,),
    "oracle.best_of": (0,),
    "mean_oracle.draws": (0,),
    "oracle.picks": ("both",),
    "oracle.draws": (0,),
    "oracle.covariance": ("invented",),
    "empirical.floor": (0.0,),
    "empirical.strength": (0.0,),
    "optspace.rank": (0, 9),
    "optspace.steps": (0,),
    "optspace.penalty": (-1.0,),
    "particle.particles": (0,),
    "particle.noise_variance": (0.0,),
    "icf.rule": ("thumb",),
    "icf.exploration": (-1.0,),
    "icf.sweeps": (0,),
    "icf.first_sweeps": (0,),
    "icf.shape": (0.0,),
    "icf.factor_variance": (-1.0,),
    "completable.held_out": (0.0, 1.0),
    "completable.factor": (0.0,),
    "completable.noise_deviation": (-1.0,),
    "initial_fraction": (-0.5, float("inf")),
    "first_seed": (-1, 2**32),
}


@pytest.mark.parametrize(("field", "value"), [(f, value) for f in BAD for value in BAD[f]])
def test_a_field_that_cannot_be_used_is_named(tmp_path, field, value):
    config = tiny({"policies": "ids,optspace"})
    with config.ignore_type():
        config.update_from_flattened_dict({field: value})
    with pytest.raises(ConfigError, match=rf"^config\.{re.escape(field)}: "):
        runner.run(config, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_settings_that_do_not_go_together_are_named(tmp_path):
    for changes, field in (
        ({"once": False, "beta": 0.5, "ids.best_of": 4}, "ids.best_of"),
        ({"once": False, "beta": 0.5, "ids.best_of": None}, "ids.best_of"),
        ({"once": False, "beta": 0.5, "policies": "ids_gibbs"}, "ids.best_of"),
        ({"once": False, "equalise": True}, "equalise"),
        ({"once": False, "arrivals": 1}, "arrivals"),
        ({"inference.columns": 4, "inference.tolerance": 0.1}, "inference.tolerance"),
        ({"inference.method": "mcmc", "hmc.chains": 5}, "hmc.draws"),
        (
            {"model.loadings": "signed", "inference.method": "mcmc", "gibbs.chains": 3},
            "gibbs.draws",
        ),
        ({"shard": "columns", "vmap_width": 2}, "vmap_width"),
        ({"horizon": None, "rank": 8}, "horizon"),
        ({"horizon": None, "horizon_rank": 0}, "horizon_rank"),
        ({"horizon": None, "horizon_rank": 9}, "horizon_rank"),
    ):
        with pytest.raises(ConfigError, match=rf"^config\.{re.escape(field)}: "):
            runner.run(tiny({"policies": "ids"} | changes), tmp_path / "new")
    validation.validate(tiny({"policies": "random", "once": False, "beta": 0.5}))


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


def test_a_pair_takes_its_settings_from_the_groups_of_its_rule_and_its_belief(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        experiment.registry, "make_policy", lambda name, setting, **own: asked.update(own)
    )
    experiment.make_policy(tiny({"ids.draws": 3, "ids.bins": 7, "icf.rank": 2}), "ids_gibbs")
    assert (asked["draws"], asked["bins"], asked["rank"]) == (3, 7, 2)
    assert asked.keys() == POLICIES["ids_gibbs"].settings.keys()


@pytest.mark.parametrize("width", [None, 2])
def test_the_width_of_the_vmap_reaches_sweeps_and_resets(monkeypatch, width):
    found = []

    def record(function):
        def made(*arguments, vmap_width, **settings):
            found.append(vmap_width)
            return function(*arguments, vmap_width=vmap_width, **settings)

        return made

    for name in ("make_sweep", "make_resets"):
        monkeypatch.setattr(experiment, name, record(getattr(experiment, name)))
    experiment.sweeps(tiny({"vmap_width": width}))("random")
    assert found == [width, width]


def test_a_run_with_seeds_side_by_side(tmp_path):
    """Sums are rounded otherwise, so that curves agree, but not bit by bit."""
    changes = {"policies": "random", "seeds": 3}
    one = runner.run(tiny(changes), tmp_path / "one")
    wide = runner.run(tiny(changes | {"vmap_width": 2}), tmp_path / "wide")
    found, expected = (each["policies"]["random"]["regret"] for each in (wide, one))
    assert found == pytest.approx(expected, rel=1e-4)
    recorded = json.loads((tmp_path / "wide" / "config.json").read_text())["config"]
    assert recorded["vmap_width"] == 2


@pytest.mark.parametrize(("number", "best"), [(1, "exact"), (3, "upper bound")])
def test_a_run_in_which_columns_arrive(tmp_path, number, best):
    changes = {"policies": "random,greedy", "arrivals": number}
    changes |= {"offers.row_budget": 20} if best == "upper bound" else {}
    summary = runner.run(tiny(changes), tmp_path)
    assert summary["best"] == best
    assert summary["setting"]["arrivals"] == number
    for one in summary["policies"].values():  # nobody beats the best sequence, or the bound
        assert all(regret >= 0 for regret in one["regret"].values())


def test_a_run_of_wide_seeds_and_arrivals_is_resumed(tmp_path, monkeypatch):
    changes = {"policies": "random", "seeds": 3, "vmap_width": 2, "arrivals": 2}
    runner.run(tiny(changes), tmp_path / "whole")
    monkeypatch.setattr(runner, "tqdm", InterruptedBar)
    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny(changes), tmp_path / "stopped")
    monkeypatch.undo()
    runner.run(tiny(changes), tmp_path / "stopped")
    assert_same_curves(load(tmp_path / "stopped"), load(tmp_path / "whole"))


def test_help_tells_every_field_and_ends_well(tmp_path):
    process = finish("--help", CONFIG, "--config.seeds=77", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    for field in usage.describe_fields(synthetic.get_config()):
        assert f"  {field.name} (" in process.stdout
    assert "  seeds (77)\n      how many seeds" in process.stdout
    assert "  ids.gain (gaussian)\n      what is learned: `gaussian`" in process.stdout
    assert "--workdir: Where the results go." in process.stdout
    for module in ("figure", "heldout", "ablation", "tune", "served"):
        process = finish("--help", cwd=tmp_path, module=f"launch.{module}")
        assert process.returncode == 0, process.stderr
        assert f"python -m launch.{module}" in process.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "launch").glob("*.py")), ids=lambda path: path.stem)
def test_help_loses_no_backslash(path):
    """A command that goes on in the next line can be copied as it is printed."""
    said = ast.parse(path.read_text()).body[0]
    printed = said.value.value.split("\n")
    assert len(printed) == said.end_lineno - said.lineno + 1
    for line, after in itertools.pairwise(printed):
        goes_on = re.match("(python -m|  --)", line) and after.startswith("  --")
        assert line.endswith(" \\") == bool(goes_on), line


@pytest.mark.parametrize(
    ("module", "flag", "told"),
    [
        ("ablation", "--seen=2", "seen: give a fraction between 0 and 1, got 2"),
        ("ablation", "--config.ids.draws=0", r"config\.ids\.draws: must be at least 1, got 0"),
        ("served", "--workdirs=absent", "workdirs: cannot read absent: .*"),
    ],
)
def test_other_commands_too_take_one_line(tmp_path, module, flag, told):
    line = [flag] if module == "served" else [CONFIG, flag]
    process = finish(*line, cwd=tmp_path, module=f"launch.{module}")
    assert process.returncode == 2
    assert re.fullmatch(rf"error: {told}\n", process.stderr)
    assert process.stdout == ""


@pytest.mark.parametrize("platform", ["cuda", "tpu", "abacus"])
@pytest.mark.parametrize("module", ["run", "heldout"])
def test_a_platform_that_is_missing_costs_one_line(tmp_path, monkeypatch, platform, module):
    monkeypatch.setenv("JAX_PLATFORMS", platform)
    flags = [CONFIG, "--workdir=new"] if module == "run" else [CONFIG]
    process = finish(*flags, cwd=tmp_path, module=f"launch.{module}")
    assert process.returncode == 2, process.stderr
    told = rf"error: JAX_PLATFORMS: .*'{platform}'.*unset JAX_PLATFORMS\n"
    assert re.fullmatch(told, process.stderr)
    assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([CONFIG, "--workdir=new", "--config.seeds=abc"], "config.seeds"),
        (
            [CONFIG, "--workdir=new", "--config.sedes=3"],
            "no such config field: sedes; did you mean seeds?\n",
        ),
        (
            [CONFIG, "--workdir=new", "--config.path=a.csv"],
            "error: no such config field: path\n",
        ),
        ([CONFIG, "--workdir=new", "--config.policies=ids", "--config.ids.scope=x"], "ids.scope"),
        (
            ["--config=missing.py", "--workdir=new", "--config.seeds=3"],
            "error: config: cannot read missing.py: No such file or directory\n",
        ),
        (
            [CONFIG.replace("synthetic.py", "jester.py:papr"), "--workdir=new"],
            "jester.py:papr: config: unknown model 'papr'; choose from ratings, paper\n",
        ),
        (
            [f"{CONFIG}:paper", "--workdir=new"],
            "synthetic.py:paper: this config has no variants; leave out what is behind the colon\n",
        ),
        (
            [CONFIG, "--workdir=new", "--seeds=3"],
            "error: no such flag: --seeds; a field of the config is --config.FIELD=VALUE\n",
        ),
        ([CONFIG, "--workdir=new", "--config.seeds=None"], "config.seeds: must be of type int"),
        ([CONFIG, "--workdir=new", "--config.idss.best_of=None"], "no such config field: idss"),
        ([], "--config"),
        ([CONFIG, "--workdir=", "--config.policies=random", "--config.seeds=1"], "--workdir"),
        ([CONFIG.replace("synthetic", "figure1"), "--workdir=new"], "launch.figure"),
    ],
    ids=[
        *("type", "similar", "field", "scope", "file", "model", "models", "flag", "none"),
        *("none of nothing", "flags", "workdir"),
        "figure",
    ],
)
def test_bad_input_costs_one_line_and_status_2(tmp_path, arguments, named):
    process = finish(*arguments, cwd=tmp_path)
    assert process.returncode == 2, process.stderr
    assert re.fullmatch(r"error: .+\n", process.stderr)
    assert named in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_field_that_may_be_none_is_set_to_none_by_a_flag(tmp_path):
    fields = {"rows": 5, "columns": 6, "rank": 2, "true_rank": 1, "seeds": 1, "refits": 2}
    line = [f"--config.{name}={value}" for name, value in fields.items()]
    none = ["--config.ids.best_of=None", "--config.model.intercept_scale=None"]
    none += ["--config.greedy.draws=None", "--config.greedy.draws=7"]  # the last one counts
    process = finish(
        CONFIG, "--workdir=new", "--config.policies=random", *line, *none, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    kept = json.loads((tmp_path / "new" / "config.json").read_text())
    kept = kept.get("config", kept)
    assert kept["ids"]["best_of"] is None
    assert kept["greedy"]["draws"] == 7
    assert kept["model"]["intercept_scale"] is None
