"""Any table of row, column, rating: delimited text, plain or gzipped, or Parquet."""

import csv
import gzip
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from smc_jax.data.ratings import DataError, Ratings, from_triplets

DELIMITERS = (",", "\t", ";", "::")
QUOTED = (",", "\t", ";")  # with the others a quotation mark is a letter like any
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

Columns = tuple[int | str, int | str, int | str]
Place = Callable[[int], str]  # of the i-th rating, for an error
Triplets = tuple[np.ndarray, np.ndarray, np.ndarray, Place]


def read_table(
    path: str | PathLike[str],
    *,
    member: str | None = None,
    columns: Columns = (0, 1, 2),
    delimiter: str | None = None,
    header: bool | None = None,
    bounds: tuple[float, float] | None = None,
    duplicates: str = "error",
    encoding: str = "utf-8",
) -> Ratings:
    """Ratings from a text file (also gzipped) or, by its suffix, a `.parquet` one.

    In a text, ids that are all plain integers come back as int64, others just as written.

    Args:
      path: the file, or a zip with it.
      member: the name of the file in a zip, in whatever folder.
      columns: position or name of the row id, of the column id, and of the rating.
      delimiter: None takes the first of comma, tab, semicolon and `::` that splits the first
        line into three fields or more; what is in quotation marks does not count.
      header: whether the first line holds names; None finds out: its rating holds no digit and
        is not a mark of a missing value, and neither of its ids is a number.
      bounds: lowest and highest possible rating.
      duplicates: as in `from_triplets`.
      encoding: of the text.
    """
    path = Path(path)
    if path.suffix in (".parquet", ".pq"):
        triplets = _parse_parquet(path, columns)
    else:
        data, source = read_bytes(path, member)
        known = ""
        if delimiter is None:
            first = data.lstrip(b"\r\n").partition(b"\n")[0].decode(encoding, "replace")
            delimiter = _guess_delimiter(first)
            known = "; known delimiters are comma, tab, semicolon and ::"
        line, names = next(split_lines(data, source, delimiter, encoding))
        if len(names) < 3:
            raise DataError(f"{source}, line {line}: {len(names)} columns, not 3 or more{known}")
        positions = [_position(column, names, f"{source}, line {line}") for column in columns]
        if header is None:
            named = any(isinstance(column, str) for column in columns)
            header = named or _is_header(*(names[i].strip() for i in positions))
        layout = delimiter, line if header else 0, len(names), positions
        quick = _parse_integers(data, source, *layout)
        triplets = quick or _parse_any(data, source, *layout, encoding)
    rows, others, values, where = triplets
    return from_triplets(rows, others, values, bounds=bounds, duplicates=duplicates, where=where)


def read_bytes(path: Path, member: str | None = None) -> tuple[bytes, str]:
    """The content of a file, unpacked where it is gzipped or in a zip, and how errors call it."""
    source, data = str(path), path.read_bytes()
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in archive.namelist():
                    if name.rpartition("/")[2] == member:
                        source, data = f"{path}/{name}", archive.read(name)
                        break
                else:
                    held = ", ".join(archive.namelist())
                    raise DataError(f"{path}: no file named {member} in it, but {held}")
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise DataError(f"{source}: the zip is cut off or damaged: {error}") from None
    elif data.startswith(b"\x1f\x8b"):
        stream, parts = gzip.GzipFile(fileobj=io.BytesIO(data)), []
        try:
            while part := stream.read1(1 << 20):
                parts.append(part)
        except (EOFError, OSError, zlib.error):
            line = sum(part.count(b"\n") for part in parts) + 1
            raise DataError(f"{source}, line {line}: the gzip is cut off or damaged") from None
        data = b"".join(parts)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise DataError(f"{source}, line 1: the file is empty")
    return data, source


def split_lines(
    data: bytes, source: str, delimiter: str, encoding: str
) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line that is not blank."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{source}, line {line}: not {encoding} text", "encoding") from None
    stream = io.TextIOWrapper(io.BytesIO(data), encoding, newline="")
    if delimiter not in QUOTED:
        for line, content in enumerate(stream, 1):
            if content := content.rstrip("\r\n"):
                yield line, content.split(delimiter)
        return
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{source}, line {reader.line_num}: {error}") from None


def parse_number(text: str, place: str) -> float:
    """A decimal number; `float` would also take nan, inf, underscores and other digits."""
    if not NUMBER.fullmatch(text):
        raise DataError(f"{place}: {text!r} is not a finite number")
    return float(text)


def _guess_delimiter(first: str) -> str:
    bare = re.sub(r'"[^"]*"', "", first)
    for delimiter in DELIMITERS:
        if (bare if delimiter in QUOTED else first).count(delimiter) >= 2:
            return delimiter
    return ","


