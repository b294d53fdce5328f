"""What a setting is worth: the policies of a run beside the same ones of another, seed by seed.

python -m launch.paired --before=results/davis --after=results/davis_features

Each run is a directory that launch.run left. For every policy that both have finished, the table
has both regrets at fractions of the horizon, and after minus before over paired seeds with its 95 %
interval, in regret and in percent of the regret before. The runs must be of the
same data, seeds and horizon: a difference means nothing otherwise.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from launch import files, tables
from launch.command import fail, one_line, parse
from launch.settings import ConfigError
from launch.usage import usage
from smc_jax.simulation.regret import Curves, at_fractions, paired_interval

BEFORE = flags.DEFINE_string("before", None, "The directory of a finished run.")
AFTER = flags.DEFINE_string("after", None, "The directory of the run that is compared with it.")

# What two runs must share, as `summary.json` tells it.
SHARED = ("data", "rows", "columns", "horizon", "initial", "seeds", "true_rank")


def load(name: str, workdir: str) -> tuple[dict[str, Any], dict[str, Curves]]:
    """The setting of a finished run, and the curves of its policies."""
    try:
        setting = json.loads((Path(workdir) / "summary.json").read_text())["setting"]
        return setting, files.load_curves(Path(workdir))
    except ConfigError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"{name}: cannot read {workdir}: {error}") from error


def check_alike(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Refuses runs that are not of the same experiment but for what is compared."""
    for field in SHARED:
        one, other = first.get(field), second.get(field)
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
        setting, before = load("before", BEFORE.value)
        other, after = load("after", AFTER.value)
        check_alike(setting, other)
        both = [name for name in before if name in after]
        if not both:
            raise ConfigError("after: no policy has finished in both runs")
        if len(before[both[0]].regret) < 2:
            raise ConfigError("after: pairs take two seeds at least")
        print(f"regret in {BEFORE.value}, in {AFTER.value}, and the second minus the first")
        for name in both:
            print("\n".join(lines(name, before[name].regret, after[name].regret)))


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
