r"""Runs the experiments of a figure, one a panel, to one picture and one table.

python -m launch.figure --config=configs/figure1.py --workdir=DIR [--config.seeds=4 ...]

A small one:

python -m launch.figure --config=configs/figure1.py --workdir=DIR --config.rows=15 \
  --config.columns=30 --config.rank=5 --config.panel_values="(1,3)" --config.seeds=2 \
  --config.policies=ids,thompson,random

Every panel is a run of its own in a folder of DIR. Started again, the command skips the policies
that are finished, and resumes the one that was interrupted. DIR gets figure.png, table.csv and
table.md, which are written anew after each panel.
"""

import functools
from collections.abc import Sequence

from absl import app, flags
from ml_collections import config_flags

from launch import panels, tables
from launch.command import parse, run_in_workdir
from launch.usage import usage_with_fields

CONFIG = config_flags.DEFINE_config_file("config", help_string="The figure, configs/figure*.py.")
WORKDIR = flags.DEFINE_string("workdir", None, "Where the results go.")


def main(arguments: Sequence[str]) -> None:
    """Runs, and prints the table of each panel."""
    summaries = run_in_workdir(arguments, CONFIG.value, WORKDIR.value, panels.make)
    for title, summary in summaries.items():
        print(f"\n{title}\n{tables.table(summary)}")
    print(f"\nfigure.png, table.csv and table.md are in {WORKDIR.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage_with_fields))