def _position(column: int | str, names: list[str], place: str) -> int:
    if isinstance(column, str):
        stripped = [name.strip() for name in names]
        if column not in stripped:
            known = ", ".join(stripped)
            raise DataError(f"{place}: no column {column!r} among {known}", "columns")
        return stripped.index(column)
    if not 0 <= column < len(names):
        raise DataError(f"{place}: {len(names)} columns, none at position {column}", "columns")
    return column


def _is_header(row: str, other: str, rating: str) -> bool:
    missing = rating.lower() in ("", "nan", "na", "n/a", "null", "none", "inf", "-inf", "infinity")
    worded = not missing and not re.search(r"\d", rating)
    return worded and not NUMBER.fullmatch(row) and not NUMBER.fullmatch(other)


def _parse_integers(
    data: bytes, source: str, delimiter: str, skip: int, width: int, positions: list[int]
) -> Triplets | None:
    """The fast path: every line has `width` fields and every id is a plain integer.

    None where that does not hold; `_parse_any` then reads the other ids or names the bad line.
    """
    mark, text = delimiter.encode(), data
    if len(mark) > 1 and b"\t" not in data:
        mark, text = b"\t", data.replace(mark, b"\t")
    # Read as integers, ids such as 007, +7 or -0 would not come back as they were.
    odd = rb"(?:-?0\d|-0(?!\.)|\+| )"
    if len(mark) > 1 or b'"' in text or re.match(odd, text):
        return None
    if re.search(rb"[\n" + re.escape(mark) + rb"]" + odd, text):
        return None
    kinds = ["S1"] * width  # the columns that nobody asked for, in the least space
    for position, kind in zip(positions, ("i8", "i8", "f8"), strict=True):
        kinds[position] = kind
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # no data; an id that is not an integer
            table = np.loadtxt(
                io.BytesIO(text),
                dtype=[(str(i), kind) for i, kind in enumerate(kinds)],
                delimiter=mark.decode(),
                comments=None,
                skiprows=skip,
                encoding="latin-1",
                ndmin=1,
            )
    except (ValueError, Warning):
        return None

    def where(i: int) -> str:
        # Blank lines hold no rating: number the others.
        filled = [n for n, line in enumerate(data.split(b"\n"), 1) if line.strip(b"\r")]
        return f"{source}, line {[n for n in filled if n > skip][i]}"

    row, other, value = (table[str(position)] for position in positions)
    return row, other, value, where


def _parse_any(
    data: bytes,
    source: str,
    delimiter: str,
    skip: int,
    width: int,
    positions: list[int],
    encoding: str,
) -> Triplets:
    rows, others, values, lines = [], [], [], []
    for line, fields in split_lines(data, source, delimiter, encoding):
        if line <= skip:
            continue
        place = f"{source}, line {line}"
        if len(fields) != width:
            raise DataError(f"{place}: {len(fields)} columns, not {width}")
        row, other, rating = (fields[position].strip() for position in positions)
        if not row or not other:
            raise DataError(f"{place}: an id is empty")
        rows.append(row)
        others.append(other)
        values.append(parse_number(rating, place))
        lines.append(line)
    if not lines:
        raise DataError(f"{source}, line {skip + 1}: no rating follows the header")

    def where(i: int) -> str:
        return f"{source}, line {lines[i]}"

    return _typed(rows), _typed(others), np.array(values), where


def _typed(ids: list[str]) -> np.ndarray:
    """int64 where that loses nothing, else the texts."""
    try:
        numbers = np.array([int(text) for text in ids], np.int64)
        if numbers.astype(str).tolist() == ids:
            return numbers
    except (ValueError, OverflowError):
        pass
    return np.array(ids, object)


def _parse_parquet(path: Path, columns: Columns) -> Triplets:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    with path.open("rb") as stream:
        try:
            table = pyarrow.parquet.read_table(stream)
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path}: not a whole Parquet file: {reason}") from None
    names = table.column_names
    chosen = [table.column(_position(column, names, str(path))) for column in columns]
    if table.num_rows == 0:
        raise DataError(f"{path}, row 1: the file is empty")
    kind = chosen[2].type
    of_numbers = pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_decimal
    if not any(is_kind(kind) for is_kind in of_numbers):
        raise DataError(f"{path}, row 1: the ratings are of type {kind}, not numbers")
    for column in chosen:
        if pyarrow.types.is_nested(column.type):
            raise DataError(f"{path}, row 1: ids of type {column.type}")
        missing = pyarrow.compute.is_null(column, nan_is_null=True).to_numpy()
        if missing.any():
            raise DataError(f"{path}, row {np.argmax(missing) + 1}: a missing value")
    rows, others, values = (column.to_numpy() for column in chosen)
    return rows, others, values.astype(np.float64), lambda i: f"{path}, row {i + 1}"
