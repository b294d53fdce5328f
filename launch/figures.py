"""Makes every figure and table of the docs from this code: `make figures`.

python -m launch.figures [--workdir=results/figures] [--only=figure1,steps] [--small]

| name | what it is |
|---|---|
| figure1 | synthetic matrices of five true ranks, H = K (N + D - K) with the bound K on the rank |
| figure1_true_rank | the same with H = K* (N + D - K*), K* the true rank of the panel |
| figure2 | ratings of jokes and films |
| replay | films as they were rated, nothing completed |
| steps | from IDS to the letter to ours, at true rank 5 of Figure 1 |
| ablation | starts and optimisers, on development seeds |
| growth | how regret grows with rank, sizes, horizon and noise |
| tables | reactions, kinases and pipelines, without and with features |
| arrivals | ten users of jokes and films at each pick |
| silence | users who may not answer, of synthetic matrices and of films |
| history | jokes, with 500 users known beforehand |

Each goes to a folder of its own name. Where the data of one are not to be had, it is left out in
one line, unless --only names it. One bar tells the time left over all of them. Started again, the
command skips what is finished, and resumes what was interrupted. Every table says which commit it
was made at; results of another commit, of an unknown one, or of changes that nobody committed
are not added to, unless --mixed allows it.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags
from ml_collections import ConfigDict

from configs import (
    arrivals,
    arylation,
    buchwald,
    davis,
    figure1,
    figure2,
    history,
    oboe,
    pkis1,
    replay,
    silence,
    synthetic,
)
from launch import commits, growth, panels, plans, starts, validation, walk
from launch.command import parse, run_in_workdir
from launch.settings import ConfigError, DataUnavailable, policy_names
from launch.usage import usage

WORKDIR = flags.DEFINE_string("workdir", "results/figures", "Where the results go.")
ONLY = flags.DEFINE_list("only", [], "Names of what is made; none makes all.")
SMALL = flags.DEFINE_bool("small", False, "A rehearsal: two seeds of small matrices.")
MIXED = flags.DEFINE_bool("mixed", False, "Adds to results of another, unknown or dirty commit.")

SEEDS = 10
# The published matrices, without and with features.
MATRICES = {
    "davis": davis,
    "pkis1": pkis1,
    "arylation": arylation,
    "buchwald": buchwald,
    "oboe": oboe,
}
# What a rehearsal changes; recorded data keep their rows.
SMALLER = {"columns": 30, "rank": 5, "seeds": 2, "refits": 5}
SMALLER_SYNTHETIC = SMALLER | {"rows": 15}
SMALLER_RECORDED = SMALLER | {"horizon": 50}
SMALLER_VARIED = {"true_rank": (1, 2), "columns": (15, 30), "horizon": (50, 100)}
Changes = Mapping[str, Any]


def _changed(config: ConfigDict, *changes: Changes) -> ConfigDict:
    """The config with other values of some fields, by their full names."""
    for each in changes:
        config.update_from_flattened_dict(each)
    return config


def _synthetic(small: bool, changes: Changes, **own: Any) -> ConfigDict:
    return _changed(synthetic.get_config(), own, SMALLER_SYNTHETIC if small else {}, changes)


def _figure1(reading: str, small: bool, changes: Changes) -> dict[str, ConfigDict]:
    fewer = SMALLER_SYNTHETIC | {"panel_values": (1, 5)} if small else {}
    own = {"horizon_reading": reading}
    return panels.resolve(_changed(figure1.get_config(), own, fewer, changes))


def _panels(config: ConfigDict, small: bool, changes: Changes) -> dict[str, ConfigDict]:
    return panels.resolve(_changed(config, SMALLER if small else {}, changes))


def _recorded(
    configs: Mapping[str, ConfigDict], small: bool, changes: Changes
) -> dict[str, ConfigDict]:
    """Experiments that share a picture, on ten seeds each."""
    fewer = SMALLER_RECORDED if small else {}
    return {
        title: validation.resolve(_changed(config, {"seeds": SEEDS}, fewer, changes))
        for title, config in configs.items()
    }


def _matrices() -> dict[str, ConfigDict]:
    return {
        name + (" features" if known == "features" else ""): module.get_config(known)
        for name, module in MATRICES.items()
        for known in ("values", "features")
    }


def makers(
    workdir: Path, *, small: bool = False, changes: Changes | None = None
) -> dict[str, Callable[[], plans.Plan]]:
    """What can be made, by name, each as a function that makes its plan and reads its data.

    Args:
      workdir: where the results go.
      small: whether it is a rehearsal.
      changes: fields of all configs, by their full names, with other values.
    """
    given = changes or {}
    experiments: dict[str, Callable[[], dict[str, ConfigDict]]] = {
        "figure1": lambda: _figure1("bound", small, given),
        "figure1_true_rank": lambda: _figure1("true_rank", small, given),
        "figure2": lambda: _panels(figure2.get_config(), small, given),
        "replay": lambda: _recorded({"films as rated": replay.get_config()}, small, given),
        "tables": lambda: _recorded(_matrices(), small, given),
        "arrivals": lambda: _panels(arrivals.get_config(), small, given),
        "silence": lambda: _recorded(
            {name: silence.get_config(name) for name in ("synthetic", "movielens")}, small, given
        ),
        "history": lambda: _recorded({"jokes": history.get_config()}, small, given),
    }
    made: dict[str, Callable[[], plans.Plan]] = {
        name: lambda name=name, of=of: panels.plan_of(of(), workdir / name)  # type: ignore[misc]
        for name, of in experiments.items()
    }
    made["steps"] = lambda: walk.plan(
        _synthetic(small, given, loadings="mixed", seeds=SEEDS), workdir / "steps"
    )
    made["ablation"] = lambda: starts.plan(
        _synthetic(small, given, first_seed=1000, seeds=SEEDS), workdir / "ablation", seen=0.2
    )
    varied = SMALLER_VARIED if small else growth.VARIED
    made["growth"] = lambda: growth.plan(
        _synthetic(small, given, seeds=SEEDS), workdir / "growth", varied
    )
    return made


def check_commits(made: Iterable[plans.Plan], commit: str) -> None:
    """Refuses to add to results that were, or may have been, made by other code than a commit's."""
    for plan in made:
        for title, folder in plan.folders.items():
            asked = policy_names(plan.experiments[title])
            for name, found in commits.kept(folder, asked, plan.parts).items():
                others = [one for one in found if one != commit or not commits.names_code(one)]
                if others:
                    told = f"workdir: {folder} holds {name} of commit {', '.join(others)}"
                    raise ConfigError(f"{told}{_fix(commit)}, or say --mixed")


