"""MovieLens 1M as it was rated: nothing is completed, only what exists can be chosen.

Command:
  python -m launch.run --config=configs/replay.py --workdir=results/replay

The block and the settings are those of configs/movielens.py; every reward is what the person gave.
There is no oracle: who knows all ratings that exist does not know the covariance of the others.

Time: 30 minutes for five seeds on two cores.
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The experiment on films without completion."""
    config = ratings.get_config(model)
    config.data = "replay"
    config.policies = "ids,thompson,empirical,optspace,particle,icf,greedy,random"
    return config
