"""Ratings as sparse triplets, with the ids that they came with."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

DUPLICATES = ("error", "last", "mean")


class DataError(ValueError):
    """Data that cannot be used as it is; the message is one line with the place and the reason.

    `argument` is the reader's argument with which it could be, where there is one.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class Ratings(NamedTuple):
    """The ratings that exist, sorted by row and then by column. Rows are items, columns users."""

    row: np.ndarray  # [n] int32, index into `row_ids`
    column: np.ndarray  # [n] int32, index into `column_ids`
    value: np.ndarray  # [n] float32
    row_ids: np.ndarray  # [D] as in the source
    column_ids: np.ndarray  # [N] as in the source
    bounds: tuple[float, float] | None  # lowest and highest possible rating, where declared

    @property
    def shape(self) -> tuple[int, int]:
        """(D, N)."""
        return self.row_ids.size, self.column_ids.size

    def row_counts(self) -> np.ndarray:
        """[D] ratings of each row."""
        return np.bincount(self.row, minlength=self.shape[0])

    def column_counts(self) -> np.ndarray:
        """[N] ratings of each column."""
        return np.bincount(self.column, minlength=self.shape[1])

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """Values [D, N] float32, 0 where there is no rating, and the mask [D, N] of ratings."""
        values, mask = np.zeros(self.shape, np.float32), np.zeros(self.shape, bool)
        values[self.row, self.column] = self.value
        mask[self.row, self.column] = True
        return values, mask

    def select(
        self,
        rows: Sequence[int] | np.ndarray | None = None,
        columns: Sequence[int] | np.ndarray | None = None,
    ) -> "Ratings":
        """The block of these rows and columns, in the order given; None takes all.

        Args:
          rows: distinct indices into `row_ids`.
          columns: distinct indices into `column_ids`.
        """
        row_position, row_ids = _positions(rows, self.row_ids, "rows")
        column_position, column_ids = _positions(columns, self.column_ids, "columns")
        row, column = row_position[self.row], column_position[self.column]
        kept = np.flatnonzero((row >= 0) & (column >= 0))
        kept = kept[np.lexsort((column[kept], row[kept]))]
        return Ratings(row[kept], column[kept], self.value[kept], row_ids, column_ids, self.bounds)


def densest_block(ratings: Ratings, rows: int, columns: int) -> Ratings:
    """The `rows` rows rated most, and the `columns` columns that rated most of these.

    Most first; of equals the smaller id first.
    """
    if ratings.shape[0] < rows or ratings.shape[1] < columns:
        raise DataError(f"rows, columns: {ratings.shape} is less than {(rows, columns)}")
    most = ratings.select(rows=np.argsort(-ratings.row_counts(), kind="stable")[:rows])
    return most.select(columns=np.argsort(-most.column_counts(), kind="stable")[:columns])


def from_triplets(
    row_ids: Sequence | np.ndarray,
    column_ids: Sequence | np.ndarray,
    values: Sequence[float] | np.ndarray,
    *,
    bounds: tuple[float, float] | None = None,
    duplicates: str = "error",
    where: Callable[[int], str] = "rating {}".format,
) -> Ratings:
    """Ratings from one (row id, column id, rating) each, checked, ids sorted and without gaps.

    Args:
      row_ids: [n] of any one type that can be sorted.
      column_ids: [n] of any one type that can be sorted.
      values: [n] finite.
      bounds: lowest and highest possible rating; None leaves them unchecked.
      duplicates: for a pair that occurs again, `error`, or keep the `last`, or the `mean`.
      where: names the place of the i-th triplet in an error.
    """
    if duplicates not in DUPLICATES:
        raise ValueError(f"duplicates: unknown {duplicates!r}; choose from {', '.join(DUPLICATES)}")
    value = np.asarray(values, np.float64)
    # NaN fails the comparison too; beyond float32 a rating would turn infinite.
    _refuse(~(np.abs(value) <= np.finfo(np.float32).max), value, "is not a finite number", where)
    if bounds is not None:
        low, high = bounds
        _refuse((value < low) | (value > high), value, f"is outside {low:g} to {high:g}", where)

    unique_rows, row = _compact(row_ids)
    unique_columns, column = _compact(column_ids)
    pair = row.astype(np.int64) * unique_columns.size + column
    order = np.argsort(pair, kind="stable")  # stable: of equal pairs the last stays last
    pair, value = pair[order], value[order]
    again = pair[1:] == pair[:-1]
    if again.any():
        if duplicates == "error":
            # The repeat that comes first in the source, not the one that sorts first.
            k = np.flatnonzero(again)[np.argmin(order[1:][again])]
            i, j = order[k], order[k + 1]
            raise DataError(
                f"{where(int(j))}: the pair {unique_rows[row[j]]}, {unique_columns[column[j]]} "
                f"was already rated at {where(int(i))}",
                "duplicates",
            )
        first = np.concatenate([[True], ~again])
        if duplicates == "mean":
            starts = np.flatnonzero(first)
            value = np.add.reduceat(value, starts) / np.diff(np.append(starts, value.size))
        else:
            value = value[np.append(~again, True)]
        order = order[first]
    return Ratings(
        row[order].astype(np.int32),
        column[order].astype(np.int32),
        value.astype(np.float32),
        unique_rows,
        unique_columns,
        bounds,
    )


def _refuse(wrong: np.ndarray, value: np.ndarray, reason: str, where: Callable[[int], str]) -> None:
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(f"{where(i)}: rating {value[i]:g} {reason}")


def _compact(ids: Sequence | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids, sorted, and the index of each id among them."""
    ids = np.asarray(ids)
    if ids.dtype != object:
        return np.unique(ids, return_inverse=True)
    # On Python objects a dictionary is several times faster than np.unique.
    unique = sorted(set(ids.tolist()))
    index = {identity: i for i, identity in enumerate(unique)}
    kept = np.empty(len(unique), object)
    kept[:] = unique
    return kept, np.fromiter(map(index.__getitem__, ids.tolist()), np.int64, ids.size)


def _positions(
    chosen: Sequence[int] | np.ndarray | None, ids: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of each old index its new one, or -1; and the ids that stay."""
    chosen = np.arange(ids.size) if chosen is None else np.asarray(chosen, np.intp)
    position = np.full(ids.size, -1, np.int32)
    position[chosen] = np.arange(chosen.size)
    if np.count_nonzero(position >= 0) != chosen.size:
        raise ValueError(f"{name}: an index occurs twice")
    return position, ids[chosen]
