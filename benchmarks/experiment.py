"""The synthetic experiment at any size, for the benchmarks that time a policy in it."""

from typing import Any, NamedTuple

from smc_jax import presets
from smc_jax.data.synthetic import synthetic
from smc_jax.policies.base import Policy
from smc_jax.simulation.environment import Environment, make_environment
from smc_jax.simulation.loop import Loop, make_loop


class Experiment(NamedTuple):
    """Matrices of rank 5 with a noise variance of 0.1, and the model that policies fit to them."""

    preset: presets.Preset
    rows: int  # D
    columns: int  # N
    horizon: int  # H
    initial: int  # size of the initial design
    refits: int = 40

    def environment(self) -> Environment:
        """Everything that is left is on offer."""
        data = synthetic(rows=self.rows, columns=self.columns)
        return make_environment(data, initial=self.initial)

    def policy(self, name: str, **settings: Any) -> Policy:
        """A policy of the preset."""
        return self.preset.policy(name, horizon=self.horizon, **settings)

    def loop(self, policy: Policy, environment: Environment | None = None) -> Loop:
        """The policy in this environment, or in another one of the same horizon."""
        environment = self.environment() if environment is None else environment
        return make_loop(environment, policy, horizon=self.horizon, refits=self.refits)

    def already_fitted(self) -> "Experiment":
        """The same, but a refit makes no step: the fit is there."""
        steps = {"first_steps": 0, "steps": 0}
        inference = {**self.preset.inference, **steps}
        return self._replace(preset=self.preset._replace(inference=inference))


def make_experiment(
    rows: int,
    columns: int,
    *,
    ratings: bool = False,
    seen: float | None = None,
    refits: int = 40,
    **inference: Any,
) -> Experiment:
    """The experiment over its whole horizon, K (D + N - K), with the model fitted by SVI.

    Args:
      rows: D.
      columns: N.
      ratings: whether the model and the settings are those for ratings, or the paper's.
      seen: size of the initial design as a fraction of all entries; None is a twentieth of the
        horizon.
      refits: into how many batches the horizon is divided.
      **inference: settings of the fit that are not their defaults.
    """
    rank = min(20, rows, columns)
    preset = (presets.ratings if ratings else presets.paper)(rank=rank, method="svi", **inference)
    horizon = rank * (rows + columns - rank)
    initial = round(0.05 * horizon if seen is None else seen * rows * columns)
    return Experiment(preset, rows, columns, horizon, initial, refits)
