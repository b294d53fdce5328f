r"""From IDS to the letter to ours: the regret of `ids` as its settings change one at a time.

python -m launch.steps --config=configs/synthetic.py --workdir=DIR [--config.seeds=4 ...]

The first line of the table is the paper's algorithm: theta is the covariance, the information is
found from histograms, the ratio is frozen until the next refit, and regret is measured from the
single best entry, on the model fitted by SVI. Each further line takes one setting from the
config's group `ids`, and the last one its `inference.method`. The lines after that have all of
these but one; the last of them is the line before ours again, and is not run twice. A small one:

python -m launch.steps --config=configs/synthetic.py --workdir=DIR --config.rows=15 \
  --config.columns=30 --config.rank=5 --config.seeds=2

Every line is a run of its own in a folder of DIR. Started again, the command skips the runs that
are finished, and resumes the one that was interrupted. DIR gets steps.md and steps.csv, which are
written anew after each run.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from launch import plans, walk
from launch.command import parse, run_in_workdir
from launch.usage import usage_with_fields

CONFIG = config_flags.DEFINE_config_file("config", help_string="The experiment, configs/*.py.")
WORKDIR = flags.DEFINE_string("workdir", None, "Where the results go.")


def make(config: ConfigDict, workdir: Path) -> str:
    """Runs what is not finished; returns the table."""
    plans.run([walk.plan(config, workdir)])
    return (workdir / "steps.md").read_text()


def main(arguments: Sequence[str]) -> None:
    """Runs, and prints the table."""
    print(run_in_workdir(arguments, CONFIG.value, WORKDIR.value, make))
    print(f"steps.md and steps.csv are in {WORKDIR.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage_with_fields))
