"""Users who arrive: ten of 1000 are present at each pick, on the ratings of jokes and films.

Command:
  python -m launch.figure --config=configs/arrivals.py --workdir=results/arrivals

A policy chooses one of the ten users and an item for that user. All policies of a seed meet the
same users in the same order. With --config.offers.activity=1.0 some users come more often.
"""

from ml_collections import config_dict

from configs import jester


def get_config() -> config_dict.ConfigDict:
    """The experiments on recorded ratings, one a panel, with ten users at each pick."""
    config = jester.get_config()
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.arrivals = 10
    config.panel_field = "data"
    config.panel_values = ("jester", "movielens")
    config.horizon_reading = "bound"
    return config
