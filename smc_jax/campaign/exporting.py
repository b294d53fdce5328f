"""Tables of a campaign: what holds now, or everything that was ever told."""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from smc_jax.campaign.cells import source_of
from smc_jax.campaign.heads import head_of, split_names
from smc_jax.campaign.log import Log
from smc_jax.campaign.types import NO_ANSWER, CampaignError, OpenAsk, Told

HISTORY = ("time", "source", "correction")  # columns of an answer that was told


def export_lines(
    log: Log, names: Sequence[str], told: Iterable[Told] | None
) -> tuple[list[str], list[Sequence[Any]]]:
    """Header and lines of the table.

    Args:
      log: what holds now.
      names: what a row, a column and a value are called.
      told: the answers to be written in place of what holds now.
    """
    if told is not None:
        header = [*names, "status", *HISTORY]
        return header, [
            (one.row, one.column, one.value, _status(one.kind), _time(one.time), one.source,
             one.correction)
            for one in told
        ]  # fmt: skip
    return [*names, "status"], list(_holding(log))


def check_export(
    path: str | os.PathLike[str], names: Sequence[str], sources: Iterable[str]
) -> None:
    """Refuses to write over a table that the campaign was told, and over all but an export.

    Args:
      path: of the table to be written.
      names: what a row, a column and a value are called.
      sources: who told the campaign something, with the names of the files.
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    files = {os.path.basename(path), os.path.basename(os.path.realpath(path))}
    if any(not files.isdisjoint(one.split(": ")[1:]) for one in sources):
        raise CampaignError(
            f"{source_of(path)}: the campaign was told a table of this name; name another file"
            " with --out"
        )
    head = split_names(",".join(head_of(path)))
    own = split_names(",".join([*names, "status"]))
    if head[: len(own)] != own or len(head) not in (len(own), len(own) + len(HISTORY)):
        raise CampaignError(
            f"{source_of(path)}: the file exists, and no export wrote it; name another file with"
            " --out, or delete this one first"
        )


def open_ask_lines(asks: Iterable[OpenAsk]) -> tuple[list[str], list[Sequence[Any]]]:
    """Header and lines of a table of open asks."""
    header = ["token", "asked", "source", "expires", "number", "pending"]
    return header, [
        (one.token, _time(one.time), one.source, expires, one.number, one.pending)
        for one in asks
        for expires in [None if one.expires is None else _time(one.expires)]
    ]


def _holding(log: Log) -> Iterator[Sequence[Any]]:
    """The values that count, in the order told; what has none, and why; and all other ids."""
    for row, column, value in zip(log.row, log.column, log.value, strict=True):
        yield log.row_ids[row], log.column_ids[column], float(value), "ok"
    for kind, rows, columns in (
        ("failed", log.failed_row, log.failed_column),
        (NO_ANSWER, log.silent_row, log.silent_column),
        ("pending", log.pending_row, log.pending_column),
    ):
        for row, column in zip(rows, columns, strict=True):
            yield log.row_ids[row], log.column_ids[column], None, kind
    for row, column in _unmentioned(log):
        yield log.row_ids[row], log.column_ids[column], None, None


def _unmentioned(log: Log) -> Iterator[tuple[int, int]]:
    """Entries that name every row and every column of which nothing is known."""
    rows, columns = set(range(len(log.row_ids))), set(range(len(log.column_ids)))
    own = rows.difference(log.row, log.failed_row, log.silent_row, log.pending_row)
    others = columns.difference(
        log.column, log.failed_column, log.silent_column, log.pending_column
    )
    if rows and columns:
        yield from zip_longest(sorted(own), sorted(others), fillvalue=0)


def _status(kind: str) -> str:
    return "ok" if kind == "value" else kind


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
