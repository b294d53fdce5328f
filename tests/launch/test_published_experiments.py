"""Experiments on published matrices, with made-up files in their place."""

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
from launching import ROOT, finish, load

from launch import data, runner, usage, validation
from launch.settings import ConfigError, horizon
from smc_jax import presets
from smc_jax.data.published import PUBLISHED, read_published

ROWS, COLUMNS, HORIZON = 8, 10, 12
POLICIES = "ids,thompson,greedy,icf,particle,optspace,random"
TINY = {"rows": ROWS, "columns": COLUMNS, "rank": 2, "seeds": 2, "horizon": HORIZON, "refits": 2}
TINY |= {"gibbs.first_sweeps": 10, "gibbs.sweeps": 1, "optspace.rank": 2}
FRACTIONS = {"davis": 10, "pkis1": 10, "arylation": 4, "buchwald": 4, "oboe": 10}


@pytest.fixture
def matrices(tmp_path, monkeypatch):
    """A made-up file for each name; the matrix that is to come of it, NaN where nothing exists."""
    rng = np.random.default_rng(0)
    expected = {}
    for name, source in PUBLISHED.items():
        values = np.round(0.5 + 0.1 * np.outer(rng.normal(size=ROWS), rng.normal(size=COLUMNS)), 3)
        values += np.round(0.01 * rng.normal(size=values.shape), 3)
        if name == "buchwald":
            values[2:6, 3:] = np.nan
        expected[name] = values
        held = 1 - values if source.one_minus else values
        lines = [["id", *(f"c{j}" for j in range(held.shape[not source.turned]))]]
        for i, line in enumerate(held.T if source.turned else held):
            lines.append([f"r{i}", *("" if np.isnan(x) else f"{x:.3f}" for x in line)])
        content = "".join(",".join(line) + "\n" for line in lines).encode()
        path = tmp_path / "data" / source.path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        checksum = hashlib.sha256(content).hexdigest()
        monkeypatch.setitem(PUBLISHED, name, source._replace(checksum=checksum))
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path / "data"))
    return expected


def configured(name, changes=()):
    config = validation.CONFIGS[name].get_config()
    config.update_from_flattened_dict(TINY | dict(changes))
    return config


def run_and_check(config, expected, workdir):
    """Every pick exists, is picked once, and earns what the file has."""
    summary = runner.run(config, workdir)
    assert summary["setting"]["data"] == config.data
    curves = load(workdir)
    for policy in config.policies.split(","):
        rows, columns = curves[f"{policy}/rows"], curves[f"{policy}/cols"]
        assert rows.shape == (config.seeds, config.horizon)
        for picks in zip(rows, columns, strict=True):
            assert len(set(zip(*map(np.ndarray.tolist, picks), strict=True))) == config.horizon
        # A NaN of an entry that does not exist is equal to nothing.
        np.testing.assert_allclose(
            curves[f"{policy}/reward"], expected[rows, columns], atol=1e-5, equal_nan=False
        )


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_config_runs_on_a_matrix_in_its_layout(tmp_path, matrices, name):
    config = configured(name, {"policies": "greedy,random"})
    run_and_check(config, matrices[name], tmp_path / "run")


def test_what_does_not_exist_is_never_chosen(tmp_path, matrices):
    config = configured("buchwald", {"policies": "ids,random", "horizon": 40})
    run_and_check(config, matrices["buchwald"], tmp_path / "run")


@pytest.mark.parametrize("picks", [53, ROWS * COLUMNS + 1])
def test_a_horizon_is_held_against_the_entries_that_exist(matrices, picks):
    assert np.isfinite(matrices["buchwald"]).sum() == 52
    with pytest.raises(ConfigError, match=r"^config\.horizon: .* need more than the 52 ratings"):
        validation.resolve(configured("buchwald", {"horizon": picks}))


def test_pipelines_are_equalised_over_data_sets(tmp_path, matrices):
    config = configured("oboe", {"policies": "greedy", "equalise": True})
    run_and_check(config, matrices["oboe"], tmp_path / "run")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_settings_of_every_config(monkeypatch, name):
    def read(*arguments):
        raise AssertionError

    monkeypatch.setattr(data, "read_published", read)
    config = validation.CONFIGS[name].get_config()
    validation.validate(config)  # which reads nothing
    assert (config.data, config.policies, config.seeds) == (name, POLICIES, 10)
    assert config.rank == (10 if name in ("arylation", "buchwald") else 20)
    assert config.model.loadings == "signed"
    assert config.model.to_dict().items() >= presets.ratings().model.items()
    assert config.inference.method == "mcmc"
    blanks = 5 if name == "buchwald" else 0
    assert horizon(config) == (config.rows * config.columns - blanks) // FRACTIONS[name]
    assert [field.name for field in usage.describe_fields(config) if not field.meaning] == []
    assert f"configs/{name}.py" in validation.CONFIGS[name].__doc__
    assert PUBLISHED[name].path in validation.CONFIGS[name].__doc__
    assert data.checksum(config) == PUBLISHED[name].checksum


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_config_has_all_of_its_matrix(name):
    folder = os.environ.get("SMC_DATA_DIR")
    if not folder or not (Path(folder) / PUBLISHED[name].path).exists():
        pytest.skip(f"SMC_DATA_DIR names no folder with {PUBLISHED[name].path}")
    config = validation.resolve(validation.CONFIGS[name].get_config())
    assert (config.rows, config.columns) == read_published(name).shape


def test_a_block_is_the_first_rows_and_columns(matrices):
    block = data._published("davis", 3, 4)
    np.testing.assert_allclose(block.dense()[0], matrices["davis"][:3, :4], atol=1e-6)


@pytest.mark.parametrize(("field", "most"), [("rows", ROWS), ("columns", COLUMNS)])
def test_no_more_rows_and_columns_than_there_are(matrices, field, most):
    told = rf"^config\.{field}: must be at most {most}, the {field} of pkis1, got {most + 1}$"
    with pytest.raises(ConfigError, match=told):
        validation.resolve(configured("pkis1", {field: most + 1}))


@pytest.mark.parametrize("trouble", ["No such file or directory", "the file has another checksum"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_file_that_cannot_be_used_is_one_line_with_its_publisher(
    tmp_path, matrices, name, trouble
):
    source = PUBLISHED[name]
    path = tmp_path / "data" / source.path
    path.unlink() if trouble.startswith("No") else path.write_text("x,u\na,1\n")
    with pytest.raises(ConfigError) as caught:
        runner.run(configured(name), tmp_path / "new")
    message = str(caught.value)
    assert message.startswith(f"config.data: {path}: {trouble}; put {source.path}, ")
    assert message.endswith(f"SMC_DATA_DIR names; its values were published by {source.publisher}")
    assert "\n" not in message
    assert not (tmp_path / "new").exists()


def test_a_missing_file_ends_the_command_with_status_2(tmp_path, monkeypatch):
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    line = [f"--config={ROOT / 'configs' / 'davis.py'}", "--workdir=new"]
    process = finish(*line, cwd=tmp_path)
    assert process.returncode == 2, process.stderr
    path = re.escape(str(tmp_path / PUBLISHED["davis"].path))
    assert re.fullmatch(
        rf"error: config\.data: {path}: No such file .* Davis et al\..*\n", process.stderr
    )
    assert process.stdout == ""
    assert list(tmp_path.iterdir()) == []
