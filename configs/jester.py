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
    config.policies = "ids,thompson,oracle,empirical,icf,greedy,random"
    config.seeds = 5
    config.data = "jester"
    config.rows = 100
    config.columns = 1000
    config.standardise = True
    config.model.loadings = "signed"
    config.model.intercepts = True
    config.model.noise_spread = 0.35
    config.model.common = 10.0
    config.oracle.covariance = "population"
    config.empirical.centred = True
    return config
