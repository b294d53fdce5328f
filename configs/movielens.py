"""MovieLens 1M: the 100 films rated most, and the 1000 users who rated most of these.

Command:
  python -m launch.run --config=configs/movielens.py --workdir=results/movielens

71 % of the ratings exist. The others are completed by OptSpace, with the rank that predicts
held-out ratings best, and taken as true; configs/replay.py does without. The ratings are
downloaded unless the folder that SMC_DATA_DIR names holds them.

Time: 25 minutes for five seeds on two cores.

Expected (seeds 0-4), regret at 10, 25, 50 and 100 % of the horizon of 21,600:
  ids           821    1947    4000    9346
  thompson     1775    4147    7680   14421
  oracle       1354    3299    6521   13276
  mean_oracle  1684    3893    7282   14132
  greedy        791    1853    3964    9287
  random       2322    5759   11434   22810
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on films."""
    config = ratings.get_config(model)
    config.data = "movielens"
    return config
