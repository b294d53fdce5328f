"""What each command says is next: always a command that works where the campaign stands."""

import itertools
import os

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.log import Added
from smc_jax.campaign.outlook import UNLIKELY
from smc_jax.campaign.sheets import check_sheet
from smc_jax.campaign.types import NO_ANSWER, CampaignError, Status


def next_step(campaign: Campaign, path: str, flags: str = "") -> str:
    """What to do next: to ask, or where no entry is open, what opens some.

    Args:
      campaign: as it is now.
      path: of its file.
      flags: those that the ask is shown with.
    """
    sizes = campaign.sizes()
    if sizes["open"]:
        return f"smc-jax ask {path}{flags}"
    retry = ""
    if sizes.get(NO_ANSWER) and not campaign.settings["retry_silent"]:
        retry = f"; smc-jax set {path} --retry-silent opens those without an answer"
    if sizes["pending"]:
        return (
            f"no entry is open; smc-jax tell {path} TABLE tells what is pending, smc-jax withdraw"
            f" {path} TOKEN takes an ask back (smc-jax status {path} lists the tokens){retry}"
        )
    if not sizes["known"]:
        return f"smc-jax add {path} --rows=FILE --columns=FILE, or smc-jax tell {path} TABLE"
    return (
        f"no entry is open; smc-jax report {path}, or smc-jax add {path} for new rows or"
        f" columns{retry}"
    )


def next_sheet(campaign: Campaign, path: str) -> str:
    """As `next_step`, with the name of a sheet that an ask may write."""
    return next_step(campaign, path, f" --number=20 --out={_free_sheet(campaign, path)}")


def _free_sheet(campaign: Campaign, path: str) -> str:
    """next.csv, or next2.csv and so on where that still waits for answers."""
    for number in itertools.count(1):
        name = f"next{'' if number == 1 else number}.csv"
        if not os.path.lexists(name):
            break
        try:
            check_sheet(campaign, path, name, None)
        except CampaignError:
            continue
        break
    return name


def after_tell(campaign: Campaign, path: str, tables: list[str], added: Added) -> str:
    """What is next after a tell: to fill in tables that say nothing yet, or to ask again."""
    if not any(added._replace(position=0)):
        value, files = campaign.names[2], " ".join(tables)
        again = f"smc-jax tell {path} {files}"
        return f"fill in the column {value!r} of {files}, then tell it again: {again}"
    return f"{next_sheet(campaign, path)}, or smc-jax status {path}"


def after_status(campaign: Campaign, path: str, status: Status) -> str:
    """What is next after a status: to report first, where the advice is to stop."""
    step, report = next_step(campaign, path), f"smc-jax report {path}"
    if report in step:
        return step
    if status.chance < UNLIKELY:
        return f"{report}, or {step}"
    return f"{step}, or {report}"
