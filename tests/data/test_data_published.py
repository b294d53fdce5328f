"""Published matrices: made-up files, and the real ones where they are at hand."""

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

from smc_jax.data.published import PUBLISHED, Published, read_published
from smc_jax.data.ratings import DataError

CONTENT = b"x,u,v,w\nb,0.25,,1\na,0.5,0.75,0\n"
LINES = np.array([[0.25, np.nan, 1.0], [0.5, 0.75, 0.0]])


def put(folder, monkeypatch, name="made_up", **settings):
    """A made-up matrix under the path and the checksum that the registry has."""
    checksum = hashlib.sha256(CONTENT).hexdigest()
    source = Published("some/matrix.csv", checksum, "Somebody, Journal 1:1", **settings)
    monkeypatch.setitem(PUBLISHED, name, source)
    (folder / "some").mkdir(exist_ok=True)
    (folder / source.path).write_bytes(CONTENT)
    return folder / source.path


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("one_minus", [False, True])
def test_rows_columns_and_values_are_turned_as_the_registry_says(
    tmp_path, monkeypatch, turned, one_minus
):
    put(tmp_path, monkeypatch, turned=turned, one_minus=one_minus)
    ratings = read_published("made_up", tmp_path)
    expected, ids = (LINES.T, ("uvw", "ba")) if turned else (LINES, ("ba", "uvw"))
    expected = 1 - expected if one_minus else expected
    values, mask = ratings.dense()
    np.testing.assert_array_equal(mask, ~np.isnan(expected))
    np.testing.assert_array_equal(values[mask], expected[mask])
    assert (ratings.row_ids.tolist(), ratings.column_ids.tolist()) == tuple(map(list, ids))
    assert ratings.value.dtype == np.float32


def test_the_folder_is_that_of_the_environment(tmp_path, monkeypatch):
    put(tmp_path, monkeypatch)
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    assert read_published("made_up").shape == (2, 3)
    with pytest.raises(DataError, match="No such file"):
        read_published("made_up", tmp_path / "some")


@pytest.mark.parametrize(
    ("spoil", "trouble"),
    [
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: path.write_bytes(CONTENT + b"c,1,1,1\n"), "the file has another checksum"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
    ids=["missing", "another", "folder"],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, monkeypatch, spoil, trouble):
    path = put(tmp_path, monkeypatch)
    spoil(path)
    told = (
        f"{path}: {trouble}; put some/matrix.csv, with the SHA-256"
        f" {hashlib.sha256(CONTENT).hexdigest()}, into the folder that SMC_DATA_DIR names; its"
        " values were published by Somebody, Journal 1:1"
    )
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        read_published("made_up", tmp_path)


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"^name: unknown 'x'; choose from davis, pkis1, arylat"):
        read_published("x")


@pytest.mark.parametrize(
    ("name", "author", "repository"),
    [
        ("davis", "Davis et al., Nature Biotechnology", "hkmztrk/DeepDTA"),
        ("pkis1", "Drewry et al., PLoS ONE", "SpencerEricksen/informers"),
        ("arylation", "Shields et al., Nature", "b-shields/edbo"),
        ("buchwald", "Doyle, Science", "rxn4chemistry/rxn_yields"),
        ("oboe", "Udell, KDD", "udellgroup/oboe"),
    ],
)
def test_the_line_names_authors_journal_and_repository(tmp_path, name, author, repository):
    with pytest.raises(DataError) as caught:
        read_published(name, tmp_path)
    for part in (str(tmp_path / PUBLISHED[name].path), "SMC_DATA_DIR", author, repository):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def real(name):
    folder = os.environ.get("SMC_DATA_DIR")
    if not folder or not (Path(folder) / PUBLISHED[name].path).exists():
        pytest.skip(f"SMC_DATA_DIR names no folder with {PUBLISHED[name].path}")
    return read_published(name)


@pytest.mark.parametrize(
    ("name", "shape", "number", "mean", "deviation", "corner"),
    [
        ("davis", (442, 68), 30_056, 5.452, 0.895, ("AAK1", "11314340", 7.366532)),
        ("pkis1", (224, 366), 81_984, 9.88, 17.86, ("ABL1", "CID6539592", 13.97)),
        ("arylation", (48, 36), 1_728, 19.4, 24.6, ("L01|B01", "S01|0.057|105", 0.0)),
        ("buchwald", (45, 88), 3_955, 33.09, 27.29, ("H01|B01", "A01|L01", 25.83457198)),
        ("oboe", (219, 418), 91_542, 1 - 0.2565, None, ("p000", "3", 1 - 0.034651581925674)),
    ],
)
def test_matrices_as_published(name, shape, number, mean, deviation, corner):
    ratings = real(name)
    assert ratings.shape == shape
    assert ratings.value.size == number
    places = len(str(mean).partition(".")[2]) if name != "oboe" else 4
    assert round(ratings.value.mean(dtype=float), places) == round(mean, places)
    if deviation is not None:
        assert round(ratings.value.std(dtype=float), places) == deviation
    assert (ratings.row_ids[0], ratings.column_ids[0]) == corner[:2]
    np.testing.assert_allclose(ratings.dense()[0][0, 0], corner[2], rtol=1e-6)


def test_what_is_known_of_their_values():
    davis = real("davis").value
    assert np.count_nonzero(davis == 5.0) == np.count_nonzero(davis <= 5.0) == 20_931
    assert round(float(davis.max()), 3) == 10.796
    pkis1 = real("pkis1").value
    assert (pkis1.min(), pkis1.max()) == (0.0, 100.0)
    assert round(np.mean(real("arylation").value == 0.0), 3) == 0.286
    oboe = real("oboe").value
    assert np.count_nonzero(oboe == 1.0) == 2_035
    assert np.count_nonzero(oboe == 0.5) == 6_833
    assert round(float(oboe.min()), 3) == 0.065


def test_five_reactions_do_not_exist():
    ratings = real("buchwald")
    rows, columns = np.nonzero(~ratings.dense()[1])
    blanks = zip(ratings.row_ids[rows], ratings.column_ids[columns], strict=True)
    assert list(blanks) == [
        ("H01|B03", "A15|L02"),
        ("H07|B01", "A02|L02"),
        ("H07|B01", "A03|L02"),
        ("H11|B03", "A15|L02"),
        ("H14|B01", "A03|L01"),
    ]
