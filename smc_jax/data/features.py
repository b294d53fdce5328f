"""Tables of what is known of ids beforehand: numbers and categories, some of them missing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smc_jax.data.ratings import DataError
from smc_jax.data.table import NUMBER, read_bytes, split_lines

BETWEEN_PARTS = "|"  # of an id that is made of several
MISSING = ("", "na", "n/a", "nan", "null", "none", "#n/a", "-", "?")  # marks, in small letters
ROUNDING = 1e-12  # a spread below this part of the largest number is no spread
LARGEST = 1e30
# A bound, a per cent sign, a decimal comma or a unit: nobody means a category by it.
LIKE_NUMBER = re.compile(
    r"[<>~\u2264\u2265]\s*[\d.].*|[+-]?[\d.]+\s*%|[+-]?\d+,\d+|[+-]?[\d.]+\s+\S{1,6}"
)


class FeatureCells(NamedTuple):
    """What a table of features says, cell by cell; a cell is empty where nothing is given."""

    names: list[str]  # of the features
    cells: dict[str, list[str]]  # by id
    source: str  # the file, for an error

    def columns(self, ids: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Each feature of some ids, or of all, by its name.

        Numbers are floats, NaN where nothing is given; texts are of categories, empty where
        nothing is.
        """
        nothing = [""] * len(self.names)
        lines = [self.cells.get(one, nothing) for one in (self.cells if ids is None else ids)]
        texts = np.array(lines, object).reshape(len(lines), len(self.names)).T
        return {
            name: _typed(own, f"{self.source}, column {name!r}")
            for name, own in zip(self.names, texts, strict=True)
        }


class FeatureTable(NamedTuple):
    """Features of some ids, and what was understood of their table."""

    matrix: np.ndarray  # [n, P]
    found: int  # ids that have a line
    numbers: list[str]  # the names of columns of numbers
    categories: list[str]  # the names of columns of categories


def read_features(path: str | PathLike[str], ids: Sequence[object] | np.ndarray) -> FeatureTable:
    """The features of some ids, from a text (also gzipped) or a `.parquet` file.

    A text has commas, tabs or semicolons. The first line has names, the first column ids. A column
    of numbers is standardised. A column of other texts is one of categories: each of them becomes a
    column of zeros and ones, which together have the variance of one number. A column with both is
    refused. A cell that is empty or a mark such as NA, and an id without a line, has the mean of
    its column, which is 0: nothing is known there. Lines of other ids are passed over.

    Args:
      path: the file.
      ids: those wanted, in their order; they are compared as texts.
    """
    wanted = [str(one) for one in ids]
    table = read_cells(path)
    found = sum(name in table.cells for name in wanted)
    if not found:
        raise DataError(f"{path}: no line is of one of the {len(wanted)} ids, such as {wanted[0]}")
    columns = table.columns(wanted)
    numbers = [name for name, own in columns.items() if own.dtype == float]
    categories = [name for name in columns if name not in numbers]
    return FeatureTable(matrix_of_columns(columns), found, numbers, categories)


def read_cells(path: str | PathLike[str]) -> FeatureCells:
    """All lines of a table of features, as `read_features` takes it."""
    path = Path(path)
    (_, header), *lines = read_lines(path)
    while len(header) > 2 and not header[-1] and not any(fields[-1] for _, fields in lines):
        header = header[:-1]  # a comma at the end of every line
        lines = [(place, fields[: len(header)]) for place, fields in lines]
    return FeatureCells(header[1:], _by_id(header, lines, str(path)), str(path))


