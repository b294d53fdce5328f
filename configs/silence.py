"""Users who answer 30 to 90 % of what they are asked: synthetic matrices, or films.

Commands:
  python -m launch.run --config=configs/silence.py --workdir=results/silence
  python -m launch.run --config=configs/silence.py:movielens --workdir=results/silence_movielens

`ids`, `thompson` and `greedy` learn who answers, by a probit model with effects of rows and of
columns; `ids_ignoring` is ids that takes every answer for certain. Regret counts the probability
of an answer times the value.
"""

from ml_collections import config_dict

from configs import movielens, synthetic

DATA = {"synthetic": synthetic, "movielens": movielens}


def get_config(data: str = "synthetic") -> config_dict.ConfigDict:
    """The experiment on 50 x 100 matrices of rank 5, or on films, with users who may not answer."""
    if data not in DATA:
        raise ValueError(f"config: unknown {data!r}; choose from {', '.join(DATA)}")
    config = DATA[data].get_config()
    config.policies = "ids,ids_ignoring,thompson,greedy,random"
    config.seeds = 10
    config.silence.lowest_rate = 0.3
    return config
