"""Files that a command is to write: refused before anything is asked, computed or recorded."""

import os

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.cells import read_grid
from smc_jax.campaign.tables import read_pairs
from smc_jax.campaign.types import CampaignError
from smc_jax.campaign.writing import check_writable

BESIDE = ("-wal", "-shm", "-journal", "-fit.npz")  # files that belong to a campaign


def check_out(path: str, out: str | None, *, table: bool = True) -> None:
    """Refuses a file that cannot be written before anything is asked, computed or recorded."""
    if out is None:
        return
    check_writable(out, table=table)
    own = os.path.realpath(path)
    if os.path.realpath(out) in [own + suffix for suffix in ("", *BESIDE)]:
        raise CampaignError(f"{out}: this is the campaign itself; name another file with --out")


def check_sheet(campaign: Campaign, path: str, out: str | None, token: str | None) -> None:
    """Refuses to write suggestions over anything but an earlier ask that waits for nothing more.

    The ask of a token that was asked before writes its own sheet again.
    """
    if out is None or not os.path.exists(out):
        return
    header = read_grid(out).cells[0]
    if not {"status", "bits", "why"} <= set(header):
        raise CampaignError(f"{out}: the file exists, and no ask wrote it; name another with --out")
    if not campaign.knows(out):
        raise CampaignError(
            f"{out}: the file holds answers that were not told; tell them first, or name another"
        )
    rows, columns, _ = campaign.names
    sheet = read_pairs(out, rows=rows, columns=columns)
    earlier = (token is not None and campaign.asked(token)) or []
    waiting = set(sheet) & set(campaign.pending())
    if waiting and set(sheet) != {(one.row, one.column) for one in earlier}:
        raise CampaignError(
            f"{out}: {len(waiting)} of the entries in it are still pending; tell them or withdraw"
            f" them first (smc-jax status {path} lists the tokens), or name another file with --out"
        )
