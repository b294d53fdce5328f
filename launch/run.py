"""Runs an experiment: every policy of a config on every seed, to curves, a table and a picture.

python -m launch.run --config=configs/synthetic.py --workdir=DIR [--config.seeds=4 ...]

--help lists every field that can be set. `--config.policies=ids,module:function` runs a policy of
your own: a factory (setting, **settings) -> Policy in a module that can be imported from here.
"""

import functools
from collections.abc import Sequence

from absl import app, flags
from ml_collections import config_flags

from launch import runner, tables
from launch.command import parse, run_in_workdir
from launch.usage import usage_with_fields

CONFIG = config_flags.DEFINE_config_file("config", help_string="The experiment, configs/*.py.")
WORKDIR = flags.DEFINE_string("workdir", None, "Where the results go.")


def main(arguments: Sequence[str]) -> None:
    """Runs, and prints the table."""
    summary = run_in_workdir(arguments, CONFIG.value, WORKDIR.value, runner.run)
    print(tables.table(summary))
    ids = ", ids.csv" if CONFIG.value.data == "table" else ""
    left = f"curves.npz, summary.json, config.json, commits.json{ids} and regret.png"
    print(f"\n{left} are in {WORKDIR.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage_with_fields))
