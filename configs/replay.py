"""MovieLens 1M as it was rated: nothing is completed, only what exists can be chosen.

Command:
  python -m launch.run --config=configs/replay.py --workdir=results/replay

The block and the settings are those of configs/movielens.py; every reward is what the person gave.
There is no oracle: who knows all ratings that exist does not know the covariance of the others.

Time: 30 minutes for five seeds on two cores.

Expected (seeds 0-4), regret at 10, 25, 50 and 100 % of the horizon of 21,600:
  ids           891    2086    4506   10809
  thompson     1728    4243    7957   15263
  empirical    1943    4994    9816   18783
  optspace     1627    3446    6372   12902
  particle     2958    5685    9237   16912
  icf          2947    6498   10385   15996
  greedy        862    2065    4491   10774
  random       2183    5408   10780   21548
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The experiment on films without completion."""
    config = ratings.get_config(model)
    config.data = "replay"
    config.policies = "ids,thompson,empirical,optspace,particle,icf,greedy,random"
    return config
