"""Completed blocks: ratings are kept, gaps are predicted by the best rank, within the bounds."""

import numpy as np
import pytest

from smc_jax.data import completed as module
from smc_jax.data.completed import cached_completion, completed
from smc_jax.data.ratings import from_triplets


def block(bounds=None):
    rng = np.random.default_rng(0)
    truth = 3.0 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60))
    mask = rng.random(truth.shape) < 0.6
    noisy = truth + 0.1 * rng.normal(size=truth.shape)
    if bounds is not None:
        noisy = np.clip(noisy, *bounds)
    row, column = np.nonzero(mask)
    return truth, mask, from_triplets(row, column, noisy[mask], bounds=bounds)


def test_gaps_are_predicted_by_the_rank_that_held_out_ratings_choose():
    truth, mask, ratings = block()
    found = completed(ratings, ranks=(1, 2, 6))
    np.testing.assert_array_equal(found.values[mask], ratings.value)
    assert found.rank == min(found.errors, key=found.errors.get) != 1
    assert found.errors[2] < 0.25 < 0.7 < found.errors[1]
    # The held-out ratings have noise, and their completion saw less.
    error = np.sqrt(np.mean((found.values - truth)[~mask] ** 2))
    assert error < found.errors[found.rank]


def test_progress_is_given_the_ranks_that_are_tried():
    _, _, ratings = block()
    told = []

    def progress(ranks):
        for rank in ranks:
            told.append(rank)
            yield rank

    assert list(completed(ratings, ranks=(1, 2, 99), progress=progress).errors) == told == [1, 2]


def test_predictions_stay_within_the_bounds():
    _, mask, ratings = block(bounds=(1.0, 5.0))
    found = completed(ratings, ranks=(2,))
    assert found.values.min() >= 1.0
    assert found.values.max() <= 5.0
    assert (found.values[~mask] == 5.0).any()


@pytest.fixture
def completions(monkeypatch):
    """The settings of each completion that is computed from here on."""
    made, compute = [], module.completed

    def record(ratings, **settings):
        made.append(settings)
        return compute(ratings, **settings)

    monkeypatch.setattr(module, "completed", record)
    return made


def assert_same(found, expected):
    assert found.values.dtype == expected.values.dtype
    assert found.values.tobytes() == expected.values.tobytes()
    assert (found.rank, found.errors) == (expected.rank, expected.errors)
    assert isinstance(found.rank, int)


def test_a_completion_is_computed_once(tmp_path, completions):
    *_, ratings = block(bounds=(1.0, 5.0))
    expected = completed(ratings, ranks=(1, 2))
    folder = tmp_path / "made" / "by the call"
    for _ in range(3):
        assert_same(cached_completion(ratings, folder, ranks=(1, 2)), expected)
        assert len(completions) == 1
    (kept,) = folder.iterdir()
    assert kept.suffix == ".npz"


def test_other_ratings_or_settings_are_another_completion(tmp_path, completions):
    *_, ratings = block()
    value = ratings.value.copy()
    value[7] += 0.5
    others = (
        (ratings, {}),
        (ratings._replace(value=value), {}),
        (ratings._replace(column=ratings.column[::-1]), {}),
        (ratings._replace(bounds=(-20.0, 20.0)), {}),
        (ratings.select(rows=range(39)), {}),
        (ratings, {"ranks": (1,)}),
        (ratings, {"held_out": 0.2}),
        (ratings, {"seed": 1}),
    )
    for number, (each, changed) in enumerate(others, 1):
        cached_completion(each, tmp_path, **({"ranks": (2,)} | changed))
        assert len(completions) == len(list(tmp_path.iterdir())) == number
    cached_completion(ratings, tmp_path, ranks=[2])
    assert len(completions) == len(others)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "folder"])
def test_a_damaged_file_is_computed_anew(tmp_path, completions, damage):
    *_, ratings = block()
    expected = cached_completion(ratings, tmp_path, ranks=(2,))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        cut = whole[: len(whole) // 2]
        wrong = {"cut": cut, "flipped": bytes(flipped), "empty": b"", "text": b"no archive"}
        path.write_bytes(wrong[damage])
    assert_same(cached_completion(ratings, tmp_path, ranks=(2,)), expected)
    assert len(completions) == 2
    if damage != "folder":
        assert list(tmp_path.iterdir()) == [path]
        assert_same(cached_completion(ratings, tmp_path, ranks=(2,)), expected)
        assert len(completions) == 2


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch, completions):
    *_, ratings = block()
    expected = completed(ratings, ranks=(2,))
    (tmp_path / "file").write_text("in the way")
    assert_same(cached_completion(ratings, tmp_path / "file", ranks=(2,)), expected)

    # Permissions do not stop every user.
    def full(*arguments, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.np, "savez", full)
    assert_same(cached_completion(ratings, tmp_path / "full", ranks=(2,)), expected)
    assert len(completions) == 2
    assert list((tmp_path / "full").iterdir()) == []
