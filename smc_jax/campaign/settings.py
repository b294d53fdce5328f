"""The settings of a campaign: what there is, what it means, and what is refused."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from smc_jax.campaign.answers import LARGEST
from smc_jax.campaign.engine import RULES
from smc_jax.campaign.types import CampaignError


class Setting(NamedTuple):
    """One setting."""

    default: Any
    meaning: str


SETTINGS = {
    "rows": Setting("row", "what a row is, as the table calls it"),
    "columns": Setting("column", "what a column is, as the table calls it"),
    "value": Setting("value", "what is measured, as the table calls it"),
    "maximise": Setting(True, "whether high values are wanted, or low ones"),
    "noise": Setting(None, "the known standard deviation of a measurement; none: it is learned"),
    "repeats": Setting(False, "whether an entry may be measured again; its values are averaged"),
    "retry_failed": Setting(False, "whether an entry whose measurement failed may be asked again"),
    "retry_silent": Setting(False, "whether an entry that had no answer may be asked again"),
    "policy": Setting("ids", f"how entries are chosen: {', '.join(RULES)}"),
    "rank": Setting(None, "the bound on the rank of the model; none: 10, or the shorter side"),
    "budget": Setting(None, "how many entries will be asked for in all; none: not known"),
    "seed": Setting(0, "of all randomness"),
}
CHOSEN_BY = {
    "ids": "what an answer teaches and what it may cost",
    "thompson": "the best values of a random draw of the table",
    "greedy": "the best expected values",
    "ucb": "the best values that are plausible",
    "random": "chance",
}
# How a colleague would name each setting, and say its value.
WORDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "rows": ("A row is", str),
    "columns": ("A column is", str),
    "value": ("What is measured", str),
    "maximise": ("Wanted values", lambda high: "high ones" if high else "low ones"),
    "noise": (
        "Standard deviation of a measurement",
        lambda noise: "learned from the values" if noise is None else f"{noise:g}, as it was given",
    ),
    "repeats": ("An entry may be measured again", lambda may: "yes, averaged" if may else "no"),
    "retry_failed": (
        "An entry that failed may be asked again",
        lambda may: "yes" if may else "no",
    ),
    "retry_silent": (
        "An entry that had no answer may be asked again",
        lambda may: "yes" if may else "no",
    ),
    "policy": ("Entries are chosen by", lambda rule: f"{CHOSEN_BY[rule]} ({rule})"),
    "rank": (
        "Bound on the rank of the model",
        lambda rank: "10, or the shorter side of the table" if rank is None else str(rank),
    ),
    "budget": (
        "Entries to be asked for in all",
        lambda budget: "not decided" if budget is None else f"{budget:,}",
    ),
    "seed": ("Seed of all randomness", str),
}
WHOLE = {"rank": 1, "budget": 1, "seed": 0}  # the least whole number that is allowed


def in_words(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each setting and its value, for people who do not know the command."""
    found = []
    for name, value in settings.items():
        label, said = WORDS.get(name, (name, str))
        found.append((label, said(value)))
    return found


def checked_settings(given: dict[str, Any]) -> dict[str, Any]:
    """All settings, with defaults for what is not given."""
    for name in given:
        if name not in SETTINGS:
            raise CampaignError(f"{name}: no such setting; choose from {', '.join(SETTINGS)}")
    settings = {name: one.default for name, one in SETTINGS.items()} | given
    for name, value in settings.items():
        _check(name, value)
    names = [settings[name] for name in ("rows", "columns", "value")]
    if "status" in (name.strip().lower() for name in names):
        raise CampaignError("rows, columns, value: none may be named status, which a table has too")
    if len(set(names)) < len(names):
        raise CampaignError(f"rows, columns, value: must be three names, got {', '.join(names)}")
    return settings


def _check(name: str, value: Any) -> None:
    """Refuses a value that the setting cannot have."""
    kind = SETTINGS[name].default
    if isinstance(kind, bool):
        if not isinstance(value, bool):
            raise CampaignError(f"{name}: must be true or false, got {value!r}")
    elif name == "policy":
        if value not in RULES:
            raise CampaignError(f"policy: unknown {value!r}; choose from {', '.join(RULES)}")
    elif isinstance(kind, str):
        if not isinstance(value, str) or not value.strip() or value.startswith("--"):
            raise CampaignError(f"{name}: must be a name, got {value!r}")
    elif value is None and kind is None:
        return
    elif name in WHOLE:
        most = 2**32 - 1
        if isinstance(value, bool) or not isinstance(value, int):
            raise CampaignError(f"{name}: must be a whole number, got {value!r}")
        if not WHOLE[name] <= value <= most:
            raise CampaignError(f"{name}: must lie in {WHOLE[name]} to {most}, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise CampaignError(f"{name}: must be a positive number, got {value!r}")
    elif not 1.0 / LARGEST <= value <= LARGEST:
        raise CampaignError(f"{name}: must be a positive number from 1e-30 to 1e30, got {value!r}")
