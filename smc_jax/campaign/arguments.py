"""What the methods of a campaign are called with, checked: one line that names the argument."""

import numbers
from os import PathLike
from typing import Any

from smc_jax.campaign.answers import LARGEST
from smc_jax.campaign.types import CampaignError


def at_least_one(name: str, value: Any) -> None:
    """Refuses what is not a whole number of at least one."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < 1:
        raise CampaignError(f"{name}: must be a whole number of at least 1, got {value!r}")


def real(name: str, value: Any) -> None:
    """Refuses what is no number; None passes."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if value is not None and not is_number:
        raise CampaignError(f"{name}: must be a number, got {_shown(value)}")


def finite(name: str, value: Any) -> None:
    """Refuses what is no number, or not a finite one; None passes."""
    real(name, value)
    if value is not None and not abs(value) <= LARGEST:
        raise CampaignError(f"{name}: must be a finite number, got {value!r}")


def file_named(name: str, value: Any) -> None:
    """Refuses what does not name a file; None passes."""
    if value is None:
        return
    if not isinstance(value, str | PathLike):
        raise CampaignError(f"{name}: must be the name of a file, got {_shown(value)}")
    if not str(value).strip():
        raise CampaignError(f"{name}: no file is named")


def _shown(value: Any) -> str:
    """A wrong value on one line."""
    text = repr(value)
    return text if len(text) <= 40 and text.isprintable() else f"one of type {type(value).__name__}"
