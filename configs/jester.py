"""Jester: 100 jokes, 1000 of the 7,200 users who rated all of them, drawn by the seed.

Command:
  python -m launch.run --config=configs/jester.py --workdir=results/jester

The ratings are downloaded unless the folder that SMC_DATA_DIR names holds them. The model has
signed loadings and an intercept a row; --config.model.loadings=gamma
--config.model.intercepts=False --config.standardise=False is that of the paper.
"""

from ml_collections import config_dict

from configs import base


def get_config() -> config_dict.ConfigDict:
    """The paper's experiment on jokes."""
    config = base.get_config()
    config.policies = "ids,thompson,oracle,mean_oracle,greedy,random"
    config.seeds = 5
    config.data = "jester"
    config.rows = 100
    config.columns = 1000
    config.standardise = True
    config.model.loadings = "signed"
    config.model.intercepts = True
    config.model.noise_spread = 0.25
    config.model.common = 10.0
    config.inference.learning_rate = 0.01
    config.ids.best_of = (
        10_800  # half of the horizon: as many picks as are still to come on average
    )
    config.oracle.covariance = "second_moment"  # the paper's near-oracle
    config.empirical.centred = True
    return config
