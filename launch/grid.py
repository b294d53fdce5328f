"""Grids of settings, as given on the command line: FIELD=VALUE,VALUE ... separated by blanks."""

import ast
import itertools
from typing import Any

from ml_collections import ConfigDict

from launch.settings import ConfigError

# Fields of the config itself: what is known beforehand, and in which units and rank it is fitted.
KNOWN = ("row_features", "column_features", "entry_prediction", "standardise", "rank")


def combinations(grid: str) -> list[dict[str, Any]]:
    """All settings of a grid such as `rank=2,5 guess=True`."""

    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    fields = []
    for part in grid.split():
        name, equals, values = part.partition("=")
        if not equals or not values:
            raise ConfigError(f"grid: give FIELD=VALUE,VALUE ..., got {part!r}")
        fields.append([(name, value(text)) for text in values.split(",")])
    return [dict(chosen) for chosen in itertools.product(*fields)]


def trials(config: ConfigDict, group: str, grid: str) -> dict[str, ConfigDict]:
    """A config for each combination of settings, which nobody has validated yet.

    A field is one of the group, which is a policy, or `model` or `inference`, or one of KNOWN: no
    other field of the config leaves the matrices as they are.
    """
    made = {}
    for cell in combinations(grid):
        trial = config.copy_and_resolve_references()
        for field, value in cell.items():
            if field not in trial.get(group, {}) and field not in KNOWN:
                raise ConfigError(f"grid: {group} has no setting {field!r}")
            holder = trial[group] if field in trial.get(group, {}) else trial
            with trial.ignore_type():
                holder[field] = value
        made[" ".join(f"{field}={value}" for field, value in cell.items()) or "defaults"] = trial
    return made
