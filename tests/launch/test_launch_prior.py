"""Experiments that know something beforehand: a table, a file, or columns that the seed draws."""

import jax
import numpy as np
import pytest
from launching import load, tiny

from configs import history, jester, table
from launch import data, runner, validation
from launch.priors import check_fit, make_prior
from launch.settings import ConfigError
from smc_jax import priors
from smc_jax.beliefs.history import History
from smc_jax.data.recorded import recorded
from smc_jax.observations import Observations

ROWS, COLUMNS = 8, 10
SMALL = {"rank": 2, "seeds": 2, "horizon": 12, "refits": 2, "gibbs.sweeps": 1}
SMALL |= {"gibbs.first_sweeps": 5, "gibbs.draws": 4, "ids.draws": 4, "initial_fraction": 1.0}


@pytest.fixture
def tables(tmp_path):
    """A table, and one of further columns in which a row is missing and another is new."""
    rng = np.random.default_rng(0)
    entries = rng.normal(size=(ROWS + 1, 2)) @ rng.normal(size=(2, COLUMNS + 5))

    def write(name, rows, columns):
        lines = [f"r{i},c{j},{entries[i, j]:.4f}" for i in rows for j in columns]
        (tmp_path / name).write_text("row,column,value\n" + "\n".join(lines) + "\n")
        return str(tmp_path / name)

    path = write("table.csv", range(ROWS), range(COLUMNS))
    past = write("past.csv", range(1, ROWS + 1), range(COLUMNS, COLUMNS + 5))
    config = table.get_config()
    config.update_from_flattened_dict(SMALL | {"policies": "ids", "path": path})
    return config, past, entries


def test_history_is_found_by_id(tables):
    config, past, entries = tables
    config.prior, config.prior_temper = past, 0.5
    filled = validation.resolve(config)
    assert len(filled.prior_checksum) == 64
    prior = make_prior(filled)
    rows = [int(str(name)[1:]) for name in data.ids_of(filled)[0]]
    for place, row in enumerate(rows):
        seen = 0.0 if row == 0 else 0.5
        np.testing.assert_array_equal(prior.data.times_seen()[place], seen)
        if seen:
            wanted = entries[row, COLUMNS:]
            np.testing.assert_allclose(prior.data.average()[place], wanted, atol=1e-3)
    filled.prior_checksum = "0" * 64
    with pytest.raises(ConfigError, match=r"^config\.prior_checksum: that of the files is"):
        validation.resolve(filled)


def test_a_table_of_history_is_laid_out_as_that_of_the_data(tables, tmp_path):
    config, past, entries = tables
    for name in ("table.csv", "past.csv"):
        _, *lines = (tmp_path / name).read_text().splitlines()
        turned = [",".join(line.split(",")[::-1]).replace("r", "é") for line in lines]
        text = "value,column,row\n" + "\n".join(turned) + "\n"
        (tmp_path / name).write_text(text, encoding="latin-1")
    config.update({"prior": past, "read_columns": "row,column,value", "encoding": "latin-1"})
    filled = validation.resolve(config)
    place = list(data.ids_of(filled)[0]).index("é2")
    found = make_prior(filled).data.average()[place]
    np.testing.assert_allclose(found, entries[2, COLUMNS:], atol=1e-3)


def test_a_saved_prior_of_the_same_columns_is_refused(tables, tmp_path):
    config, _, _ = tables
    seen = Observations.from_matrix(np.ones((ROWS, 2)), np.ones((ROWS, 2), bool))
    rows = [f"r{i}" for i in range(ROWS)]
    config.prior = str(tmp_path / "prior.npz")
    priors.save(config.prior, History.of(seen), rows, ["c3", "new"])
    with pytest.raises(ConfigError, match=r"^config\.prior: 1 of its columns are columns of the"):
        validation.resolve(config)
    priors.save(config.prior, History.of(seen), rows, ["other", "new"])
    assert make_prior(validation.resolve(config)).data.columns == 2


def test_a_fit_is_not_written_without_the_features_that_are_named():
    check_fit(tiny())
    for field in ("row_features", "column_features", "entry_prediction"):
        with pytest.raises(ConfigError, match=rf"^config\.{field}: a fit is written without feat"):
            check_fit(tiny({field: "x.csv"}))


