"""Tables that are written come back as they were, whole or not at all."""

import math
import os

import numpy as np
import pytest
from tabling import records_of, refusal

from smc_jax.campaign.tables import read_records
from smc_jax.campaign.writing import write_table

SUFFIXES = pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
ODD_IDS = ["a", "A", "1,2-x", 'say "b"', "5-HT2A", "007", "c;d", "drüg", "NA", "=1"]


def values_of(count):
    values = np.random.default_rng(0).normal(size=count) * 10.0 ** np.arange(-5, count - 5)
    return [0.1 + 0.2, 1e30, -0.0, *values.tolist()][:count]


@SUFFIXES
def test_a_long_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    values = values_of(len(ODD_IDS))
    entries = list(zip(ODD_IDS, reversed(ODD_IDS), values, strict=True))
    lines = [(row, column, value, "ok", math.nan) for row, column, value in entries]
    unfilled = ("x", "y", None, None, 1.0)
    write_table(path, ["drug", "target", "value", "status", "mean"], [*lines, unfilled])
    records = read_records(path, names=("drug", "target", "pIC50"))
    assert records_of(records) == [(row, column, "value", value) for row, column, value in entries]
    assert records.row_ids == [*ODD_IDS, "x"]
    assert "1 line has no value yet." in records.notes


@SUFFIXES
def test_a_wide_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    values = np.array(values_of(10)).reshape(5, 2)
    values[1, 1] = math.nan
    rows, columns = ODD_IDS[:5], ODD_IDS[5:7]
    lines = ([row, *line] for row, line in zip(rows, values, strict=True))
    write_table(path, ["", *columns], lines)
    records = read_records(path)
    assert (records.row_ids, records.column_ids) == (rows, columns)
    assert records.values.tolist() == values[~np.isnan(values)].tolist()


def test_csv_has_the_shortest_digits_and_the_same_bytes_every_time(tmp_path):
    for name in ("a.csv", "a.csv.gz", "b.csv.gz"):
        line = ["x,y", 0.1, np.float32(0.1), np.float64(0.3), 7, None, math.nan]
        write_table(tmp_path / name, list("abcdefg"), [line])
    assert (tmp_path / "a.csv").read_bytes() == b'a,b,c,d,e,f,g\n"x,y",0.1,0.1,0.3,7,,\n'
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes()[4:8] == bytes(4)  # no time stamp


def test_a_table_is_written_through_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    write_table(tmp_path / "link.csv", ["a"], [[1]])
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "t.csv").read_text() == "a\n1\n"


def test_what_cannot_be_written_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("before")
    (tmp_path / "folder.csv").mkdir()

    def write(path):
        write_table(path, ["a"], [["b"]])

    def break_off(*_):
        raise OSError(28, "No space left on device")

    assert "end the name in .csv" in refusal(write, tmp_path / "t.xlsx")
    assert "(No such file or directory)" in refusal(write, tmp_path / "none" / "t.csv")
    assert "cannot be written" in refusal(write, tmp_path / "folder.csv")
    monkeypatch.setattr(os, "fsync", break_off)
    assert "(No space left on device)" in refusal(write, path)
    assert path.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "t.csv"]
