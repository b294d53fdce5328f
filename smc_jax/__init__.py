"""Sequential matrix completion: which entries to try next, so that the best are found early."""

from smc_jax import presets, priors
from smc_jax.beliefs.base import Belief, Diagnostics
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.history import History, with_history
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.told import told
from smc_jax.beliefs.units import standardised
from smc_jax.beliefs.variational import svi, variational
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.plates import Plates
from smc_jax.data.ratings import Ratings
from smc_jax.data.recorded import recorded
from smc_jax.data.synthetic import synthetic
from smc_jax.data.table import read_table
from smc_jax.looks import Looks
from smc_jax.model.gamma_process import Model, gamma_process
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.greedy import greedy
from smc_jax.policies.heeding import heeding_silence
from smc_jax.policies.ids import ids
from smc_jax.policies.registry import POLICIES, make_policy
from smc_jax.policies.thompson import thompson
from smc_jax.policies.ucb import ucb
from smc_jax.predictions import Predicted, predict
from smc_jax.recommender import Recommender, recommender
from smc_jax.simulation.environment import Environment, make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.offers import arrivals, budgets, calendar, costs, restricted, stock
from smc_jax.simulation.regret import Curves, paired_interval
from smc_jax.simulation.run import run
from smc_jax.simulation.silence import silent
from smc_jax.simulation.sweep import make_sweep
from smc_jax.types import Choice, Offer, Outcome

__version__ = "0.3.0"

__all__ = [
    "POLICIES",
    "Belief",
    "Campaign",
    "Choice",
    "Curves",
    "Diagnostics",
    "EarlierFit",
    "Environment",
    "History",
    "Looks",
    "Model",
    "Observations",
    "Offer",
    "Outcome",
    "Parameters",
    "Plates",
    "Policy",
    "Predicted",
    "Ratings",
    "Recommender",
    "Setting",
    "arrivals",
    "budgets",
    "calendar",
    "costs",
    "gamma_process",
    "gibbs",
    "greedy",
    "hamiltonian",
    "heeding_silence",
    "ids",
    "make_environment",
    "make_loop",
    "make_policy",
    "make_sweep",
    "paired_interval",
    "pairwise",
    "particles",
    "predict",
    "presets",
    "priors",
    "read_table",
    "recommender",
    "recorded",
    "restricted",
    "run",
    "signed_gibbs",
    "silent",
    "standardised",
    "stock",
    "svi",
    "synthetic",
    "thompson",
    "told",
    "ucb",
    "variational",
    "with_history",
]