def matrix_of_columns(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The features [n, P] of columns [n], as `FeatureCells.columns` has them."""
    return np.column_stack(
        [_numbers(own) if own.dtype == float else _categories(own) for own in columns.values()]
    )


def features_of_parts(ids: Sequence[object] | np.ndarray) -> np.ndarray:
    """The features [n, P] of ids that are made of parts, such as `ligand|base`.

    Each part is a category, as in `read_features`.
    """
    parts = [str(one).split(BETWEEN_PARTS) for one in ids]
    if len({len(one) for one in parts}) > 1:
        raise DataError(f"ids: they must have as many parts each, between {BETWEEN_PARTS!r}")
    return np.column_stack(
        [_categories(np.array(part, object)) for part in zip(*parts, strict=True)]
    )


def _typed(texts: np.ndarray, place: str) -> np.ndarray:
    """A column as numbers or as it is; refused where it has both, or numbers with something on."""
    given = [text for text in texts if text]
    is_number = [bool(NUMBER.fullmatch(text)) for text in given]
    for text, number in zip(given, is_number, strict=True):
        if number and not abs(float(text)) <= LARGEST:
            raise DataError(f"{place}: {text[:20]!r} is too large a number")
        if not number and (any(is_number) or LIKE_NUMBER.fullmatch(text)):
            raise DataError(
                f"{place}: {text[:40]!r} is no number; write numbers alone, such as 4.5, in all"
                " cells, or texts in all"
            )
    if given and not any(is_number):
        return texts
    return np.array([float(text) if text else np.nan for text in texts], float)


def _numbers(values: np.ndarray) -> np.ndarray:
    """A column of numbers as [n, 1] of mean 0 and variance 1; zeros where nothing is given."""
    given = ~np.isnan(values)
    numbers = values[given]
    found = np.zeros((len(values), 1))
    if numbers.size and numbers.std() > ROUNDING * np.abs(numbers).max():
        found[given, 0] = (numbers - numbers.mean()) / numbers.std()
    return found


def _categories(texts: np.ndarray) -> np.ndarray:
    """A column [n] of each category, together of variance 1; zeros where nothing is given."""
    given = texts != ""
    is_one = (texts[:, None] == np.unique(texts[given].astype(str))).astype(float)
    if not is_one.size:
        return is_one
    centred = np.where(given[:, None], is_one - is_one[given].mean(0), 0.0)
    variance = (centred[given] ** 2).mean(0).sum()
    return centred / np.sqrt(variance) if variance > 0.0 else centred


Lines = list[tuple[str, list[str]]]  # each with its place


def read_lines(path: Path) -> Lines:
    """The lines of a text or of a Parquet file, names first."""
    return _parquet(path) if path.suffix in (".parquet", ".pq") else _text(path)


def _text(path: Path) -> Lines:
    """The lines of a text, names first."""
    data, source = read_bytes(path)
    first = data.lstrip(b"\r\n").partition(b"\n")[0]
    delimiter = max(",\t;", key=lambda mark: first.count(mark.encode()))
    return [
        (f"{source}, line {line}", [text.strip() for text in fields])
        for line, fields in split_lines(data, source, delimiter, "utf-8")
    ]


def _parquet(path: Path) -> Lines:
    """The same of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a whole Parquet file: {reason}") from None
    columns = [["" if x is None else str(x) for x in c.to_pylist()] for c in table.columns]
    lines = [[text.strip() for text in fields] for fields in zip(*columns, strict=True)]
    return [(f"{path}, row {i}", fields) for i, fields in enumerate([table.column_names, *lines])]


def _by_id(header: list[str], lines: Lines, source: str) -> dict[str, list[str]]:
    """What follows the id on each line, by id; empty where it is a mark of a missing value."""
    if len(set(header)) < len(header):
        raise DataError(f"{source}, line 1: two columns have one name")
    if len(header) < 2:
        raise DataError(
            f"{source}, line 1: no feature follows the ids; write commas, tabs or semicolons"
            " between them"
        )
    if not lines:
        raise DataError(f"{source}, line 1: no line follows the first one")
    for name in header[1:]:
        if not name or NUMBER.fullmatch(name):
            said = f"{name!r} is a number" if name else "a name is missing"
            raise DataError(f"{source}, line 1: must have the names of the features; {said}")
    found: dict[str, list[str]] = {}
    for place, (name, *fields) in lines:
        if not any((name, *fields)):
            continue  # as spreadsheets leave them at the end
        if len(fields) + 1 != len(header):
            raise DataError(f"{place}: {len(fields) + 1} columns, not {len(header)}")
        if not name:
            raise DataError(f"{place}: an id is empty")
        if name in found:
            raise DataError(f"{place}: the id {name!r} occurs twice")
        found[name] = ["" if text.lower() in MISSING else text for text in fields]
    return found
