"""Tables of what is known of ids beforehand: numbers and categories, some of them missing."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.data.ratings import DataError
from smc_jax.data.table import NUMBER, read_bytes, split_lines

BETWEEN_PARTS = "|"  # of an id that is made of several


def read_features(path: str | PathLike[str], ids: Sequence[object] | np.ndarray) -> np.ndarray:
    """The features [n, P] of some ids, from a CSV file (also gzipped) or a `.parquet` one.

    The first line has names, the first column ids. A column of numbers is standardised. A column
    with any other text is one of categories: each of them becomes a column of zeros and ones, which
    together have the variance of one number. An empty cell, and an id without a line, has the mean
    of its column, which is 0: nothing is known there. Lines of other ids are passed over.

    Args:
      path: the file.
      ids: those wanted, in their order; they are compared as texts.
    """
    path = Path(path)
    known = _by_id(_parquet(path) if path.suffix in (".parquet", ".pq") else _text(path))
    names = [str(one) for one in ids]
    if not any(name in known for name in names):
        raise DataError(f"{path}: no line is of one of the {len(names)} ids, such as {names[0]}")
    nothing = [""] * len(next(iter(known.values())))
    cells = np.array([known.get(name, nothing) for name in names], object)
    return np.column_stack([_column(texts) for texts in cells.T])


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


def _column(texts: np.ndarray) -> np.ndarray:
    """One column of the table as numbers [n, p] of mean 0."""
    given = texts != ""
    if not all(NUMBER.fullmatch(text) for text in texts[given]):
        return _categories(texts)
    numbers = np.array([float(text) for text in texts[given]])
    found = np.zeros((len(texts), 1))
    spread = numbers.std() if numbers.size else 0.0
    if spread > 0.0:
        found[given, 0] = (numbers - numbers.mean()) / spread
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


def _text(path: Path) -> Lines:
    """The lines of a text, names first."""
    data, source = read_bytes(path)
    return [
        (f"{source}, line {line}", [text.strip() for text in fields])
        for line, fields in split_lines(data, source, ",", "utf-8")
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
    lines = [list(fields) for fields in zip(*columns, strict=True)]
    return [(f"{path}, row {i}", fields) for i, fields in enumerate([table.column_names, *lines])]


def _by_id(lines: Lines) -> dict[str, list[str]]:
    """What follows the id on each line, by id."""
    (first, header), *rest = lines
    if len(header) < 2:
        raise DataError(f"{first}: no feature follows the ids")
    if not rest:
        raise DataError(f"{first}: no line follows the first one")
    found: dict[str, list[str]] = {}
    for place, (name, *fields) in rest:
        if len(fields) + 1 != len(header):
            raise DataError(f"{place}: {len(fields) + 1} columns, not {len(header)}")
        if not name:
            raise DataError(f"{place}: an id is empty")
        if name in found:
            raise DataError(f"{place}: the id {name!r} occurs twice")
        found[name] = fields
    return found
