"""Jester with a history: 500 users whose ratings are all known, and 500 new ones to be served.

Commands:
  python -m launch.run --config=configs/history.py --workdir=results/history
  python -m launch.run --config=configs/history.py:paper --workdir=results/history_paper

Both groups are drawn by the seed, and the known users are never offered. `ids` is told of them;
`ids_without_history` meets the same new users, the same initial design and the same seeds, and
knows nothing beforehand. With --config.history=0 there are the same new users again.
"""

from ml_collections import config_dict

from configs import jester


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """The experiment on jokes, with half as many users and as many known ones."""
    config = jester.get_config(model)
    config.columns = 500
    config.history = 500
    config.policies = "ids,ids_without_history,greedy,random"
    return config
