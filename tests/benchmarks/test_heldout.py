"""Splits and features of held-out ratings on made-up files; our predictions on a tiny matrix."""

import gzip
import types

import chex
import jax
import numpy as np
import pytest
from benchmarking import load

from benchmarks import heldout_data, heldout_tables
from benchmarks import heldout_movielens as splits
from smc_jax.looks import Looks

heldout = load("heldout")

USERS = (7, 3, 9, 4, 8)  # in the order of the file
FILMS = (50, 2, 31, 12)
GIBBS = {"draws": 6, "sweeps": 1, "first_sweeps": 5}


def made_up(rows, columns, *, seen, seed=0):
    """Values of a matrix of films by users, in whole stars."""
    rng = np.random.default_rng(seed)
    film, user = np.nonzero(rng.random((rows, columns)) < seen)
    means = 3.5 + rng.normal(size=(rows, 1)) * rng.normal(size=columns)
    stars = np.clip(np.round(means[film, user] + 0.5 * rng.normal(size=film.size)), 1, 5)
    order = rng.permutation(film.size)
    return heldout_data.Values(
        film[order], user[order], stars[order], np.arange(rows), np.arange(columns)
    )


@pytest.fixture
def folder(tmp_path):
    """The three files: five users, each of whom rated all four films."""
    pairs = [(user, film) for user in USERS for film in FILMS]
    lines = [f"{user}::{film}::{1 + i % 5}\n" for i, (user, film) in enumerate(pairs)]
    with gzip.open(tmp_path / "ratings.notime.dat.gz", "wt") as file:
        file.writelines(lines)
    users = ["3::F::1::10::48067", "4::M::56::16::70072", "7::M::25::0::02460"]
    users += ["8::F::18::20::99999-1234", "9::M::50::4::55455", "1::F::35::1::10001"]
    films = ["2::Jumanji (1995)::Adventure|Comedy", "12::Caf\xe9 (1999)::Drama"]
    films += ["31::One: Two (2000)::Comedy", "50::Old (1919)::Drama|War", "60::No (2000)::Sci-Fi"]
    (tmp_path / "users.dat").write_text("\n".join(users), encoding="latin-1")
    (tmp_path / "movies.dat").write_text("\n".join(films), encoding="latin-1")
    return tmp_path


def test_users_are_numbered_as_they_appear_and_films_by_id(folder):
    ratings = splits.read_ratings(folder)
    np.testing.assert_array_equal(ratings.column_ids, USERS)
    np.testing.assert_array_equal(ratings.row_ids, sorted(FILMS))
    np.testing.assert_array_equal(ratings.column_ids[ratings.column], np.repeat(USERS, 4))
    np.testing.assert_array_equal(ratings.row_ids[ratings.row], FILMS * 5)
    np.testing.assert_array_equal(ratings.values, 1 + np.arange(20) % 5)


@pytest.mark.parametrize(("name", "train"), [("90", None), ("5", 6)])
def test_ratings_are_held_out_by_the_recipe(folder, name, train):
    ratings = splits.read_ratings(folder)
    split = splits.make_split(ratings, name, held=4, train=train)
    order = np.arange(20)
    np.random.RandomState(0).shuffle(order)
    learnt = order[4:] if train is None else order[4:10]
    for part, chosen in ((split.test, order[:4]), (split.train, learnt)):
        np.testing.assert_array_equal(part.column, ratings.column[chosen])
        np.testing.assert_array_equal(part.row, ratings.row[chosen])
        np.testing.assert_array_equal(part.values, ratings.values[chosen])
    again = splits.make_split(ratings, name, held=4, train=train)
    jax.tree.map(np.testing.assert_array_equal, split, again)


def test_users_and_films_are_held_out_by_the_recipe(folder):
    ratings = splits.read_ratings(folder)
    new_users = np.asarray(USERS)[np.random.RandomState(0).permutation(5)[:2]]
    new_films = np.sort(FILMS)[np.random.RandomState(0).permutation(4)[:1]]
    for name, new in (("users", new_users), ("films", new_films)):
        split = splits.make_split(ratings, name, held=len(new))
        of = {
            part: x.column_ids[x.column] if name == "users" else x.row_ids[x.row]
            for part, x in split._asdict().items()
        }
        assert set(of["test"]) == set(new)
        assert not set(of["train"]) & set(new)
        assert of["train"].size + of["test"].size == 20
    with pytest.raises(ValueError, match="name: unknown 'rows'"):
        splits.make_split(ratings, "rows")


