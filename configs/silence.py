"""Synthetic matrices whose users answer 30 to 90 % of what they are asked: 50 x 100, rank 5.

Command:
  python -m launch.run --config=configs/silence.py --workdir=results/silence

`ids`, `thompson` and `greedy` learn who answers, by a probit model with effects of rows and of
columns; `ids_ignoring` is ids that takes every answer for certain. Regret counts the probability
of an answer times the value.
"""

from ml_collections import config_dict

from configs import synthetic


def get_config() -> config_dict.ConfigDict:
    """The synthetic experiment with users who do not always answer."""
    config = synthetic.get_config()
    config.policies = "ids,ids_ignoring,thompson,greedy,random"
    config.silence.lowest_rate = 0.3
    return config
