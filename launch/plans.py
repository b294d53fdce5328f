"""Experiments that are run one after another under one bar, and reported as they are finished."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict
from tqdm import tqdm

from launch import commits, experiment, files, runner, settings, validation
from launch.command import announce

Summaries = dict[str, dict[str, Any]]  # by the titles of the experiments


class Plan(NamedTuple):
    """Experiments that belong together, and what is written of them."""

    experiments: dict[str, ConfigDict]  # by title, each as `validation.resolve` returned it
    folders: dict[str, Path]  # where the results of each go
    report: Callable[[Summaries], None]  # called after each experiment with all that are finished
    parts: tuple[str, ...] = ()  # files that are kept beside each run

    def waiting(self, title: str) -> list[str]:
        """The policies of an experiment that are not finished."""
        done = files.load_curves(self.folders[title])
        names = settings.policy_names(self.experiments[title])
        return [name for name in names if name not in done]


def stamp(summaries: Summaries) -> str:
    """One sentence about the commits that the summaries were made at."""
    return commits.stamp(
        one["commit"] for summary in summaries.values() for one in summary["policies"].values()
    )


def cost(config: ConfigDict) -> float:
    """What one refit and the picks after it cost, roughly, in operations.

    A step of the inference goes over all entries; a pick changes one column of every draw.
    """
    picks = settings.horizon(config) / settings.refits(config)
    step, pick = config.columns * _steps(config), picks * config.rank * config.ids.draws
    return config.seeds * config.rows * (step + pick)


def _steps(config: ConfigDict) -> int:
    """How often a refit goes over the matrix."""
    if config.inference.method == "svi":
        return config.inference.steps
    if config.model.loadings == "signed":
        return config.gibbs.draws * config.gibbs.sweeps
    stored, adapted = config.hmc.draws * config.hmc.thin, config.hmc.chains * config.hmc.transitions
    return (stored + adapted) * config.hmc.leapfrogs


class Share:
    """The bar of one experiment in a bar over many: a refit counts as much as it costs."""

    def __init__(self, bar: tqdm, each: float) -> None:
        self.bar, self.each = bar, each

    @property
    def n(self) -> float:
        """The refits that the whole bar shows."""
        return self.bar.n / self.each

    @n.setter
    def n(self, refits: float) -> None:
        self.bar.n = refits * self.each

    @property
    def initial(self) -> float:
        """The refits that do not count in the speed."""
        return self.bar.initial / self.each

    @initial.setter
    def initial(self, refits: float) -> None:
        self.bar.initial = refits * self.each

    def update(self, refits: float = 1) -> None:
        """Counts refits."""
        self.bar.update(refits * self.each)

    def set_postfix_str(self, text: str) -> None:
        """Shows what is going on."""
        self.bar.set_postfix_str(text)

    def set_description(self, text: str) -> None:
        """Shows which experiment it is."""
        self.bar.set_description(text)


def run(plans: Sequence[Plan]) -> list[Summaries]:
    """Runs what is not finished of each plan; returns the summaries of each.

    Nothing is run before every folder was looked at: one that holds another experiment is refused.
    """
    jobs = [(plan, title, config) for plan in plans for title, config in plan.experiments.items()]
    for plan, title, config in jobs:
        files.open_workdir(plan.folders[title], config, validation.defaults(config))

    def costs(config: ConfigDict, policies: Sequence[str]) -> float:
        return cost(config) * settings.refits(config) * len(policies)

    total = sum(costs(config, settings.policy_names(config)) for _, _, config in jobs)
    left = sum(costs(config, plan.waiting(title)) for plan, title, config in jobs)
    announce(experiment.placement(jobs[0][2])["devices"])
    found: list[Summaries] = []
    with tqdm(
        total=total,
        initial=total - left,
        bar_format="{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}",
        smoothing=0.0,  # policies differ in speed: the average over all tells the time left best
    ) as bar:
        for plan in plans:
            found.append({})
            for title, config in plan.experiments.items():
                each = Share(bar, cost(config))
                found[-1][title] = runner.run(config, plan.folders[title], each)
                plan.report(found[-1])
    return found
