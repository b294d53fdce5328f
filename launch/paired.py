"""What a setting is worth: the policies of a run beside the same ones of another, seed by seed.

python -m launch.paired --before=results/davis --after=results/davis_features

Each run is a directory that launch.run left. For every policy that both have finished, the table
has both regrets at fractions of the horizon, and after minus before over paired seeds with its 95 %
interval, in regret and in percent of the regret before. Runs whose policies did not meet the same
matrices, offers, answers and horizon are refused: a difference would mean nothing.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags

from launch import files, tables
from launch.command import fail, one_line, parse
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.simulation.regret import Curves, at_fractions, paired_interval

BEFORE = flags.DEFINE_string("before", None, "The directory of a finished run.")
AFTER = flags.DEFINE_string("after", None, "The directory of the run that is compared with it.")

# What may differ between two runs: the policies, what they know, and how a run is computed. So may
# all groups of the config but those of OF_WORLD, and of these the fields that policies alone have.
MAY_DIFFER = (
    *("policies", "reference", "rank", "standardise", "refits", "equalise_strength"),
    *("row_features", "column_features", "entry_prediction", "features_checksum"),
    *("prior", "prior_temper", "prior_checksum", "history", "vmap_width", "shard"),
)
OF_WORLD: dict[str, tuple[str, ...]] = {"offers": (), "silence": ("heed", "learn_value_slope")}


class Run(NamedTuple):
    """A finished run."""

    world: dict[str, Any]  # the fields that decide what every policy meets
    curves: dict[str, Curves]


def world_of(config: dict[str, Any]) -> dict[str, Any]:
    """The fields of a recorded config that decide what every policy meets, by their full names."""
    found = {}
    for name, value in config.items():
        if not isinstance(value, dict):
            if name not in MAY_DIFFER:
                found[name] = value
        elif name in OF_WORLD:
            own = OF_WORLD[name]
            found |= {f"{name}.{field}": x for field, x in value.items() if field not in own}
    return found


def load(name: str, workdir: str) -> Run:
    """A finished run, by the flag that names its directory."""
    folder = Path(workdir)
    try:
        config = json.loads((folder / "config.json").read_text())["config"]
        summary = json.loads((folder / "summary.json").read_text())
        told = {"best": summary["best"], "picks": summary["setting"]["horizon"]}
        return Run(world_of(config) | told, files.load_curves(folder))
    except ConfigError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"{name}: cannot read {workdir}: {error}") from error


def check_alike(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Refuses runs whose policies did not meet the same."""
    for field in sorted({*before, *after}):
        one, other = before.get(field), after.get(field)
        if one != other:
            raise ConfigError(f"after: it differs in {field}, which is {other} and was {one}")


def lines(policy: str, first: np.ndarray, second: np.ndarray) -> list[str]:
    """A line a fraction of the horizon: both regrets [seeds, horizon], and their difference."""
    found, ours, theirs = [], at_fractions(second), at_fractions(first)
    for percent, values in theirs.items():
        difference = paired_interval(ours[percent], values)
        part = np.array(difference) / (values.mean() or np.nan)
        cells = tables.cell(values, 1) + tables.cell(ours[percent], 1)
        cells += f"{tables.difference_cell(list(difference)):>28}"
        cells += "{:>+12.1%} [{:+.1%}, {:+.1%}]".format(*part)
        found.append(f"{policy:<20}{percent:>4} %{cells}")
    return found


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    del arguments
    if not (BEFORE.value and AFTER.value):
        fail("give --before=DIR and --after=DIR, directories of finished runs")
    with one_line():
        (world, before), (other, after) = load("before", BEFORE.value), load("after", AFTER.value)
        check_alike(world, other)
        both = [name for name in before if name in after]
        if not both:
            raise ConfigError("after: no policy has finished in both runs")
        if len(before[both[0]].regret) < 2:
            raise ConfigError("after: pairs take two seeds at least")
        print(f"regret in {BEFORE.value}, in {AFTER.value}, and the second minus the first")
        for name in both:
            if tables.comparable(before[name], after[name]):
                print("\n".join(lines(name, before[name].regret, after[name].regret)))
            else:
                print(f"{name:<20}not compared: the two runs made different numbers of picks")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
