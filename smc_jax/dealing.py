"""Where the looks at a matrix are put: tiles of a fixed width, dealt to groups; NumPy on the host.

The looks at a column are cut into tiles of L looks, the last of which is filled up. Columns are
dealt to G groups of equally many columns and about as many tiles each, at random among columns of
one length. A pass over the data takes one group at a time, and some groups are a minibatch.
"""

from typing import NamedTuple

import numpy as np

from smc_jax.checks import at_least

WIDTHS = (4, 8, 16, 32, 64)
TILE = 16  # what a tile costs beside its looks, in looks
CACHED = 2**15  # looks of a group whose temporary arrays stay in a cache
ROOM = 1 / 16  # tiles that stay free, of those that are taken


class Merged(NamedTuple):
    """Looks with each entry once, in the order of columns, then of rows."""

    row: np.ndarray  # [n] int
    column: np.ndarray  # [n] int
    count: np.ndarray  # type: ignore[assignment]  # [n]  sum of weights
    total: np.ndarray  # [n]  sum of weighted values
    scatter: np.ndarray  # [n]  sum of weighted squared deviations from their mean


class Sizes(NamedTuple):
    """The shapes of arrays of looks."""

    groups: int  # G
    tiles: int  # T, of a group
    width: int  # L


class Dealt(NamedTuple):
    """Where n looks are, of N columns in G groups of at most B."""

    row: np.ndarray  # [G, T, L] int: of each slot, 0 where it is empty
    owner: np.ndarray  # [G, T] int: which column of its group a tile is of, ascending
    members: np.ndarray  # [G, B] int: the columns of a group, N where there is none
    position: np.ndarray  # [N] int: where each column is, group by group
    slot: np.ndarray  # [n] int: where each look is


def check_settings(
    groups: int | None,
    width: int | None,
    like: tuple[int, int] | None,
    shape: tuple[int, int],
) -> None:
    """Refuses settings of `Looks.of`; `like` is the shape of the matrix of earlier looks."""
    at_least("groups", groups, 1, optional=True)
    at_least("width", width, 1, optional=True)
    if like is None:
        return
    if like != shape:
        raise ValueError(f"like: is of a matrix of {like}, and this one is {shape}; leave it out")
    if (groups, width) != (None, None):
        raise ValueError("like: brings groups and width with it; leave these out")


def _check(
    row: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    rows: int,
    columns: int,
) -> None:
    """Refuses looks that are impossible."""
    for name, index, size in (("row", row, rows), ("column", column, columns)):
        if index.ndim != 1:
            raise ValueError(f"{name}: must be a list, got shape {index.shape}")
        if index.size and index.dtype.kind not in "iu":
            raise ValueError(f"{name}: must be whole numbers, got {index.dtype}")
        if index.size and not 0 <= index.min() <= index.max() < size:
            raise ValueError(f"{name}: must lie in 0 to {size - 1}")
    if not np.isfinite(value).all():
        raise ValueError("value: must be finite")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError("weight: must be finite and not negative")


def merged(
    row: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    rows: int,
    columns: int,
) -> Merged:
    """Repeated looks at an entry as one; looks of weight zero are left out."""
    _check(row, column, value, weight, rows, columns)
    value, weight = np.asarray(value, float), np.asarray(weight, float)
    kept = weight > 0
    row, column, value, weight = (x[kept] for x in (row, column, value, weight))
    entry = column.astype(np.int64) * rows + row.astype(np.int64)
    order = np.argsort(entry, kind="stable")
    entry, value, weight = entry[order], value[order], weight[order]
    first = np.flatnonzero(np.diff(entry, prepend=-1))
    if first.size == entry.size:
        count, total, scatter = weight, weight * value, np.zeros_like(value)
    else:
        count, total = (np.add.reduceat(x, first) for x in (weight, weight * value))
        mean = np.repeat(total / count, np.diff(first, append=entry.size))
        scatter = np.add.reduceat(weight * (value - mean) ** 2, first)
    return Merged(entry[first] % rows, entry[first] // rows, count, total, scatter)


def sizes(
    column: np.ndarray, columns: int, rows: int, *, width: int | None, groups: int | None
) -> Sizes:
    """Width and number of groups that are quick for looks at these columns [n], where not given.

    A group adds to arrays of all rows once, so that it should not have far fewer looks than there
    are rows; and no column should be much longer than a group's share. Tiles are left to `deal`.
    """
    lengths = np.bincount(column, minlength=columns)
    if width is None:
        width = min(WIDTHS, key=lambda each: (-(-lengths // each)).sum() * (TILE + each))
    if groups is None:
        longest = int(lengths.max(initial=1))
        groups = column.size // max(CACHED, rows, 2 * longest)
    return Sizes(min(max(groups, 1), max(columns, 1)), 0, width)


def deal(
    row: np.ndarray,
    column: np.ndarray,
    columns: int,
    shape: Sizes,
    random: np.random.Generator,
) -> Dealt:
    """Places for looks that are sorted by their columns.

    Args:
      row: [n] of each look.
      column: [n] of each look, ascending.
      columns: N.
      shape: the sizes; where the looks do not fit into its tiles, there are more, and some room.
      random: who decides between columns that have equally many tiles.
    """
    groups, least, width = shape
    lengths = np.bincount(column, minlength=columns)
    needed = -(-lengths // width)
    members = _members(needed, groups, random)
    taken = np.append(needed, 0)[members]  # [G, B]
    most = int(taken.sum(1).max(initial=1))
    tiles = least if most <= least else -8 * (-int(most * (1 + ROOM)) // 8)

    place = np.full(columns + 1, members.size)
    place[members] = np.arange(members.size).reshape(members.shape)
    position = place[:columns]
    before = np.cumsum(taken, 1) - taken  # tiles of the group before those of a column
    start = (before + tiles * np.arange(groups)[:, None]).ravel()[position]
    rank = np.arange(column.size) - (np.cumsum(lengths) - lengths)[column]
    slot = (start[column] + rank // width) * width + rank % width

    rows_of = np.zeros(groups * tiles * width, np.int32)
    rows_of[slot] = row
    owner = np.full((groups, tiles), members.shape[1] - 1, np.int32)
    for each, own in zip(owner, taken, strict=True):
        each[: own.sum()] = np.repeat(np.arange(own.size), own)
    found = rows_of.reshape(groups, tiles, width), owner, members.astype(np.int32)
    return Dealt(*found, position.astype(np.int32), slot)


def _members(needed: np.ndarray, groups: int, random: np.random.Generator) -> np.ndarray:
    """Columns dealt to groups [G, B], the longest first, each round to the groups with least."""
    order = random.permutation(needed.size)
    order = order[np.argsort(-needed[order], kind="stable")]
    rounds = max(-(-needed.size // groups), 1)
    members = np.full((groups, rounds), needed.size)
    load = np.zeros(groups, int)
    for turn in range(rounds):
        dealt = order[turn * groups : (turn + 1) * groups]
        to = np.argsort(load, kind="stable")[: dealt.size]
        members[to, turn] = dealt
        load[to] += needed[dealt]
    return members
