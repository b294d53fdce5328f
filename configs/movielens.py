"""MovieLens 1M: the 100 films rated most, and the 1000 users who rated most of these.

Commands:
  python -m launch.run --config=configs/movielens.py --workdir=results/movielens
  python -m launch.run --config=configs/movielens.py --workdir=results/replay --config.data=replay

71 % of the ratings exist. `movielens` completes the others by OptSpace, with the rank that predicts
held-out ratings best, and takes them as true; with `replay` only what exists can be chosen, so that
every reward is what the person gave. The ratings are downloaded unless the folder that
SMC_DATA_DIR names holds them.
"""

from ml_collections import config_dict

from configs import jester


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on films; the settings are those for jokes."""
    config = jester.get_config(model)
    config.data = "movielens"  # movielens, replay
    return config