def test_the_parts_of_a_split_share_no_entry():
    ratings = made_up(12, 20, seen=0.5)
    for name, held, train in (("90", 10, None), ("5", 10, 20), ("users", 3, None)):
        split = splits.make_split(ratings, name, held=held, train=train)
        test, learnt = ({*zip(x.row, x.column, strict=True)} for x in (split.test, split.train))
        assert not test & learnt
        if train is None:
            assert len(test) + len(learnt) == ratings.values.size


def test_predictions_are_clipped_before_their_error_is_taken():
    found = heldout_data.rmse(np.array([9.0, -3.0, 2.5]), np.array([4.0, 1.0, 2.0]), (1.0, 5.0))
    assert found == pytest.approx(((1.0 + 0.0 + 0.25) / 3) ** 0.5)
    with pytest.raises(ValueError, match="not a number"):
        heldout_data.rmse(np.array([np.nan]), np.array([1.0]), (1.0, 5.0))


def test_offsets_are_those_of_a_ridge_regression():
    split = splits.make_split(made_up(12, 20, seen=0.5), "90", held=10)

    def design(part):
        return np.concatenate([np.eye(12)[part.row], np.eye(20)[part.column]], axis=1)

    x, mean = design(split.train), split.train.values.mean()
    offsets = np.linalg.solve(x.T @ x + 5.0 * np.eye(32), x.T @ (split.train.values - mean))
    found = heldout_data.biases_only(split, rounds=200)
    np.testing.assert_allclose(found, mean + design(split.test) @ offsets, rtol=1e-9)


def test_features_of_users(folder):
    matrix, groups = splits.user_features(folder, splits.read_ratings(folder))
    assert groups == {"gender": 2, "age": 7, "occupation": 21, "zip": 10}
    assert matrix.shape == (5, 40)
    ones = [set(np.flatnonzero(row)) for row in matrix]
    # User 7 comes first: a man of the third group of ages, occupation 0, zip code 0....
    assert ones[0] == {1, 2 + 2, 9 + 0, 30 + 0}
    assert ones[1] == {0, 2 + 0, 9 + 10, 30 + 4}
    assert ones[4] == {0, 2 + 1, 9 + 20, 30 + 9}


