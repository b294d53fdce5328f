"""MovieLens: every layout, from files written here, and the real ML-1M where it is at hand."""

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from smc_jax.data.download import ARCHIVES, fetch
from smc_jax.data.movielens import RELEASES, read_movielens, read_titles
from smc_jax.data.ratings import DataError, densest_block, from_triplets

# User, film, stars: gaps in both ids.
WHOLE = [(1, 1193, 5.0), (1, 7, 3.0), (40, 1193, 1.0), (6040, 7, 4.0)]
HALVES = [(1, 1193, 4.5), (1, 7, 0.5), (40, 1193, 5.0), (6040, 7, 3.5)]
TITLES = {7: "Amélie, or: le fabuleux destin (2001)", 1193: 'The "Nest" (1975)', 3952: "Ürga"}


def _csv(rows):
    quoted = ([f'"{str(x).replace(chr(34), 2 * chr(34))}"' for x in row] for row in rows)
    return "".join(",".join(row) + "\r\n" for row in quoted)


def _dat(rows, separator="::"):
    return "".join(separator.join(str(field) for field in row) + "\n" for row in rows)


def whole(ratings):
    return [(u, m, int(r), 978300760) for u, m, r in ratings]


LAYOUTS = {
    "ml-100k": (
        WHOLE,
        {
            "u.data": _dat(whole(WHOLE), "\t").encode(),
            "u1.base": b"not this one",
            "u.item": _dat([(m, t, "x", "", "0") for m, t in TITLES.items()], "|").encode(
                "latin-1"
            ),
        },
    ),
    "ml-1m": (
        WHOLE,
        {
            "ratings.dat": _dat(whole(WHOLE)).encode(),
            "movies.dat": _dat([(m, t, "Drama") for m, t in TITLES.items()]).encode("latin-1"),
        },
    ),
    "ml-10m": (
        HALVES,
        {
            "ratings.dat": _dat([(*r, 838985046) for r in HALVES]).encode(),
            "movies.dat": _dat([(m, t, "Drama") for m, t in TITLES.items()]).encode(),
        },
    ),
}
for _name in ("ml-20m", "ml-25m", "ml-latest-small"):
    LAYOUTS[_name] = (
        HALVES,
        {
            "ratings.csv": b"userId,movieId,rating,timestamp\r\n"
            + "".join(f"{u},{m},{r},964982703\r\n" for u, m, r in HALVES).encode(),
            "movies.csv": b"movieId,title,genres\r\n"
            + _csv([(m, t, "Drama") for m, t in TITLES.items()]).encode(),
        },
    )


def unpack(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def triplets(ratings):
    rows, columns = ratings.row_ids[ratings.row], ratings.column_ids[ratings.column]
    return sorted(zip(columns.tolist(), rows.tolist(), ratings.value.tolist(), strict=True))


def test_every_release_has_a_test():
    assert set(LAYOUTS) == set(RELEASES)


@pytest.mark.parametrize("release", LAYOUTS)
def test_layouts_from_folder_zip_and_file(tmp_path, release):
    expected, files = LAYOUTS[release]
    folder = unpack(tmp_path / release, files)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in files:
            archive.write(folder / name, f"{release.upper()}/{name}")
    ratings_file = folder / RELEASES[release].ratings
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(ratings_file.read_bytes()))
    for path in (folder, tmp_path / "a.zip", ratings_file, packed):
        ratings = read_movielens(path, release)
        assert triplets(ratings) == sorted(expected)
        assert ratings.row_ids.tolist() == [7, 1193]  # films are the rows
        assert ratings.column_ids.tolist() == [1, 40, 6040]
        assert ratings.bounds == (RELEASES[release].lowest, 5.0)
    for path in (folder, tmp_path / "a.zip", ratings_file):
        assert read_titles(path, release) == TITLES


