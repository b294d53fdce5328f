"""Who is served: the picks of finished runs by the users that they went to.

python -m launch.served --workdirs=results/jester,results/equalised --picture=served.png

Each run is a directory that launch.run left. Printed are, for every policy, the regret at the end,
the Gini coefficient of the picks over the columns (0: as many for each, 1: all for one), the share
that went to the tenth of the columns with the highest averages, how the picks correlate with the
average, and the share of columns that got none; means over the seeds.
"""

from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from launch import plot
from launch.command import fail, parse
from launch.service import describe, load
from launch.settings import ConfigError

WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of finished runs.")
PICTURE = flags.DEFINE_string("picture", None, "Where to draw picks against averages.")


def main(arguments: Sequence[str]) -> None:
    """Prints the table, and draws."""
    del arguments
    if not WORKDIRS.value:
        fail("give --workdirs=DIR,DIR of finished runs")
    try:
        runs = {name: load(Path(name)) for name in WORKDIRS.value}
        figures = {
            (run, policy): describe(served)
            for run, policies in runs.items()
            for policy, served in policies.items()
        }
    except ConfigError as error:
        fail(str(error))
    width = max(map(len, runs)) + 2
    head = ("regret", "gini", "top tenth", "correlation", "unserved")
    print(f"{'run':<{width}}{'policy':<12}" + "".join(f"{name:>13}" for name in head))
    for (run, policy), (regret, *others) in ((name, one.values()) for name, one in figures.items()):
        cells = f"{regret:>13.0f}" + "".join(f"{value:>13.2f}" for value in others)
        print(f"{run:<{width}}{policy:<12}{cells}")
    if PICTURE.value:
        panels = {
            f"{run}, {policy}": (served.average, served.picks)
            for run, policies in runs.items()
            for policy, served in policies.items()
        }
        if not panels:
            fail("picture: no policy has finished in these runs")
        picture = Path(PICTURE.value)
        try:
            picture.parent.mkdir(parents=True, exist_ok=True)
            plot.served_plot(picture, panels)
        except OSError as error:
            fail(f"picture: cannot write {picture}: {error.strerror}")
        print(f"picks against averages are in {PICTURE.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
