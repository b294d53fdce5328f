"""Jester: 100 jokes, 1000 of the 7,200 users who rated all of them, drawn by the seed.

Commands:
  python -m launch.run --config=configs/jester.py --workdir=results/jester
  python -m launch.run --config=configs/jester.py:paper --workdir=results/jester_paper

The ratings are downloaded unless the folder that SMC_DATA_DIR names holds them. configs/ratings.py
has the two models: one for ratings, and with `:paper` the paper's own.

Time: 25 minutes for five seeds on two cores.

Expected (seeds 0-4), regret at 10, 25, 50 and 100 % of the horizon of 21,600:
  ids          7115   18150   34177   60574   with `:paper` 12715   28397   59361   102708
  thompson    13677   30006   51739   85504
  oracle      14048   31302   54936   88614
  mean_oracle 13042   28714   50842   83357
  greedy       6717   18182   37068   61270
  random      17479   42366   79891  139723
"""

from ml_collections import config_dict

from configs import ratings


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The paper's experiment on jokes, with a model for ratings or the paper's own."""
    config = ratings.get_config(model)
    config.data = "jester"
    return config
