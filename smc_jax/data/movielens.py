"""MovieLens: films rated by users in stars, in every layout that was released."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

from smc_jax.data.ratings import DataError, Ratings
from smc_jax.data.table import Columns, read_bytes, read_table, split_lines


class Release(NamedTuple):
    """The files of one release."""

    ratings: str
    titles: str
    delimiter: str
    titles_delimiter: str
    titles_encoding: str
    columns: Columns  # film, user, rating
    header: bool
    lowest: float  # stars; the highest are 5


_CSV = Release(
    "ratings.csv",
    "movies.csv",
    delimiter=",",
    titles_delimiter=",",
    titles_encoding="utf-8",
    columns=("movieId", "userId", "rating"),
    header=True,
    lowest=0.5,
)
_DAT = Release(
    "ratings.dat",
    "movies.dat",
    delimiter="::",
    titles_delimiter="::",
    titles_encoding="latin-1",
    columns=(1, 0, 2),
    header=False,
    lowest=1.0,
)
RELEASES = {
    "ml-100k": _DAT._replace(
        ratings="u.data", titles="u.item", delimiter="\t", titles_delimiter="|"
    ),
    "ml-1m": _DAT,
    "ml-10m": _DAT._replace(titles_encoding="utf-8", lowest=0.5),
    "ml-20m": _CSV,
    "ml-25m": _CSV,
    "ml-latest-small": _CSV,
}


def read_movielens(
    path: str | PathLike[str], release: str, *, duplicates: str = "error"
) -> Ratings:
    """Ratings of one release; films are the rows, users the columns.

    Args:
      path: the publisher's zip, the folder unpacked from it, or the file of ratings alone (also
        gzipped; columns after the rating are not needed).
      release: a name of `RELEASES`.
      duplicates: as in `from_triplets`.
    """
    layout, path = _layout(release), Path(path)
    return read_table(
        path / layout.ratings if path.is_dir() else path,
        member=layout.ratings,
        columns=layout.columns,
        delimiter=layout.delimiter,
        header=layout.header,
        bounds=(layout.lowest, 5.0),
        duplicates=duplicates,
    )


def read_titles(path: str | PathLike[str], release: str) -> dict[int, str]:
    """The title of each film id, rated or not.

    Args:
      path: the publisher's zip, the folder unpacked from it, or any file in that folder.
      release: a name of `RELEASES`.
    """
    layout, path = _layout(release), Path(path)
    if path.suffix != ".zip":
        path = (path if path.is_dir() else path.parent) / layout.titles
    data, source = read_bytes(path, layout.titles)
    lines = split_lines(data, source, layout.titles_delimiter, layout.titles_encoding)
    if layout.header:
        next(lines)
    titles = {}
    for line, fields in lines:
        if len(fields) < 3 or not fields[0].isdecimal():
            raise DataError(f"{source}, line {line}: not a film's id, title and genres")
        titles[int(fields[0])] = fields[1]
    return titles


def _layout(release: str) -> Release:
    if release not in RELEASES:
        raise ValueError(f"release: unknown {release!r}; choose from {', '.join(RELEASES)}")
    return RELEASES[release]
