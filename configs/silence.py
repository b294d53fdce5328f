"""Users who answer 30 to 90 % of what they are asked: synthetic matrices, or films.

Commands:
  python -m launch.run --config=configs/silence.py --workdir=results/silence
  python -m launch.run --config=configs/silence.py:movielens --workdir=results/silence_movielens

`ids`, `thompson` and `greedy` learn who answers, by a probit model with effects of rows and of
columns; `ids_ignoring` is ids that takes every answer for certain. Regret counts the probability
of an answer times the value.

With `configs/silence.py:values` high values are answered more often than low ones: the probit rises
by one for each standard deviation. The model has signed loadings, and learns this slope with who
answers; --config.silence.learn_value_slope=False takes the values that are seen for a fair sample.
"""

from ml_collections import config_dict

from configs import movielens, synthetic
from smc_jax import presets

VARIANTS = {"synthetic": synthetic, "values": synthetic, "movielens": movielens}


def get_config(variant: str = "synthetic") -> config_dict.ConfigDict:
    """50 x 100 matrices of rank 5, the same with answers that depend on `values`, or films."""
    if variant not in VARIANTS:
        raise ValueError(f"config: unknown {variant!r}; choose from {', '.join(VARIANTS)}")
    config = VARIANTS[variant].get_config()
    config.policies = "ids,ids_ignoring,thompson,greedy,random"
    config.seeds = 10
    config.silence.lowest_rate = 0.3
    if variant == "values":
        config.silence.value_slope = 1.0
        config.silence.learn_value_slope = True
        config.standardise = True
        config.model.update(presets.ALIKE)
        config.gibbs.update(draws=48, sweeps=2)
    return config
