"""Which start and which optimiser: ELBO, error on unseen entries, regret of ids, and time.

python -m launch.ablation --config=configs/synthetic.py --config.first_seed=1000 --config.seeds=4

ELBO, the mean over the last window of steps, and RMSE, in standard deviations of the entries, are
figures of one fit (first_steps steps) to entries seen at random; the regret and the seconds,
without compilation, are figures of the whole experiment with ids. The working directory gets
ablation.md and ablation.csv; the same command resumes what was interrupted.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from launch import plans, starts
from launch.command import parse, run_in_workdir
from launch.usage import usage

CONFIG = config_flags.DEFINE_config_file("config", "configs/synthetic.py", "The experiment.")
SEEN = flags.DEFINE_float("seen", 0.2, "Fraction of the entries that the single fit sees.")
WORKDIR = flags.DEFINE_string("workdir", "results/ablation", "Where the results go.")


def make(config: ConfigDict, workdir: Path) -> str:
    """Runs what is not finished; returns the table."""
    plans.run([starts.plan(config, workdir, SEEN.value)])
    return (workdir / "ablation.md").read_text()


def main(arguments: Sequence[str]) -> None:
    """Runs, and prints the table."""
    print(run_in_workdir(arguments, CONFIG.value, WORKDIR.value, make))
    print(f"ablation.md and ablation.csv are in {WORKDIR.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
