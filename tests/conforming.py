"""All policies, small enough to be tried one after another, by title."""

from smc_jax import presets
from smc_jax.policies import POLICIES

ROWS, COLUMNS = 5, 6
SMALL = {
    "ids": {"draws": 4, "best_of": 2},
    "ids_without_history": {"draws": 4, "best_of": 2},
    "ids_paper": {"draws": 4, "bins": 4},
    "oracle_ids": {"draws": 4, "best_of": 2},
    "oracle_greedy": {"draws": 4},
    "mean_oracle_ids": {"draws": 4, "best_of": 2},
    "mean_oracle_greedy": {"draws": 4},
    "greedy": {"draws": 4},
    "ucb": {"draws": 4},
    "optspace": {"rank": 2, "steps": 5},
    "particle": {"particles": 4, "rank": 2},
    "icf": {"rank": 2, "draws": 3, "sweeps": 1, "first_sweeps": 3},
    "ids_gibbs": {"rank": 2, "draws": 3, "sweeps": 1, "first_sweeps": 3},
    "greedy_gibbs": {"rank": 2, "draws": 3, "sweeps": 1, "first_sweeps": 3},
    "ids_particles": {"particles": 4, "rank": 2, "draws": 3},
    "greedy_particles": {"particles": 4, "rank": 2, "draws": 3},
    "ucb_particles": {"particles": 4, "rank": 2, "draws": 3},
    "ids_pairwise": {"draws": 3},
    "greedy_pairwise": {"draws": 3},
}
VARIANTS = {  # settings that choose in another way
    "ids histogram": ("ids", {"draws": 4, "gain": "histogram", "bins": 4}),
    "ids two_action": ("ids", {"draws": 4, "selection": "two_action"}),
    "ids frozen": ("ids", {"draws": 4, "conditioned": False, "scope": "covariance"}),
    "thompson pool": ("thompson", {"pool": 4}),
    "thompson fresh": ("thompson", {"pool": 0}),
    "icf linucb": ("icf", {**SMALL["icf"], "rule": "linucb"}),
}
PRESET = presets.Preset(rank=2, inference={"first_steps": 10, "steps": 5, "window": 5})
# The same, fitted by chains.
CHAINS = {
    "ids chains": PRESET._replace(
        inference=PRESET.inference | {"method": "mcmc"},
        hmc={"draws": 4, "first_transitions": 3, "transitions": 1, "leapfrogs": 2},
    ),
    "ids signed chains": PRESET._replace(
        model={"loadings": "signed", "intercepts": True, "common": 10.0, "noise_spread": 0.25},
        inference=PRESET.inference | {"method": "mcmc"},
        gibbs={"draws": 4, "first_sweeps": 3, "sweeps": 1},
    ),
}
ALL = [*POLICIES, *VARIANTS, *CHAINS]


def make(title, **settings):
    if title in CHAINS:
        return CHAINS[title].policy("ids", **{**SMALL["ids"], **settings})
    name, own = VARIANTS.get(title, (title, SMALL.get(title, {})))
    return PRESET.policy(name, **{**own, **settings})
