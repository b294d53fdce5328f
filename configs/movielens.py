"""MovieLens 1M: the 100 films rated most, and the 1000 users who rated most of these.

Command:
  python -m launch.run --config=configs/movielens.py --workdir=results/movielens

71 % of the ratings exist. The others are completed by OptSpace, with the rank that predicts
held-out ratings best, and taken as true; configs/replay.py does without. The ratings are
downloaded unless the folder that SMC_DATA_DIR names holds them.

Time: 25 minutes for five seeds on two cores.
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on films."""
    config = ratings.get_config(model)
    config.data = "movielens"
    return config
