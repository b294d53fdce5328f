"""Jester: workbook and export, from files written here, and the real one where it is at hand."""

import gzip
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from smc_jax.data.download import ARCHIVES, fetch
from smc_jax.data.jester import JOKES, read_jester
from smc_jax.data.ratings import DataError


def a_table(users=6, seed=0):
    """Some complete users, one who rated nothing, and genuine zeros."""
    rng = np.random.default_rng(seed)
    ratings = np.round(rng.uniform(-10, 10, (users, JOKES)), 2)
    ratings[0, :3] = 0.0
    ratings[1, 5:] = 99.0
    ratings[1, 0] = 10.0
    ratings[2] = 99.0
    ratings[3, 7] = -10.0
    return np.column_stack([(ratings != 99).sum(1), ratings])


def csv_of(table):
    return "".join(",".join(f"{x:g}" for x in line) + "\r\n" for line in table).encode()


def workbook_of(table):
    """The oldest form of a workbook: one sheet, a plain sequence of records."""

    def record(kind, content):
        return struct.pack("<HH", kind, len(content)) + content

    records = [record(0x0009, struct.pack("<HH", 2, 0x10))]
    for i, line in enumerate(table):
        for j, cell in enumerate(line):
            place = struct.pack("<HH3x", i, j)
            if isinstance(cell, str):
                records.append(record(0x0004, place + bytes([len(cell)]) + cell.encode()))
            else:
                records.append(record(0x0003, place + struct.pack("<d", cell)))
    return b"".join([*records, record(0x000A, b"")])


def zipped(folder, content):
    with zipfile.ZipFile(folder / "jester.zip", "w") as archive:
        archive.writestr("jester-data-1.xls", content)
    return folder / "jester.zip"


def check(ratings, table):
    expected = table[:, 1:].T
    values, mask = ratings.dense()
    np.testing.assert_array_equal(mask, expected != 99)
    np.testing.assert_array_equal(values[mask], expected[mask].astype(np.float32))
    assert ratings.shape == (JOKES, len(table))  # jokes are the rows
    assert ratings.row_ids.tolist() == list(range(1, JOKES + 1))
    assert ratings.column_ids.tolist() == list(range(1, len(table) + 1))
    assert ratings.bounds == (-10.0, 10.0)


def test_export_as_text(tmp_path):
    table = a_table()
    content = csv_of(table)
    for name, data in {
        "j.csv": content,
        "j.csv.gz": gzip.compress(content),
        "bom.csv": b"\xef\xbb\xbf" + content.replace(b"\r\n", b"\n"),
        "quoted.csv": content.replace(b",99,", b',"99",'),
    }.items():
        (tmp_path / name).write_bytes(data)
        check(read_jester(tmp_path / name), table)


def test_workbook_in_a_zip_and_alone(tmp_path):
    table = a_table()
    check(read_jester(zipped(tmp_path, workbook_of(table))), table)
    (tmp_path / "jester-data-1.xls").write_bytes(workbook_of(table))
    check(read_jester(tmp_path / "jester-data-1.xls"), table)


def test_the_remarks_of_xlrd_are_not_printed(tmp_path):
    # In another process: xlrd binds standard output when it is imported.
    path = zipped(tmp_path, workbook_of(_replaced(3, 8, "funny")))  # texts make it remark
    program = f"from smc_jax.data.jester import read_jester; read_jester({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout == b""
    assert b"line 4: 'funny' is not a finite number" in done.stderr


def test_zero_is_a_rating_and_99_is_none(tmp_path):
    (tmp_path / "j.csv").write_bytes(csv_of(a_table()))
    ratings = read_jester(tmp_path / "j.csv")
    assert np.count_nonzero(ratings.value == 0) >= 3
    assert ratings.column_counts()[:3].tolist() == [100, 5, 0]
    assert ratings.value.max() == 10.0


def _replaced(row, column, value):
    table = a_table().tolist()
    table[row][column] = value
    return table


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (_replaced(3, 8, 10.5), "rating 10.5 of joke 8 is outside -10 to 10 and not 99"),
        (_replaced(3, 8, -99.0), "rating -99 of joke 8 is outside -10 to 10 and not 99"),
        (_replaced(3, 8, "nan"), "'nan' is not a finite number"),
        (_replaced(3, 8, "funny"), "'funny' is not a finite number"),
        (_replaced(3, 8, 99.0), "99 jokes are rated, but the first column says 100"),
        (_replaced(3, slice(50, 51), []), "100 columns, not 101"),
        (_replaced(3, slice(50, 51), [1.0, 1.0]), "102 columns, not 101"),
    ],
)
def test_errors_name_file_and_line(tmp_path, table, reason):
    path = tmp_path / "j.csv"
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in table))
    with pytest.raises(DataError, match=rf"^{path}, line 4: {reason}$"):
        read_jester(path)
    path = zipped(tmp_path, workbook_of(table))
    with pytest.raises(DataError, match=rf"^{path}/jester-data-1.xls, line 4: {reason}$"):
        read_jester(path)


def test_damaged_files(tmp_path):
    for content in (
        b"no workbook",
        workbook_of(a_table())[:3],
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    ):
        with pytest.raises(DataError, match=r"jester-data-1.xls: not a whole .xls [^\n]*$"):
            read_jester(zipped(tmp_path, content))
    with pytest.raises(DataError, match=r"jester-data-1.xls, line 1: the sheet is empty$"):
        read_jester(zipped(tmp_path, workbook_of([])))
    with pytest.raises(DataError, match=r"jester-data-1.xls, line 1: the file is empty$"):
        read_jester(zipped(tmp_path, b""))
    (tmp_path / "j.csv.gz").write_bytes(gzip.compress(csv_of(a_table(50)))[:-500])
    with pytest.raises(DataError, match=r"j.csv.gz, line \d+: the gzip is cut off or damaged$"):
        read_jester(tmp_path / "j.csv.gz")


def test_ratings_as_published():
    folder = os.environ.get("SMC_DATA_DIR")
    names = [ARCHIVES["jester"].name, *(name for name, _ in ARCHIVES["jester"].copies)]
    if not folder or not any((Path(folder) / name).exists() for name in names):
        pytest.skip("SMC_DATA_DIR names no folder with Jester")
    ratings = read_jester(fetch("jester", progress=False))
    assert ratings.shape == (100, 24_983)
    assert ratings.value.size == 1_810_455
    assert np.count_nonzero(ratings.value == 0) == 5_383
    assert ratings.value.min() == np.float32(-9.95)
    assert ratings.value.max() == 10.0
    complete = ratings.select(columns=np.flatnonzero(ratings.column_counts() == 100))
    assert complete.shape == (100, 7_200)
    assert round(complete.value.mean(dtype=float), 4) == 1.0971
    assert round(complete.value.std(dtype=float), 4) == 5.1966
