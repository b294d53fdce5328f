"""An experiment on a table of the user's own: its files, its sizes, and one line for bad input."""

import csv
import re

import numpy as np
import pytest
from launching import FILES, ROOT, assert_same_curves, contents, finish, load, strict_json
from ml_collections import ConfigDict

from configs import table
from launch import data, runner, settings, validation
from launch.settings import ConfigError
from smc_jax.data.completed import Completed

ROWS, COLUMNS, HORIZON = 8, 12, 30
TINY = {"policies": "random,greedy", "seeds": 2, "rank": 2, "horizon": HORIZON, "refits": 3}
TINY |= {"inference.method": "svi", "inference.first_steps": 50, "inference.steps": 50}


def ratings():
    """Of each rated pair of item and user the stars."""
    rng = np.random.default_rng(0)
    # Item k lacks its first users: it has more ratings the lower k is.
    rated = [(i, j) for i in range(ROWS) for j in range(i % 5, COLUMNS)]
    return {pair: float(rng.integers(1, 11)) / 2 for pair in rated}


def lines(kept):
    return [f"film {i},{j},{stars}" for (i, j), stars in kept.items()]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text("\n".join(["item,user,stars", *lines(ratings())]) + "\n")
    return file


def configured(path, changes=()):
    config = table.get_config()
    config.update_from_flattened_dict(TINY | {"path": str(path)} | dict(changes))
    return config


def test_every_pick_is_a_rating_of_the_table(path, tmp_path):
    config = configured(path)
    summary = runner.run(config, tmp_path / "run")
    assert contents(tmp_path / "run").keys() == FILES | {"ids.csv"}
    assert summary["setting"]["data"] == "table"
    curves, held = load(tmp_path / "run"), ratings()
    with (tmp_path / "run" / "ids.csv").open(newline="") as file:
        ids = {(line["axis"], int(line["number"])): line["id"] for line in csv.DictReader(file)}
    assert len(ids) == ROWS + COLUMNS
    for name in ("random", "greedy"):
        rows, cols = (curves[f"{name}/{axis}"] for axis in ("rows", "cols"))
        assert rows.shape == (2, HORIZON)
        items = [int(ids["row", row].removeprefix("film ")) for row in rows.ravel()]
        users = [int(ids["column", column]) for column in cols.ravel()]
        pairs = list(zip(items, users, strict=True))
        assert len(set(pairs[:HORIZON])) == len(set(pairs[HORIZON:])) == HORIZON
        rewards = [held[pair] for pair in pairs]
        np.testing.assert_allclose(curves[f"{name}/reward"].ravel(), rewards, rtol=1e-5)


def test_the_record_tells_what_was_left_to_the_table_and_repeats_the_run(path, tmp_path):
    run = tmp_path / "run"
    runner.run(configured(path, {"policies": "random"}), run)
    record = strict_json(run / "config.json")["config"]
    assert (record["rows"], record["columns"]) == (ROWS, COLUMNS)
    runner.run(ConfigDict(record), tmp_path / "again")
    assert_same_curves(load(tmp_path / "again"), load(run))
    # The same command resumes, unless the table is another by now.
    runner.run(configured(path, {"policies": "random"}), run)
    path.write_text(path.read_text().replace("film 0,0,", "film 0,0,1"))
    for more in ("", "film 9,99,3\n"):  # which makes the rows and columns others too
        path.write_text(path.read_text() + more)
        with pytest.raises(ConfigError, match=r"^workdir: .*config\.checksum .* has changed since"):
            runner.run(configured(path, {"policies": "random"}), run)
    with pytest.raises(ConfigError, match=r"^config\.checksum: that of .*ratings\.csv is \w{64}$"):
        runner.run(ConfigDict(record), tmp_path / "third")


def test_a_block_is_of_the_rows_and_columns_rated_most(path):
    config = validation.resolve(configured(path, {"rows": 4, "columns": 9, "horizon": 20}))
    block = data.table_block(config)
    assert block.row_ids.tolist() == ["film 0", "film 5", "film 1", "film 6"]
    assert block.column_ids.tolist() == list(range(1, 10))
    problem = data.make_data(config)(None)
    np.testing.assert_array_equal(problem.available, block.dense()[1])
    np.testing.assert_array_equal(problem.entries, block.dense()[0])


def test_columns_are_read_by_name_and_a_pair_rated_again_is_settled(path):
    # Users as rows, and a second opinion of one of them.
    path.write_text("\n".join(["stars,item,user", "2,a,7", "3,a,8", "5,b,7", "4,a,7"]))
    few = {"read_columns": "user, item, stars", "horizon": 2, "refits": 1}
    for duplicates, expected in (("last", 4.0), ("mean", 3.0)):
        config = validation.resolve(configured(path, few | {"duplicates": duplicates}))
        block = data.table_block(config)
        assert block.row_ids.tolist() == [7, 8]
        assert block.dense()[0].tolist() == [[expected, 5.0], [3.0, 0.0]]
    told = r"^config\.path: .*line 5: .* rated at .*line 2; set config\.duplicates=last or mean$"
    with pytest.raises(ConfigError, match=told):
        validation.resolve(configured(path, few))