def test_a_saved_prior_is_used_by_every_policy_that_takes_it(tmp_path):
    rows, columns = 8, 10
    seen = Observations.from_matrix(np.ones((rows, 4)), np.ones((rows, 4), bool))
    priors.save(tmp_path / "prior.npz", History.of(seen))
    config = tiny({"policies": "thompson,oracle,optspace", "prior": str(tmp_path / "prior.npz")})
    runner.run(config, tmp_path / "with")
    config.prior = None
    runner.run(config, tmp_path / "without")
    one, two = load(tmp_path / "with"), load(tmp_path / "without")
    np.testing.assert_array_equal(one["oracle/reward"], two["oracle/reward"])
    assert (one["thompson/reward"] != two["thompson/reward"]).any()
    assert columns == config.columns


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"history": 2}, r"config\.history: is for recorded data"),
        ({"history": -1}, r"config\.history: must not be negative, got -1"),
        ({"prior_temper": 0.5}, r"config\.prior_temper: there is nothing to temper"),
        ({"prior_temper": 2.0}, r"config\.prior_temper: must be above 0 and at most 1, got 2\.0"),
        ({"policies": "ids_without_history"}, r"config\.policies: ids_without_history is for runs"),
        ({"prior": "none.npz"}, r"config\.prior: cannot read none\.npz: No such file"),
        ({"prior": __file__}, r"config\.prior: the rows of synthetic have no ids"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(changes, told):
    with pytest.raises(ConfigError, match=rf"^{told}"):
        validation.resolve(tiny(changes))


def test_files_that_are_no_prior_of_these_data_are_refused(tables, tmp_path):
    config, _, _ = tables
    config.prior = config.path
    with pytest.raises(ConfigError, match=r"^config\.prior: 10 of its columns are columns of the"):
        validation.resolve(config)
    (tmp_path / "broken.npz").write_bytes(b"no")
    config.prior = str(tmp_path / "broken.npz")
    with pytest.raises(ConfigError, match=r"^config\.prior: .* is no file of a prior, or damaged"):
        validation.resolve(config)
    seen = Observations.from_matrix(np.ones((ROWS, 2)), np.ones((ROWS, 2), bool))
    priors.save(tmp_path / "few.npz", History.of(seen), [f"x{i}" for i in range(ROWS)])
    config.prior = str(tmp_path / "few.npz")
    with pytest.raises(ConfigError, match=r"^config\.prior: none of its rows has the id"):
        validation.resolve(config)
    config.update({"prior": None, "history": COLUMNS})
    with pytest.raises(ConfigError, match=r"^config\.history: must be below 10, the columns of"):
        validation.resolve(config)
    config.history = 3
    for field in ("column_features", "entry_prediction"):
        config.update({"column_features": None, "entry_prediction": None, field: "x.csv"})
        with pytest.raises(ConfigError, match=rf"^config\.{field}: does not go with config\.hist"):
            validation.resolve(config)


def test_the_seed_draws_history_and_the_new_columns_stay():
    """They are disjoint, and the new ones do not depend on how many are known."""
    values = np.arange(ROWS * 12.0).reshape(ROWS, 12)
    mask = np.random.default_rng(0).uniform(size=values.shape) < 0.8
    key = jax.random.key(3)
    plain = recorded(values, mask, columns=5)(key)
    made = recorded(values, mask, columns=5, history=4, temper=0.5)(key)
    np.testing.assert_array_equal(made.entries, plain.entries)
    np.testing.assert_array_equal(made.available, plain.available)
    known = made.history.data
    assert known.columns == 4
    np.testing.assert_array_equal(known.times_seen() > 0, known.seen())
    new, past = (set(np.asarray(x).ravel()) - {0.0} for x in (made.entries, known.average()))
    assert not new & past
    assert past <= set(values[mask])
    assert recorded(values, mask, history=4)(key).entries.shape == (ROWS, 8)
    with pytest.raises(ValueError, match=r"^columns: must lie between 1 and 8, the columns that"):
        recorded(values, mask, columns=9, history=4)


@pytest.mark.slow
def test_with_and_without_history_in_one_table(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    values = 3.0 + rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 30))
    monkeypatch.setattr(data, "_jester", lambda: (values, np.ones(values.shape, bool)))
    config = history.get_config()
    assert (config.columns, config.history) == (500, 500)
    config.update_from_flattened_dict(SMALL | {"columns": 10, "history": 20})
    config.policies = "ids,ids_without_history,random"
    runner.run(config, tmp_path)
    curves = load(tmp_path)
    one, two = (curves[f"{name}/regret"][:, -1] for name in ("ids", "ids_without_history"))
    assert one.mean() < two.mean()
    # Everybody meets the same new users, as an experiment without history has them.
    plain = jester.get_config()
    plain.update_from_flattened_dict(SMALL | {"columns": 10, "policies": "random"})
    runner.run(plain, tmp_path / "plain")
    same = load(tmp_path / "plain")["random/regret"]
    np.testing.assert_allclose(curves["random/regret"], same, rtol=1e-5)
