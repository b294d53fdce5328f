"""From Information-Directed Sampling to the letter to ours, one setting at a time."""

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from launch import files, plans, tables, validation
from launch.settings import ConfigError
from smc_jax.policies.registry import IDS_TO_THE_LETTER
from smc_jax.simulation.regret import FRACTIONS

POLICY = "ids"
# Fields of the config that the paper has, by their full names, and their values.
LETTER = {f"{POLICY}.{name}": value for name, value in IDS_TO_THE_LETTER.items()}
LETTER["inference.method"] = "svi"


class Case(NamedTuple):
    """One line of the table: `ids` with some settings."""

    title: str
    settings: dict[str, Any]  # by the names of LETTER

    def folder(self) -> str:
        """The name of the folder, which says what is in it."""
        return "_".join(f"{_short(name)}-{value}" for name, value in self.settings.items())


def cases(config: ConfigDict) -> list[Case]:
    """The way from the paper's settings to ours, and ours with each change taken back.

    Each case on the way differs from the case before in one setting; the last one is ours. Each
    case after it differs from ours in one setting. The last change taken back is the case before
    ours again, and its title says so.
    """
    ends = {name: operator.attrgetter(name)(config) for name in LETTER}
    changed = [name for name, value in LETTER.items() if ends[name] != value]
    made = [Case("to the letter", dict(LETTER))]
    for name in changed:
        settings = made[-1].settings | {name: ends[name]}
        made.append(Case(f"+ {_told(name, ends[name])}", settings))
    made[-1] = made[-1]._replace(title=f"{made[-1].title} = ours")
    on_the_way = {case.folder(): case.title for case in made}
    for name in changed:
        back = LETTER[name]
        case = Case(f"ours, but {_told(name, back)}", ends | {name: back})
        if same := on_the_way.get(case.folder()):
            case = case._replace(title=f"{case.title} (the same run as: {same})")
        made.append(case)
    return made


def _told(name: str, value: Any) -> str:
    """A setting as it would be given; None of `best_of` has a meaning of its own."""
    return f"{_short(name)}={'half of H' if value is None else value}"


def _short(name: str) -> str:
    """The last part of a full name."""
    return name.rpartition(".")[2]


def plan(config: ConfigDict, workdir: Path) -> plans.Plan:
    """The experiment with `ids` alone, once for each different case, ours first.

    Raises ConfigError where the config cannot be run, or has the paper's settings already.
    """
    resolved = validation.resolve(config)
    made = cases(resolved)
    if len(made) == 1:
        raise ConfigError(f"config.{POLICY}: is to the letter already; there are no steps to take")
    ours = next(case for case in made if case.title.endswith("= ours"))
    experiments = {}
    for case in (ours, *made):
        trial = resolved.copy_and_resolve_references()
        with trial.ignore_type():
            trial.policies, trial.reference = POLICY, None
            trial.update_from_flattened_dict(case.settings)
        validation.validate(trial)
        experiments[case.folder()] = trial
    folders = {title: workdir / title for title in experiments}

    def report(summaries: plans.Summaries) -> None:
        lines = rows(made, ours, folders, summaries)
        stamp = plans.stamp(summaries)
        setting = next(iter(summaries.values()))["setting"]
        files.write_text(workdir / "steps.md", markdown(lines, setting, stamp))
        files.write_text(workdir / "steps.csv", as_csv(lines))

    return plans.Plan(experiments, folders, report)


class Row(NamedTuple):
    """The figures of one case, at fractions of the horizon."""

    title: str
    regret: dict[str, float]
    sem: dict[str, float | None]
    minus_ours: dict[str, list[float]]  # none for ours, and for one seed
    commit: str


def rows(
    made: list[Case], ours: Case, folders: Mapping[str, Path], summaries: plans.Summaries
) -> list[Row]:
    """The cases that are finished, in the order of the walk."""
    curves = {name: files.load_curves(folders[name])[POLICY] for name in summaries}
    found = []
    for case in made:
        name = case.folder()
        if name in summaries:
            one = summaries[name]["policies"][POLICY]
            compared = tables.paired(name, curves, [ours.folder()]).get(ours.folder(), {})
            found.append(Row(case.title, one["regret"], one["sem"], compared, one["commit"]))
    return found


def markdown(lines: list[Row], setting: Mapping[str, Any], stamp: str) -> str:
    """The table for people."""
    first, last = setting["seeds"]
    told = (
        "Cumulative regret of IDS at fractions of the horizon, mean ± standard error, and paired"
        " differences from ours with 95 % intervals. `to the letter` is the paper's algorithm; each"
        " line with a plus changes one more setting; each line after ours takes one change back."
        " The last line is the line before ours again: both take back the last change."
    )
    about = f"Data: {setting['data']}, {setting['rows']} x {setting['columns']}"
    if setting["true_rank"] is not None:
        about += f", true rank {setting['true_rank']}"
    about += f"; H = {setting['horizon']:,}; seeds {first} to {last}. {stamp}"
    percents = list(map(str, FRACTIONS))
    head = ["settings", *(f"{p} %" for p in percents)]
    head += [f"minus ours, {p} %" for p in percents]
    cells = []
    for one in lines:
        regret = [tables.mean_cell(one.regret[p], one.sem[p]) for p in percents]
        minus = [
            tables.difference_cell(one.minus_ours[p]) if p in one.minus_ours else ""
            for p in percents
        ]
        cells.append([one.title, *regret, *minus])
    return "\n".join([told, "", about, "", *tables.block(head, cells)]) + "\n"


def as_csv(lines: list[Row]) -> str:
    """The table for programs."""
    percents, ends = list(map(str, FRACTIONS)), ("", "_low", "_high")
    head = [f"{kind}_{p}" for kind in ("regret", "sem") for p in percents]
    head += [f"minus_ours_{p}{end}" for p in percents for end in ends]
    cells: list[list[Any]] = []
    for one in lines:
        values: list[Any] = [one.regret[p] for p in percents] + [one.sem[p] for p in percents]
        for p in percents:
            values += one.minus_ours.get(p, 3 * [None])
        cells.append([one.title, *values, one.commit])
    return tables.csv_text(["settings", *head, "commit"], cells)