def test_features_of_films(folder):
    matrix, groups = splits.film_features(folder, splits.read_ratings(folder))
    assert groups == {"genres": 4, "period": 3}  # the film that nobody rated adds none
    genres = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]
    periods = [[0, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]  # from 1915, 1995 and 2000
    np.testing.assert_array_equal(matrix, np.concatenate([genres, periods], axis=1))


def dense_predictions(draws, split, data):
    """The mean over draws of b + W m in stars, column by column in float64."""
    values = (split.train.values - data.centre) / data.scale
    total = np.zeros(split.test.values.size)
    for s in range(GIBBS["draws"]):
        one = jax.tree.map(lambda x: np.asarray(x[s], float), draws)
        w, b, matrix = one.loadings, one.intercepts, np.zeros((12, 20))
        noise = np.broadcast_to(one.sigma * one.noise_scales, 20)
        for n in range(20):
            own = split.train.column == n
            films = split.train.row[own]
            seen, variance = w[films], noise[n] ** 2
            precision = np.eye(w.shape[1]) + seen.T @ seen / variance
            mean = np.linalg.solve(precision, seen.T @ (values[own] - b[films]) / variance)
            matrix[:, n] = b + w @ mean
        total += matrix[split.test.row, split.test.column]
    return data.centre + data.scale * total / GIBBS["draws"]


def test_predictions_are_the_dense_ones_of_the_same_draws():
    split = splits.make_split(made_up(12, 20, seen=0.5), "90", held=15)
    data = heldout.standardise(split.train)
    seen = np.asarray(data.observations.average())[np.asarray(data.observations.seen())]
    np.testing.assert_allclose([seen.mean(), seen.std()], [0.0, 1.0], atol=1e-5)
    fit = heldout.make_fit(heldout.make_belief(3, {"common": 1.0}, GIBBS))
    found = heldout.predict_values(1000, fit, data, split.test)
    draws = fit(jax.random.key(1000), data.observations)
    assert draws.loadings.shape == (6, 12, 3)
    assert draws.noise_scales.shape == (6, 20)
    np.testing.assert_allclose(found, dense_predictions(draws, split, data), rtol=1e-4)
    # One noise for all columns.
    even = draws._replace(noise_scales=np.ones(6, np.float32))
    found = heldout.predict_values(1000, lambda key, seen: even, data, split.test)
    np.testing.assert_allclose(found, dense_predictions(even, split, data), rtol=1e-4)


def test_settings_replace_those_of_the_preset(monkeypatch):
    given = {}
    monkeypatch.setattr(heldout.presets.Preset, "belief", lambda self: given.update(p=self))
    heldout.make_belief(3, {"common": 1.0}, GIBBS)
    preset = given["p"]
    assert (preset.rank, preset.standardise, preset.gibbs) == (3, False, GIBBS)
    assert (preset.model["common"], preset.model["loadings"]) == (1.0, "signed")


def test_settings_of_the_model_come_from_one_flag():
    text = "noise_spread=0.25 common=10 fixed_noise=None loadings=signed"
    expected = {"noise_spread": 0.25, "common": 10, "fixed_noise": None, "loadings": "signed"}
    assert heldout.parse_settings(text) == expected
    assert heldout.parse_settings("") == {}
    with pytest.raises(ValueError, match="'common' is not a name=value"):
        heldout.parse_settings("common")


def line(tool, seed, error, **others):
    run = {"tool": tool, "split": "5", "features": False, "rank": 16, "samples": 8, "settings": {}}
    outcome = {"rmse": error, "seconds": 2.0, "cpu_seconds": 3.0, "peak_MiB": 100 + seed}
    return {**run, "seed": seed, **outcome, **others}


def test_runs_are_kept_and_compared_by_their_means_over_seeds(tmp_path):
    path = tmp_path / "new" / "runs.jsonl"
    assert heldout_data.read_lines(path) == []
    runs = [line("a", 0, 0.9), line("b", 0, 0.8, features=True), line("a", 1, 0.94)]
    runs.append(line("a", 2, 0.5, rank=4))
    for one in runs:
        heldout_data.append(path, one)
    assert heldout_data.read_lines(path) == runs
    assert heldout_data.missing_seeds(path, line("a", 0, 0.0), range(3)) == [2]
    assert heldout_data.missing_seeds(path, line("a", 0, 0.0, settings={"x": 1}), [0]) == [0]
    groups = heldout.grouped(runs)
    assert [len(group) for group in groups] == [2, 1, 1]
    _, a, b, _ = heldout.table([groups[0], [], *groups[1:]]).splitlines()
    assert a.split() == ["a", "5", "16", "8", "2", "0.9200", "0.0200", "0.8468", "2", "3", "101"]
    assert b.split()[:7] == ["b,", "features", "5", "16", "8", "1", "0.8000"]


def test_the_folder_of_the_data_is_named(tmp_path, monkeypatch):
    task = splits.TASKS["5"]
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    assert heldout_data.data_folder(None, task) == tmp_path / "ml-1m"
    assert heldout_data.data_folder("there", task).name == "there"
    monkeypatch.delenv("SMC_DATA_DIR")
    with pytest.raises(SystemExit, match="--data=FOLDER"):
        heldout_data.data_folder(None, task)


def test_coats_are_rows_and_people_columns(tmp_path):
    (tmp_path / "user_item_features").mkdir()
    train, test = [[0, 5, 2], [1, 0, 0]], [[4, 0, 0], [0, 0, 3]]  # two people, three coats
    for name, stars in (("train", train), ("test", test)):
        np.savetxt(tmp_path / f"{name}.ascii", stars, fmt="%d")
    found = heldout_tables.read_coat(tmp_path)
    entries = [
        {*zip(x.row.tolist(), x.column.tolist(), x.values.tolist(), strict=True)} for x in found
    ]
    assert entries == [{(1, 0, 5.0), (2, 0, 2.0), (0, 1, 1.0)}, {(0, 0, 4.0), (2, 1, 3.0)}]
    assert (found.test.row_ids.size, found.test.column_ids.size) == (3, 2)
    items = tmp_path / "user_item_features" / "item_features"
    np.savetxt(f"{items}.ascii", np.eye(3), fmt="%d")
    items.with_name("item_features_map.txt").write_text("kind:a\nkind:b\ncolour:red\n")
    matrix, groups = heldout_tables.TASKS["coat"].row_features(tmp_path, found)
    np.testing.assert_array_equal(matrix, np.eye(3))
    assert groups == {"kind": 2, "colour": 1}


def test_a_sixth_of_davis_is_held_out_and_features_are_found_by_id(tmp_path):
    table = "drug,T1,T2,T3\nd1,5,6,7\nd2,8,9,10\nd3,1,2,3\nd4,4,5,6\n"
    (tmp_path / "davis_matrix_pKd.csv").write_text(table)
    bits = "drug,a,b,c\nd4,1,0,1\nd3,1,0,0\nd2,0,0,1\nd1,0,0,0\nother,0,1,0\n"
    (tmp_path / "drug_features_ecfp4_1024.csv").write_text(bits)
    split = heldout_tables.read_davis(tmp_path)
    values = np.array([[5, 8, 1, 4], [6, 9, 2, 5], [7, 10, 3, 6]], float)
    assert (split.test.values.size, split.train.values.size) == (2, 10)
    for part in split:
        np.testing.assert_array_equal(part.values, values[part.row, part.column])
    held = np.random.RandomState(0).permutation(12)[:2]
    np.testing.assert_array_equal(split.test.row * 4 + split.test.column, held)
    matrix, _ = heldout_tables.TASKS["davis"].column_features(tmp_path, split)
    # In the order of the drugs; the bit that none of them has is left out, the others are scaled.
    np.testing.assert_allclose(matrix, [[-1, -1], [-1, 1], [1, -1], [1, 1]])


@pytest.mark.parametrize("name", ["90", "users", "films"])
def test_settings_are_chosen_on_a_part_of_the_training_values(name):
    train = made_up(20, 30, seen=0.5)
    inside = heldout_data.inner(splits.TASKS[name], train)
    entries = [{*zip(x.row, x.column, strict=True)} for x in inside]
    assert not entries[0] & entries[1]
    assert len(entries[0] | entries[1]) == train.values.size
    both = {"users": (train.column, inside.test.column), "films": (train.row, inside.test.row)}
    if name == "90":
        assert inside.test.values.size == train.values.size // 10
    else:  # all that there is of a tenth of them
        every, held = both[name]
        assert np.unique(held).size == np.unique(every).size // 10
        assert np.isin(every, held).sum() == held.size


def test_tenths_of_the_training_values_are_held_out_in_turn():
    train = made_up(20, 30, seen=0.5)
    held = [heldout_data.inner(splits.TASKS["90"], train, part).test for part in range(10)]
    entries = [{*zip(x.row, x.column, strict=True)} for x in held]
    assert len(set().union(*entries)) == sum(map(len, entries)) == 10 * (train.values.size // 10)


def test_values_that_people_chose_are_weighted_by_how_likely_that_was(tmp_path):
    np.savetxt(tmp_path / "propensities.ascii", [[0.5, 0.1, 0.2], [0.25, 0.1, 0.4]])
    values = heldout_data.Values(
        np.array([2, 0]), np.array([0, 1]), np.zeros(2), *2 * [np.zeros(0)]
    )
    np.testing.assert_allclose(heldout_tables.coat_weights(tmp_path, values), [5.0, 4.0])
    found = heldout_data.rmse(np.array([1.0, 3.0]), np.array([1.0, 1.0]), (0.0, 9.0), [3.0, 1.0])
    assert found == pytest.approx(1.0)


def test_of_several_settings_those_that_predict_best_are_taken(tmp_path, monkeypatch, capsys):
    errors = {"": 0.9, "common=0.0": 0.8, "offsets=True": 0.85}
    task, asked = splits.TASKS["90"], []

    def runs(study, model, seeds):
        asked.append((study.name, *seeds))
        assert study.split.test.values.size == study.weights.size == 8
        text = " ".join(f"{name}={value}" for name, value in model.items())
        return [line("smc_jax", 1000, errors[text])]

    monkeypatch.setattr(heldout.Study, "runs", runs)
    split = splits.make_split(made_up(12, 20, seen=0.5), "90", held=15)
    split = split._replace(train=split.train.at(np.arange(80)))
    monkeypatch.setattr(heldout, "PARTS", types.SimpleNamespace(value=1))
    study = heldout.Study(task, tmp_path, split, "90", tmp_path / "out.jsonl")
    assert heldout.best_settings(study, list(errors)) == "common=0.0"
    assert asked == [("90 inner 0", 1000)] * 3
    assert "inner RMSE 0.9000  nothing" in capsys.readouterr().out
    assert heldout.best_settings(study, ["offsets=True"]) == "offsets=True"
    assert len(asked) == 3


def test_large_tables_of_which_little_was_seen_are_lists(monkeypatch):
    train = made_up(12, 20, seen=0.5)
    dense = heldout.standardise(train)
    monkeypatch.setattr(heldout, "LARGE", 100)
    monkeypatch.setattr(heldout, "SPARSE", 0.9)
    lists = heldout.standardise(train)
    assert isinstance(lists.observations, Looks)
    assert lists[1:] == dense[1:]
    chex.assert_trees_all_close(lists.observations.dense(), dense.observations, atol=1e-6)
