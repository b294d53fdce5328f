"""Synthetic matrices whose users answer 30 to 90 % of what they are asked: 50 x 100, rank 5.

Command:
  python -m launch.run --config=configs/silence.py --workdir=results/silence

`ids`, `thompson` and `greedy` learn who answers, by a probit model with effects of rows and of
columns; `ids_ignoring` is ids that takes every answer for certain. Regret counts the probability
of an answer times the value.

With `configs/silence.py:values` high values are answered more often than low ones: the probit rises
by one for each standard deviation. The model has signed loadings, and learns this slope with who
answers; --config.silence.learn_value_slope=False takes the values that are seen for a fair sample.
"""

from ml_collections import config_dict

from configs import synthetic
from smc_jax import presets


def get_config(depends_on: str = "users") -> config_dict.ConfigDict:
    """The synthetic experiment with answers that depend on `users` alone, or on `values` too."""
    if depends_on not in ("users", "values"):
        raise ValueError(f"config: unknown {depends_on!r}; choose from users, values")
    config = synthetic.get_config()
    config.policies = "ids,ids_ignoring,thompson,greedy,random"
    config.silence.lowest_rate = 0.3
    if depends_on == "values":
        config.silence.value_slope = 1.0
        config.silence.learn_value_slope = True
        config.standardise = True
        config.model.update(presets.ALIKE)
        config.gibbs.update(draws=48, sweeps=2)
    return config
