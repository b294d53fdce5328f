"""Jester: 100 jokes, 1000 of the 7,200 users who rated all of them, drawn by the seed.

Commands:
  python -m launch.run --config=configs/jester.py --workdir=results/jester
  python -m launch.run --config=configs/jester.py:paper --workdir=results/jester_paper

The ratings are downloaded unless the folder that SMC_DATA_DIR names holds them. The model has
signed loadings whose rows are alike a priori, an intercept a row and a noise a column; with
`:paper` it is that of the paper, non-negative loadings on standardised values, IDS measures regret
from the one best entry, and Thompson draws have the noise of an entry. docs/ratings.md tells how
the settings were found.

Time: 25 minutes for five seeds on two cores.

Expected (seeds 0-4), regret at 10, 25, 50 and 100 % of the horizon of 21,600:
  ids          7115   18150   34177   60574   with `:paper` 12715   28397   59361   102708
  thompson    13677   30006   51739   85504
  oracle      14048   31302   54936   88614
  mean_oracle 13042   28714   50842   83357
  greedy       6717   18182   37068   61270
  random      17479   42366   79891  139723
"""

from ml_collections import config_dict

from configs import base

MODELS = ("ratings", "paper")


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on jokes, with a model for ratings or the paper's own."""
    if model not in MODELS:
        raise ValueError(f"config: unknown model {model!r}; choose from {', '.join(MODELS)}")
    config = base.get_config()
    config.policies = "ids,thompson,oracle,mean_oracle,greedy,random"
    config.seeds = 5
    config.data = "jester"
    config.rows = 100
    config.columns = 1000
    config.standardise = True
    if model == "ratings":
        config.model.loadings = "signed"
        config.model.intercepts = True
        config.model.noise_spread = 0.25
        config.model.common = 10.0
        config.inference.learning_rate = 0.01
        config.ids.best_of = config.oracle.best_of = config.mean_oracle.best_of = None
        config.thompson.noisy = False
    config.oracle.covariance = "second_moment"  # the paper's near-oracle
    config.empirical.centred = True
    config.optspace.rank = 4
    config.optspace.centred = True
    config.optspace.penalty = 0.03
    config.particle.rank = 2
    config.particle.noise_variance = 0.5
    config.particle.particles = 30
    config.icf.rank = 2
    return config