def _fix(commit: str) -> str:
    """What to do about results of other code, where this code is of a commit."""
    if commit == commits.UNKNOWN:
        return "; work in a clone, where git names the commit, and choose another directory"
    if not commits.names_code(commit):
        return f", and this is {commit}; commit what you changed, and choose another directory"
    return f", and this is {commit}; choose another directory"


def make(
    workdir: Path,
    *,
    only: Sequence[str] = (),
    small: bool = False,
    mixed: bool = False,
    changes: Changes | None = None,
) -> list[str]:
    """Runs what is not finished; returns the names of what was asked for, and could be made."""
    known = makers(workdir, small=small, changes=changes)
    for name in only:
        if name not in known:
            raise ConfigError(f"only: no figure {name!r}; choose from {', '.join(known)}")
    made: dict[str, plans.Plan] = {}
    for name in dict.fromkeys(only or known):
        try:
            made[name] = known[name]()
        except DataUnavailable as error:
            if only:
                raise
            print(f"{name} is left out: {error}", file=sys.stderr)
    if not mixed:
        check_commits(made.values(), commits.current())
    plans.run(list(made.values()))
    return list(made)


def main(arguments: Sequence[str]) -> None:
    """Runs, and says where the results are."""

    def action(config: ConfigDict, workdir: Path) -> list[str]:
        del config  # each figure has its own
        return make(workdir, only=ONLY.value, small=SMALL.value, mixed=MIXED.value)

    names = run_in_workdir(arguments, ConfigDict(), WORKDIR.value, action)
    print(f"the pictures and tables of {', '.join(names)} are in {WORKDIR.value}")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage))
