"""Tables whose cells are found by the ids of rows and columns, and which way round they lie."""

from collections.abc import Iterator, Sequence

import numpy as np

from smc_jax.data.features import Lines
from smc_jax.data.ratings import DataError

Ids = Sequence[object] | np.ndarray
Cell = tuple[str, str, str, str]  # row, column, text, and where it stands, for an error
SIDES = ("row", "column")


def numbers_of(ids: Ids) -> dict[str, int]:
    """The number of each id; ids are compared as texts."""
    return {str(one): number for number, one in enumerate(ids)}


def even_lines(lines: Lines) -> Lines:
    """The lines that are not blank; refused where one is not as long as the first."""
    filled = [(place, fields) for place, fields in lines if any(fields)]
    (first, header), *rest = filled or lines[:1]
    if not rest:
        raise DataError(f"{first}: no line follows the first one")
    for place, fields in rest:
        if len(fields) != len(header):
            raise DataError(f"{place}: {len(fields)} columns, not {len(header)}")
    return filled


def sides_named(header: Sequence[str], names: tuple[str, str] = SIDES) -> list[str]:
    """The names of a first line in small letters, `row` and `column` where they are of a side.

    Args:
      header: the first line.
      names: what a row and a column are called beside that.
    """
    called = dict(zip((name.strip().lower() for name in names), SIDES, strict=True))
    return [called.get(name, name) for name in map(str.lower, header)]


def is_turned(said: str, straight: int, turned: int, place: str, value: str) -> bool:
    """Whether columns stand where rows would stand: as the first line says, or as more ids fit.

    Args:
      said: the side whose ids come first, `row` or `column`; another text where nobody says it.
      straight: how much fits where rows come first.
      turned: how much fits where columns come first.
      place: of the first line, for an error.
      value: what the table is of.
    """
    if said in SIDES:
        return said == "column"
    if straight == turned > 0:
        raise DataError(
            f"{place}: its ids are those of rows and of columns alike; write three columns whose"
            f" first line is row,column,{value}"
        )
    return turned > straight


def matrix_cells(lines: Lines, turned: bool) -> Iterator[Cell]:
    """The cells of a matrix with ids on both sides.

    Args:
      lines: all of the same length.
      turned: whether its lines are of columns.
    """
    (first, (_, *upper)), *rest = lines
    named = [name for name in upper if name]
    if len(set(named)) < len(named):
        raise DataError(f"{first}: an id occurs twice")
    for place, (name, *texts) in rest:
        for other, text in zip(upper, texts, strict=True):
            yield (other, name, text, place) if turned else (name, other, text, place)