def test_the_time_stamp_may_be_missing(tmp_path):
    (tmp_path / "ratings.dat").write_text("1::7::3\n2::7::4\n")
    assert read_movielens(tmp_path, "ml-1m").value.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("release", "text", "reason"),
    [
        ("ml-1m", "1::7::3::9\n1::8::0.5::9\n", "line 2: rating 0.5 is outside 1 to 5"),
        ("ml-1m", "1::7::3::9\n1:8::4::9\n", "line 2: 3 columns, not 4"),
        ("ml-1m", "1::7::3::9\n1::7::4::9\n", "line 2: the pair 7, 1 was already rated at .* 1"),
        ("ml-10m", "1::7::3::9\n1::8::5.5::9\n", "line 2: rating 5.5 is outside 0.5 to 5"),
        ("ml-10m", "1::7::3::9\n1::8::nan::9\n", "line 2: rating nan is not a finite number"),
        ("ml-100k", "1\t7\t3\t9\n1\t8\tfour\t9\n", "line 2: 'four' is not a finite number"),
        ("ml-25m", "1,7,3,9\n", "line 1: no column 'movieId' among 1, 7, 3, 9"),
        ("ml-25m", "userId,movieId,rating,timestamp\r\n1,7,\r\n", "line 2: 3 columns, not 4"),
    ],
)
def test_errors_name_file_and_line(tmp_path, release, text, reason):
    path = tmp_path / RELEASES[release].ratings
    path.write_bytes(text.encode())
    with pytest.raises(DataError, match=rf"^{path}, {reason}$"):
        read_movielens(tmp_path, release)


def test_duplicates_by_keyword(tmp_path):
    (tmp_path / "ratings.dat").write_text("1::7::3::9\n1::7::4::9\n")
    assert read_movielens(tmp_path, "ml-1m", duplicates="last").value.tolist() == [4.0]


def test_titles_errors(tmp_path):
    (tmp_path / "movies.dat").write_text("1::One::Drama\nTwo::Drama\n")
    with pytest.raises(DataError, match=r"movies.dat, line 2: not a film's id, title and genres$"):
        read_titles(tmp_path, "ml-1m")
    with pytest.raises(ValueError, match=r"release: unknown 'ml-2m'; choose from ml-100k, ml-1m"):
        read_titles(tmp_path, "ml-2m")


def test_block_takes_the_most_rated_and_breaks_ties_by_id():
    mask = np.array(
        [
            [1, 0, 1, 1, 0],  # film 0: three
            [1, 1, 1, 1, 1],  # film 1: five
            [0, 1, 1, 0, 1],  # film 2: three, after film 0
            [0, 0, 0, 0, 1],
        ],
        bool,
    )
    row, column = np.nonzero(mask)
    ratings = from_triplets(row, column, np.arange(row.size))
    block = densest_block(ratings, rows=2, columns=3)
    assert block.row_ids.tolist() == [1, 0]
    assert block.column_ids.tolist() == [0, 2, 3]  # who rated both; users 1 and 4 rated one
    values, seen = block.dense()
    np.testing.assert_array_equal(values, ratings.dense()[0][[1, 0]][:, [0, 2, 3]])
    assert seen.all()
    with pytest.raises(DataError, match=r"rows, columns: \(4, 5\) is less than \(100, 1000\)"):
        densest_block(ratings, 100, 1000)


def test_block_has_the_same_order_on_every_machine():
    counts = np.random.default_rng(0).integers(1, 4, 300)  # many ties
    row = np.repeat(np.arange(300), counts)
    column = np.concatenate([np.arange(n) for n in counts])
    block = densest_block(from_triplets(row, column, row), rows=200, columns=3)
    assert block.row_ids.tolist() == sorted(range(300), key=lambda i: (-counts[i], i))[:200]


def test_million_ratings_as_published():
    folder = os.environ.get("SMC_DATA_DIR")
    names = [ARCHIVES["ml-1m"].name, *(name for name, _ in ARCHIVES["ml-1m"].copies)]
    if not folder or not any((Path(folder) / name).exists() for name in names):
        pytest.skip("SMC_DATA_DIR names no folder with ML-1M")
    path = fetch("ml-1m", progress=False)
    ratings = read_movielens(path, "ml-1m")
    assert ratings.shape == (3706, 6040)
    stars, counts = np.unique(ratings.value, return_counts=True)
    assert stars.tolist() == [1, 2, 3, 4, 5]
    assert counts.tolist() == [56_174, 107_557, 261_197, 348_971, 226_310]
    assert ratings.value.size == 1_000_209
    titles = read_titles(path, "ml-1m")
    assert len(titles) == 3883
    assert set(ratings.row_ids.tolist()) <= set(titles)
    assert "Misérables, Les (1995)" in titles.values()
    block = densest_block(ratings, 100, 1000)
    assert block.shape == (100, 1000)
    assert round(block.dense()[1].mean(), 3) == 0.710
