"""Grids of settings, as given on the command line: FIELD=VALUE,VALUE ... separated by blanks."""

import ast
import itertools
from typing import Any

from ml_collections import ConfigDict

from launch.settings import ConfigError


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

    A field is one of the group, which is a policy, or `model` or `inference`; where the group has
    none of that name it is a field of the config itself, such as `row_features`.
    """
    made = {}
    for cell in combinations(grid):
        trial = config.copy_and_resolve_references()
        for field, value in cell.items():
            holder = trial[group] if field in trial.get(group, {}) else trial
            if field not in holder or isinstance(holder[field], ConfigDict):
                raise ConfigError(f"grid: {group} has no setting {field!r}, nor has the config")
            with trial.ignore_type():
                holder[field] = value
        made[" ".join(f"{field}={value}" for field, value in cell.items()) or "defaults"] = trial
    return made
