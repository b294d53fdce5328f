"""Figure 2: regret on the ratings of jokes and films, every policy.

Command:
  python -m launch.figure --config=configs/figure2.py --workdir=results/figure2

`oracle` is the paper's near-oracle, which knows the second moment of the whole matrix;
`mean_oracle` knows its mean and covariance. Each of them picks by Thompson draws, as in the paper,
by IDS and greedily.
"""

from ml_collections import config_dict

from configs import figure1, jester


def get_config() -> config_dict.ConfigDict:
    """The experiments on recorded ratings, one a panel."""
    config = jester.get_config()
    config.policies = figure1.get_config().policies
    config.seeds = 10
    config.panel_field = "data"
    config.panel_values = ("jester", "movielens")
    config.horizon_reading = "bound"
    return config
