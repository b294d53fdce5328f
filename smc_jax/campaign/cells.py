"""The cells of a file as text, and what each of them says."""

import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from smc_jax.campaign.types import NO_ANSWER, CampaignError
from smc_jax.data.ratings import DataError
from smc_jax.data.table import NUMBER, split_lines

LIMIT = 2 * 10**9  # bytes, unpacked
LARGEST = 1e30  # in float32 there is room above it, for sums
DELIMITERS = ("\t", ";", ",")
# Control characters, and characters without a width: two ids that look alike would differ.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\u2060\ufeff]")
PARQUET = (".parquet", ".pq")

EMPTY = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "?")
WORDS = {
    **dict.fromkeys(EMPTY, ""),
    **dict.fromkeys(("failed", "fail", "error"), "failed"),
    "pending": "pending",
    **dict.fromkeys(("withdrawn", "cancelled", "canceled"), "withdrawn"),
    **dict.fromkeys((NO_ANSWER, "unanswered"), NO_ANSWER),
}
BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")  # blanks, or what is written in place of one
STATUSES = {**WORDS, **dict.fromkeys(("ok", "done", "measured"), "value")}

EXPONENT = r"([eE][+-]?\d+)?"
COMMA = re.compile(r"[+-]?\d*,\d+" + EXPONENT, re.ASCII)  # a decimal comma
PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
# What a cell that is no number looks like, and the mistake with its fix; the first match counts.
COMPLAINTS = (
    (r"#[A-Z/0]+[!?]?", "is an error of a spreadsheet: mend its formula, or empty the cell"),
    (
        r"[<>≤≥~≈].*",
        "is a bound or an estimate, and the model has no censored values yet: write the bound "
        "itself as a number, or empty the cell",
    ),
    (r"=.*", "is a formula: write what it amounts to"),
    (r"[+-]?(inf|infinity|∞)", "is not a finite number: write a finite one, or empty the cell"),
    (r".*\d\s*%", "is a percentage: write the number alone, as 45 or as 0.45 in the whole table"),
    (r"[\u2212\u2013].*\d.*", "has a minus sign that is not the plain one: write -"),
    (r"\d+[-/.]\d+[-/.]\d+", "looks like a date: write the number that was measured"),
    (
        r"[+-]?\d{1,3}([,.' \xa0\u202f]\d{3})*[,.' \xa0\u202f]\d{3}([.,]\d*)?|[+-]?\d+_[\d_.]+",
        "has a separator of thousands: write the digits alone, as 1234.5",
    ),
    (r"true|false", "is not a number: write 1 or 0"),
    (
        r"[+-]?(\d+[.,]?\d*|[.,]\d+).*",
        "is more than a number: write the number alone, without a unit or a remark",
    ),
)

Place = Callable[[int], str]  # where the i-th cell stands, for an error


class Grid(NamedTuple):
    """The lines of a file that are not blank, all of the same width."""

    source: str  # what errors call the file
    unit: str  # what errors call a line: `line`, or `row` of a Parquet file
    delimiter: str
    numbers: list[int]  # [n] the number of each line; 0 for the names of a Parquet file
    cells: list[tuple[str, ...]]  # [n][width] without spaces around

    def place(self, i: int) -> str:
        """Where the i-th line stands, for an error."""
        number = self.numbers[i]
        return f"{self.source}, {self.unit} {number}" if number else f"{self.source}, column names"