def test_a_table_in_another_encoding_is_told_the_option(path):
    path.write_bytes(path.read_text().replace("film", "Amélie").encode("latin-1"))
    told = r"^config\.path: .*line 2: not utf-8 text; set config\.encoding=latin-1"
    with pytest.raises(ConfigError, match=told):
        validation.resolve(configured(path))
    validation.resolve(configured(path, {"encoding": "latin-1"}))


def test_too_long_a_horizon_is_told_the_longest(path):
    existing = len(ratings())
    # 83 ratings: fewer than 7 (12 + 8 - 7) = 91 picks.
    config = configured(path, {"horizon": None, "rank": 7})
    with pytest.raises(ConfigError, match=r"^config\.horizon: 91 picks .* 83 ratings") as caught:
        validation.resolve(config)
    longest = int(re.search(r"at most (\d+)", str(caught.value))[1])
    config.horizon = longest
    validation.resolve(config)
    config.horizon = longest + 1
    assert settings.horizon(config) + settings.initial_size(config) > existing
    with pytest.raises(ConfigError, match=rf"^config\.horizon: .* at most {longest} "):
        validation.resolve(config)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"path": None}, r"config\.path: missing; give --config\.path=FILE"),
        ({"path": "none.csv"}, r"config\.path: cannot read none\.csv: No such file"),
        ({"path": "."}, r"config\.path: cannot read \.: Is a directory"),
        ({"path": "ratings.zip"}, r"config\.path: ratings\.zip is a zip"),
        ({"read_columns": "item,user"}, r"config\.read_columns: must be three names or positions"),
        ({"read_columns": "0,1,1"}, r"config\.read_columns: must be three names or positions"),
        (
            {"read_columns": "film,user,stars"},
            r"config\.path: .*line 1: no column 'film' among .*; set config\.read_columns to",
        ),
        (
            {"read_columns": "0,1,3"},
            r"config\.path: .*line 1: 3 columns, none at position 3; set config\.read_columns to",
        ),
        (
            {"duplicates": "first"},
            r"config\.duplicates: unknown 'first'; choose from error, last, mean",
        ),
        ({"rows": ROWS + 1}, r"config\.rows: must be at most 8, the rows of .*, got 9"),
        ({"columns": 13}, r"config\.columns: must be at most 12, the columns of .*, got 13"),
        ({"rows": 0, "columns": 3}, r"config\.rows: must be at least 1"),
        ({"rows": 0}, r"config\.rows: must be at least 1"),
        ({"rank": 9}, r"config\.rank: must be at most rows = 8, got 9"),
        ({"oracle.covariance": "true"}, r"config\.oracle\.covariance: "),
    ],
)
def test_a_field_that_cannot_be_used_is_named(path, tmp_path, changes, complaint):
    with pytest.raises(ConfigError, match=f"^{complaint}[^\n]*$"):
        runner.run(configured(path, changes), tmp_path / "new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: the file is empty"),
        ("item,user,stars\n", "line 2: no rating follows the header"),
        ("item,user,stars\na,b,3\na,c,many\n", "line 3: 'many' is not a finite number"),
        ("item,user,stars\na,b\n", "line 2: 2 columns, not 3"),
        (
            "a b c\n",
            "line 1: 1 columns, not 3 or more; known delimiters are comma, tab, semicolon and ::",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_the_line(path, tmp_path, text, complaint):
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"^config\.path: .*ratings\.csv, {complaint}$"):
        runner.run(configured(path), tmp_path / "new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_too_large_to_number_its_entries(path, monkeypatch):
    monkeypatch.setattr(data, "MOST_ENTRIES", ROWS * COLUMNS - 1)
    with pytest.raises(ConfigError, match=r"^config\.rows: 8 x 12 entries are too many"):
        validation.resolve(configured(path))
    validation.resolve(configured(path, {"columns": COLUMNS - 1}))


def test_the_command_takes_the_path(path):
    flags = [f"--config={ROOT / 'configs' / 'table.py'}", "--workdir=new"]
    process = finish(*flags, cwd=path.parent)
    assert re.fullmatch(r"error: config\.path: missing.*\n", process.stderr)
    assert process.returncode == 2
    settings = TINY | {"policies": "random", "path": path.name, "read_columns": "item,user,stars"}
    flags += [f"--config.{field}={value}" for field, value in settings.items()]
    process = finish(*flags, cwd=path.parent)
    assert process.returncode == 0, process.stderr
    assert contents(path.parent / "new").keys() == FILES | {"ids.csv"}


def test_only_a_completion_has_something_to_tell(path, monkeypatch):
    assert data.describe_data(configured(path)) == {}
    found = Completed(np.ones((2, 3), np.float32), 2, {1: 0.5, 2: 0.25})
    monkeypatch.setattr(data, "_completion", lambda rows, columns: found)
    told = data.describe_data(
        ConfigDict({"data": "movielens", "rows": 2, "columns": 3, "history": 0})
    )
    assert told == {"completion_rank": 2, "completion_errors": {"1": 0.5, "2": 0.25}}
