"""Synthetic matrices of a known rank: 50 x 100, noise variance 0.1.

Command:
  python -m launch.run --config=configs/synthetic.py --workdir=results/rank5

Time: about two and a half minutes for ten seeds on two cores, compilation included.

Expected (seeds 0-9), regret at 10, 25, 50 and 100 % of the horizon of 2,600:
  ids           196    269    278    220
  thompson      284    409    422    308
  oracle        201    295    321    262
  greedy        191    373    584    290
  random        704   1372   2087   2538
"""

from ml_collections import config_dict

from configs import base


def get_config() -> config_dict.ConfigDict:
    """The synthetic experiment of the paper at one true rank."""
    config = base.get_config()
    config.data = "synthetic"
    config.rows = 50
    config.columns = 100
    config.true_rank = 5
    config.loadings = "uniform"  # uniform, beta, mixed
    config.noise_variance = 0.1
    config.particle.noisy = config.icf.noisy = True  # better than without on development seeds
    return config
