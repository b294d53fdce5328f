"""What one ask brings, and what it is asked with."""

import getpass
import json
from collections.abc import Iterable, Sequence
from math import isnan
from os import PathLike
from typing import Any

from smc_jax.campaign.arguments import at_least_one, real
from smc_jax.campaign.types import NAN, CampaignError, Suggestion
from smc_jax.campaign.worth import DIGEST
from smc_jax.campaign.writing import write_table

Path = str | PathLike[str]


class Batch(list[Suggestion]):
    """The suggestions of one ask."""

    def __init__(
        self,
        suggestions: Iterable[Suggestion],
        token: str,
        names: Sequence[str],
        worthless: float = NAN,
    ):
        super().__init__(suggestions)
        self.worthless = worthless  # the value worth nothing; NaN where none is needed, or is kept
        self.token = token  # an ask with the same token gives the same suggestions
        self.names = names  # what a row, a column and a value are called

    def save(self, path: Path) -> None:
        """Writes the suggestions as CSV or Parquet, with room for the values to be filled in."""
        fields = {name: name for name in ("mean", "sd", "low", "high", "probability")}
        fields |= {"bits": "gain", "why": "reason"}  # what the sheet calls the other two
        there = dict(zip(("p_answer", "cost"), further(self), strict=True))
        fields |= {name: name for name in there if there[name]}
        lines = (
            (one.row, one.column, None, None, *(getattr(one, name) for name in fields.values()))
            for one in self
        )
        write_table(path, [*self.names, "status", *fields], lines)


def further(found: Iterable[Suggestion]) -> tuple[bool, bool]:
    """Whether suggestions have a probability of an answer, and whether they have a cost."""
    pairs = [(not isnan(one.p_answer), not isnan(one.cost)) for one in found]
    return any(p_answer for p_answer, _ in pairs), any(cost for _, cost in pairs)


def user() -> str:
    """The name of the user, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without names
        return "unknown"


def check_ask(number: Any, token: str | None, expires: float | None) -> None:
    """Refuses what no ask can be asked with."""
    at_least_one("number", number)
    real("expires", expires)
    if expires is not None and not expires > 0:
        raise CampaignError(f"expires: must be a positive number of hours, got {expires!r}")
    if token is not None and not token.strip():
        raise CampaignError("token: must be a name, got an empty text; leave it out")


def check_same(token: str, asked: dict[str, Any] | None, wanted: dict[str, Any]) -> None:
    """Refuses a token of an ask that was asked for something else, where that is known."""
    if not asked:
        return
    plain = json.loads(json.dumps(wanted))  # as it comes back from the log
    costs = plain["costs"]
    if costs is not None and DIGEST not in costs and asked["costs"] is not None:
        # Their file is not there any more: what else was said of costs is compared.
        asked = asked | {"costs": {name: asked["costs"].get(name) for name in costs}}
    differ = [name for name in plain if asked.get(name) != plain[name]]
    if differ:
        raise CampaignError(
            f"token: {token!r} was asked before with another {' and another '.join(differ)};"
            " take another token, or ask for the same"
        )
