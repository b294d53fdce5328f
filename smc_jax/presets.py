"""Model, inference and the settings of the policies in one call, as the launcher has them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jax.typing import ArrayLike

from smc_jax.beliefs.base import Belief
from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.history import heeding_history
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.starts import STARTS
from smc_jax.beliefs.units import standardised
from smc_jax.beliefs.variational import OPTIMISERS, svi, variational
from smc_jax.checks import one_of
from smc_jax.model.features import Features
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.informed import informed
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.equalised import equalised
from smc_jax.policies.registry import make_policy, named, settings_among

METHODS = ("mcmc", "svi")


def fitted_belief(
    *,
    rank: int = 20,
    standardise: bool = False,
    model: Mapping[str, Any] | None = None,
    method: str = "svi",
    start: str = "spectral",
    optimiser: str = "adam",
    learning_rate: float | None = None,
    first_steps: int = 1000,
    steps: int = 100,
    hmc: Mapping[str, Any] | None = None,
    gibbs: Mapping[str, Any] | None = None,
    features: Features | None = None,
    learn_value_slope: bool = False,
    **inference: Any,
) -> Belief:
    """The gamma process factor model, fitted to what was seen.

    Args:
      rank: K, the bound on the rank.
      standardise: whether the model is fitted to (y - mean) / deviation of what was seen first.
      model: settings of `gamma_process`.
      method: `svi`, stochastic variational inference, as in the paper; or `mcmc`, chains that go on
        from refit to refit: Hamiltonian Monte Carlo, started from a fit by SVI, where loadings are
        gamma, Gibbs sampling where they are signed.
      start: where the fit starts: `spectral`, `random` or `map`.
      optimiser: of SVI: `adam`, or `adadelta`, the paper's choice.
      learning_rate: of the optimiser; None is its own default.
      first_steps: gradient steps of the first fit by SVI.
      steps: gradient steps of every other refit by SVI.
      hmc: settings of `hamiltonian`, the chains of gamma loadings.
      gibbs: settings of `signed_gibbs`, the chains of signed ones, but for `learn_value_slope`.
      features: what is known of rows, columns and entries beforehand.
      learn_value_slope: whether who answers is learned with the model, and depends on the value;
        it is for signed loadings with `mcmc`.
      **inference: other settings of `svi`.
    """
    one_of("method", method, METHODS)
    one_of("start", start, STARTS)
    one_of("optimiser", optimiser, OPTIMISERS)
    prior = gamma_process(rank=rank, **(model or {}))
    known = Features() if features is None else features
    chains = method == "mcmc" and prior.signed
    if not (prior.settings["residual"] or (chains and known.rows is not None)):
        raise ValueError("model.residual: False needs method=mcmc and features of the rows")
    if "learn_value_slope" in (gibbs or {}):
        raise ValueError("gibbs: learn_value_slope is given beside it, not in it")
    if learn_value_slope and not chains:
        raise ValueError("learn_value_slope: needs method=mcmc and signed loadings")
    rate = () if learning_rate is None else (learning_rate,)
    gradient = OPTIMISERS[optimiser](*rate)

    def made(known: Features) -> Belief:
        own = prior if chains else informed(prior, known)
        begin, fit = STARTS[start](own), svi(model=own, optimiser=gradient, **inference)
        if chains:
            settings = gibbs or {}
            return signed_gibbs(own, begin, known, learn_value_slope=learn_value_slope, **settings)
        if method == "svi":
            belief = variational(own, begin, fit, first_steps=first_steps, steps=steps)
        else:
            belief = hamiltonian(own, begin, fit, first_steps=first_steps, **(hmc or {}))
        if not known.known():
            return belief

        def beside(table: ArrayLike | None, number: int) -> Belief:
            return made(known.beside(table, number))

        return heeding_history(belief._replace(beside=beside))

    return standardised(made(known)) if standardise else made(known)


class Preset(NamedTuple):
    """What an experiment fits, and the settings of its policies that are not their defaults."""

    rank: int = 20
    standardise: bool = False
    model: Mapping[str, Any] = {}
    inference: Mapping[str, Any] = {}
    hmc: Mapping[str, Any] = {}
    gibbs: Mapping[str, Any] = {}
    policies: Mapping[str, Mapping[str, Any]] = {}
    features: Features = Features()

    def belief(self, **inference: Any) -> Belief:
        """The fitted model, with other settings of the inference where some are given."""
        return fitted_belief(
            rank=self.rank,
            standardise=self.standardise,
            model=self.model,
            hmc=self.hmc,
            gibbs=self.gibbs,
            features=self.features,
            **{**self.inference, **inference},
        )

    def policy(
        self,
        name: str,
        *,
        horizon: int | None = None,
        entry_noise: bool = True,
        equalise: float | None = None,
        **settings: Any,
    ) -> Policy:
        """A policy by its name, on this preset's belief.

        Args:
          name: one of `policies.POLICIES`, or `module:function`.
          horizon: H, of which `best_of=None` takes half.
          entry_noise: whether the noise is part of the entry, as where each is seen once.
          equalise: the strength of `equalised`; None leaves the policy as it is.
          **settings: of the policy, in place of the preset's.
        """
        model = {**self.model, "residual": True}  # without features rows are on their own
        paper = self._replace(features=Features(), model=model).belief(
            method="svi", learn_value_slope=False
        )
        # A policy that ignores silence has a model that does so too.
        belief = self.belief(**({} if named(name).heeds else {"learn_value_slope": False}))
        setting = Setting(belief, entry_noise, self.standardise, horizon, paper)
        own = settings_among(name, self.policies) | settings
        made = make_policy(name, setting, **own)
        return made if equalise is None else equalised(made, strength=equalise)


DRAWS = {"draws": 48}  # as many as the chains store: an ensemble takes each of them once


def paper(*, rank: int = 20, **inference: Any) -> Preset:
    """The model of the paper on matrices such as its synthetic ones, fitted by chains.

    With `method="svi"` it is fitted as the paper does, and sooner.

    Args:
      rank: K, the bound on the rank.
      **inference: settings of `fitted_belief` that are not their defaults.
    """
    fitted = {"method": "mcmc", **inference}
    draws = DRAWS if fitted["method"] == "mcmc" else {}
    some = {"best_of": 16, **draws}
    return Preset(
        rank=rank,
        inference=fitted,
        policies={
            "ids": some,
            "greedy": draws,
            "oracle": some,
            "mean_oracle": some,
            "particle": {"noisy": True},
            "icf": {"noisy": True},
        },
    )


# Signed loadings that are alike a priori, and an intercept a row.
ALIKE: dict[str, Any] = {"loadings": "signed", "intercepts": True, "common": 10.0}


def ratings(*, rank: int = 20, **inference: Any) -> Preset:
    """A model for values with means, a scale and negative correlations, such as ratings.

    Loadings are signed and alike a priori, every row has an intercept and every column a noise.

    Args:
      rank: K, the bound on the rank.
      **inference: settings of `fitted_belief` that are not their defaults.
    """
    half = {"best_of": None}
    # The draws of an oracle differ in their samples alone, and an oracle has as many factors as
    # rows: of 100 x 1000 ratings each draw takes 41 MB.
    oracle = half | {"draws": 4}
    return Preset(
        rank=rank,
        standardise=True,
        model=ALIKE | {"noise_spread": 0.25},
        inference={"method": "mcmc", "learning_rate": 0.01, **inference},
        policies={
            "ids": half,
            "oracle": oracle | {"covariance": "second_moment"},
            "mean_oracle": oracle,
            "thompson": {"noisy": False},
            **RATING_BASELINES,
        },
    )


CAMPAIGN_DRAWS = 32


def campaign(*, rank: int = 10, fixed_noise: float | None = None, **inference: Any) -> Preset:
    """A model for values of any kind that were centred and scaled already.

    It is the model for ratings; where the noise is known, it is that of every column.

    Args:
      rank: K, the bound on the rank.
      fixed_noise: a known variance of a measurement, in units of the scaled values.
      **inference: settings of `fitted_belief` that are not their defaults.
    """
    spread = 0.25 if fixed_noise is None else 0.0
    return Preset(
        rank=rank,
        model=ALIKE | {"noise_spread": spread, "fixed_noise": fixed_noise},
        inference={"method": "mcmc", **inference},
        gibbs={"draws": CAMPAIGN_DRAWS, "sweeps": 4, "first_sweeps": 150},
    )


# The settings of other authors' policies for ratings, found on development seeds.
RATING_BASELINES: dict[str, dict[str, Any]] = {
    "empirical": {"centred": True},
    "optspace": {"rank": 4, "centred": True, "penalty": 0.03},
    "particle": {"rank": 2, "noise_variance": 0.5, "particles": 30},
    "icf": {"rank": 2},
}
