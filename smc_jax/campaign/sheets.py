"""Files that a command is to write: refused before anything is asked, computed or recorded."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.cells import read_grid
from smc_jax.campaign.heads import head_of
from smc_jax.campaign.tables import read_pairs, read_records
from smc_jax.campaign.types import CampaignError
from smc_jax.campaign.writing import TABLES, check_writable

BESIDE = ("-wal", "-shm", "-journal", "-fit.npz")  # files that belong to a campaign
SHEET = {"status", "bits", "why"}  # columns that every sheet of an ask has


def check_out(
    path: str, out: str | None, *, table: bool = True, inputs: Iterable[str | None] = ()
) -> None:
    """Refuses a file that cannot be written, or that is somebody's sheet.

    Args:
      path: of the campaign.
      out: the file; None writes nothing.
      table: whether it will be a table.
      inputs: files that the same command reads.
    """
    if out is None:
        return
    _check_place(path, out, table, inputs)
    if out.endswith(TABLES) and _is_sheet(out):
        raise CampaignError(
            f"{out}: this is the sheet of an ask, and its answers may not be told yet; name another"
            " file, or delete this one first"
        )


def check_sheet(
    campaign: Campaign,
    path: str,
    out: str | None,
    token: str | None,
    inputs: Iterable[str | None] = (),
) -> None:
    """Refuses to write suggestions over anything but a sheet whose every answer was told.

    Sheets of other campaigns, and of asks that have expired, wait for answers too. The ask of a
    token that was asked before writes its own sheet again.
    """
    if out is None:
        return
    _check_place(path, out, True, inputs)
    if not os.path.exists(out):
        return
    if not _is_sheet(out):
        raise CampaignError(f"{out}: the file exists, and no ask wrote it; name another with --out")
    lines = len(read_grid(out).cells) - 1
    waiting = _waiting(campaign, out, token, lines) if lines else 0
    if waiting:
        raise CampaignError(
            f"{out}: {waiting} of {lines} lines in it {'has' if waiting == 1 else 'have'} no"
            f" answer that was told to {path};"
            " fill them in and tell them, delete the file, or name another with --out"
        )


def _check_place(path: str, out: str, table: bool, inputs: Iterable[str | None]) -> None:
    """Refuses a file that cannot be written, the campaign itself, and what the command reads."""
    check_writable(out, table=table)
    own, real = os.path.realpath(path), os.path.realpath(out)
    if real in [own + suffix for suffix in ("", *BESIDE)]:
        raise CampaignError(f"{out}: this is the campaign itself; name another file with --out")
    if real in [os.path.realpath(one) for one in inputs if one is not None]:
        raise CampaignError(f"{out}: the command reads this file; name another one with --out")


def _waiting(campaign: Campaign, out: str, token: str | None, lines: int) -> int:
    """How many lines of a sheet have no answer that the campaign knows."""
    rows, columns, value = campaign.names
    if not {rows.lower(), columns.lower(), value.lower()} <= set(head_of(out)):
        return lines  # of another campaign
    records = read_records(out, names=campaign.names)
    said = zip(records.rows, records.columns, records.kinds, records.values.tolist(), strict=True)
    answers = [
        (row, column, number if kind == "value" else kind)
        for row, column, kind, number in said
        if kind != "pending"
    ]
    untold = 0
    if not _knows(campaign, answers):
        untold = sum(not _knows(campaign, [one]) for one in answers)
    earlier = (token is not None and campaign.asked(token)) or []
    pairs = set(read_pairs(out, rows=rows, columns=columns))
    own = pairs == {(one.row, one.column) for one in earlier}
    return untold if own else untold + lines - len(answers)


def _knows(campaign: Campaign, answers: Sequence[tuple[str, str, Any]]) -> bool:
    """Whether answers were told; others of the same entries were not these."""
    try:
        return campaign.knows(answers)
    except CampaignError:
        return False


def _is_sheet(path: str) -> bool:
    """Whether a file has the columns of a sheet; refuses one of which nobody can say."""
    return os.path.isfile(path) and set(head_of(path)) >= SHEET