def show(text: str) -> str:
    """A text in quotation marks, on one line, cut where it is long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def source_of(path: str | os.PathLike[str]) -> str:
    """What errors call a file."""
    name = os.fspath(path)
    return name if name.isprintable() else repr(name)


def import_parquet(source: str) -> ModuleType:
    """The module `pyarrow`, with its `parquet`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CampaignError(f"{source}: Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


def read_grid(path: str | os.PathLike[str], *, delimiter: str | None = None) -> Grid:
    """The cells of a text file, also gzipped, or of a Parquet file, the names of which come first.

    Lines without any text are left out. A line may be longer than the first one where nothing but
    empty cells follows.

    Args:
      path: the file.
      delimiter: between cells; None finds out whether it is a tab, a semicolon or a comma.
    """
    source = source_of(path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise CampaignError(f"{source}: this is a folder: name a file in it")
        if not stat.S_ISREG(mode):
            raise CampaignError(f"{source}: this is not a regular file: save the table in a file")
        if Path(path).suffix.lower() in PARQUET:
            return _read_parquet(path, source)
        text = _decode(_read_bytes(path, source), source)
    except FileNotFoundError:
        raise CampaignError(f"{source}: there is no such file: check its name") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        if isinstance(error, CampaignError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise CampaignError(f"{source}: the file cannot be read ({reason}): check it") from None

    delimiter = delimiter or _guess_delimiter(text)
    grid = Grid(source, "line", delimiter, [], [])
    width = 0
    try:
        for number, fields in split_lines(text.encode(), source, delimiter, "utf-8"):
            stripped = tuple(map(str.strip, fields))
            if not any(stripped):
                continue
            width = width or len(fields)
            if len(fields) < width or any(stripped[width:]):
                raise CampaignError(
                    f"{source}, line {number}: the line has {len(fields)} cells, and the first "
                    f"line has {width}: add empty cells, or put cells that hold {delimiter!r}, "
                    "such as decimal commas, in quotation marks"
                )
            grid.numbers.append(number)
            grid.cells.append(stripped[:width])
    except DataError as error:
        raise CampaignError(f"{error}: check the quotation marks up to this line") from None
    if not grid.cells:
        raise CampaignError(f"{source}: the file has no text: write a table into it")
    return grid


def _read_bytes(path: str | os.PathLike[str], source: str) -> bytes:
    with open(path, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        parts, size = [], 0
        reader = gzip.GzipFile(fileobj=stream) if packed else stream
        try:
            while part := reader.read(1 << 20):
                parts.append(part)
                size += len(part)
                if size > LIMIT:
                    raise CampaignError(
                        f"{source}: the text is longer than {LIMIT / 1e9:g} GB: split the file"
                    )
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise CampaignError(
                f"{source}: the gzip is cut off or damaged: copy or pack it again"
            ) from None
    return b"".join(parts)


def _decode(data: bytes, source: str) -> str:
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise CampaignError(f"{source}: this is a workbook or a zip: save the sheet as CSV")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        if wide:
            raise CampaignError(f"{source}: the UTF-16 text is cut off: save it again") from None
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        raise CampaignError(
            f"{source}, line {line}: this is not UTF-8 text: save it as UTF-8, "
            "for instance with iconv -f latin1 -t utf-8"
        ) from None
    if (at := text.find("\0")) >= 0:
        line = len(re.findall(r"\r\n|\r|\n", text[:at])) + 1
        raise CampaignError(f"{source}, line {line}: there is a NUL byte: save it as UTF-8 text")
    return text


def _guess_delimiter(text: str) -> str:
    """The first delimiter that cuts the first lines into equally many cells, at least two."""
    head = [line for line in islice(io.StringIO(text, newline=None), 20) if line.strip()]
    for delimiter in DELIMITERS:
        try:
            counts = {len(fields) for fields in csv.reader(head, delimiter=delimiter)}
        except csv.Error:
            continue
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
    bare = re.sub(r'"[^"]*"', "", head[0]) if head else ""
    return max(reversed(DELIMITERS), key=bare.count)


def _read_parquet(path: str | os.PathLike[str], source: str) -> Grid:
    arrow = import_parquet(source)
    with open(path, "rb") as stream:
        try:
            table = arrow.parquet.read_table(stream)
        except (arrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise CampaignError(
                f"{source}: this is not a whole Parquet file ({reason}): write it again"
            ) from None
    names = list(table.column_names)
    for name, kind in zip(names, table.schema.types, strict=True):
        if arrow.types.is_nested(kind) or "binary" in str(kind):
            raise CampaignError(
                f"{source}: column {show(name)} is of type {kind}: write it as text or numbers"
            )
    # pandas puts the index of a frame last, where a matrix has its row ids first.
    indices = (table.schema.pandas_metadata or {}).get("index_columns", ())
    order = sorted(range(len(names)), key=lambda j: names[j] not in indices)
    columns = [
        ["" if cell is None else str(cell).strip() for cell in table.column(j).to_pylist()]
        for j in order
    ]
    header = ["" if names[j].startswith("__index_level_") else names[j].strip() for j in order]
    lines = [(0, tuple(header)), *enumerate(zip(*columns, strict=True), 1)]
    filled = [(number, cells) for number, cells in lines if any(cells) or not number]
    numbers, cells = [number for number, _ in filled], [cells for _, cells in filled]
    return Grid(source, "row", "", numbers, cells)


def is_number(text: str) -> bool:
    """Whether a cell is a number, be its decimal sign a point or a comma."""
    return bool(NUMBER.fullmatch(text) or COMMA.fullmatch(text))


def read_cells(
    texts: Sequence[str], place: Place, statuses: bool, delimiter: str
) -> tuple[list[str], np.ndarray, list[str]]:
    """What each cell says: its kind, its value, and notes on the cells as a whole.

    Args:
      texts: [n] the cells, without spaces around.
      place: where the i-th cell stands, for an error.
      statuses: whether a cell may say failed, no answer, pending or withdrawn.
      delimiter: of the file; where it is a semicolon, 1,234 is a number with a decimal comma.

    Returns:
      [n] kinds, "" where the cell says nothing; [n] values, NaN where there is none; the notes.
    """
    match = NUMBER.fullmatch
    kinds, numbers, commas = ["value"] * len(texts), list(texts), []
    for i in [i for i, text in enumerate(texts) if not match(text)]:
        text = texts[i]
        kind = WORDS.get(_plain(text))
        if kind == "" or (kind and statuses):
            kinds[i], numbers[i] = kind, "nan"
        elif COMMA.fullmatch(text):
            numbers[i] = text.replace(",", ".")
            commas.append(i)
        else:
            raise CampaignError(f"{place(i)}: {show(text)} {_complaint(text, statuses)}")
    notes = []
    if commas:
        _check_commas(texts, commas, place, delimiter)
        notes.append("Decimal commas were read as points.")
    values = np.array(list(map(float, numbers)), np.float64)
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if large.size:
        i = int(large[0])
        raise CampaignError(
            f"{place(i)}: {show(texts[i])} is beyond {LARGEST:g}: write the values in other units"
        )
    return kinds, values, notes


def _plain(word: str) -> str:
    """A word in small letters, with one blank between its parts."""
    return BETWEEN_WORDS.sub(" ", word.lower())


def _complaint(text: str, statuses: bool) -> str:
    for pattern, complaint in COMPLAINTS:
        if re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL | re.ASCII):
            return complaint
    words = ", or write failed, no answer, pending or withdrawn" if statuses else ""
    return f"is not a number: write a number, or empty the cell{words}"


def _check_commas(texts: Sequence[str], commas: list[int], place: Place, delimiter: str) -> None:
    """Refuses commas that might be separators of thousands, and points beside decimal commas."""
    first = commas[0]
    for i, text in enumerate(texts):
        if "." in text and NUMBER.fullmatch(text):
            raise CampaignError(
                f"{place(first)}: {show(texts[first])} has a decimal comma, but {show(text)} at "
                f"{place(i)} has a decimal point: write points throughout"
            )
    if delimiter != ";" and all(PERHAPS_THOUSANDS.fullmatch(texts[i]) for i in commas):
        raise CampaignError(
            f"{place(first)}: the comma of {show(texts[first])} may be a decimal comma or a "
            "separator of thousands: write 1.234 or 1234"
        )


def apply_statuses(words: Sequence[str], kinds: Sequence[str], place: Place) -> list[str]:
    """The kind of each line, from the word in its column `status` and the kind of its value."""
    said = {word: STATUSES.get(_plain(word)) for word in set(words)}
    result = []
    for i, (word, kind) in enumerate(zip(words, kinds, strict=True)):
        status = said[word]
        if status is None:
            raise CampaignError(
                f"{place(i)}: the status {show(word)} is not known: write ok, failed, no answer, "
                "pending or withdrawn, or leave it empty"
            )
        if status and kind and status != kind:
            other = "a value" if kind == "value" else kind
            raise CampaignError(
                f"{place(i)}: the status says {word}, but the value says {other}: "
                + ("write ok, or empty the value" if kind == "value" else "empty one of them")
            )
        result.append(kind if status in ("", "value") else status)
    return result


def check_ids(ids: Sequence[str], axis: str, place: Place) -> list[str]:
    """The distinct ids in their order, none of them empty or with characters that do not show."""
    distinct = list(dict.fromkeys(ids))
    for name in distinct:
        if not name:
            raise CampaignError(f"{place(ids.index(name))}: the {axis} id is empty: fill it in")
        if UNSEEN.search(name):
            raise CampaignError(
                f"{place(ids.index(name))}: the {axis} id {show(name)} holds a character that does "
                "not show, such as a line end: write it anew"
            )
    return distinct
