"""Synthetic matrices of a known rank: 50 x 100, noise variance 0.1.

Command:
  python -m launch.run --config=configs/synthetic.py --workdir=results/rank5

TO BE FILLED
"""

from ml_collections import config_dict

from configs import base


def get_config() -> config_dict.ConfigDict:
    """The synthetic experiment of the paper at one true rank."""
    config = base.get_config()
    config.rows = 50
    config.columns = 100
    config.true_rank = 5
    config.loadings = "uniform"  # uniform, beta, mixed
    config.noise_variance = 0.1
    return config
