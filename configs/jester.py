"""Jester: 100 jokes, 1000 of the 7,200 users who rated all of them, drawn by the seed.

Commands:
  python -m launch.run --config=configs/jester.py --workdir=results/jester
  python -m launch.run --config=configs/jester.py:paper --workdir=results/jester_paper

The ratings are downloaded unless the folder that SMC_DATA_DIR names holds them. configs/ratings.py
has the two models: one for ratings, and with `:paper` the paper's own.

Time: 25 minutes for five seeds on two cores.
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on jokes, with a model for ratings or the paper's own."""
    config = ratings.get_config(model)
    config.data = "jester"
    return config
