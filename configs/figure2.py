"""Figure 2: regret on the ratings of jokes and films, every policy.

Command:
  python -m launch.figure --config=configs/figure2.py --workdir=results/figure2

Time: about two hours for five seeds on one core. docs/results.md tells which figures were made with
this version.
"""

from ml_collections import config_dict

from configs import jester


def get_config() -> config_dict.ConfigDict:
    """The experiments on recorded ratings, one a panel."""
    config = jester.get_config()
    config.policies = (
        "ids,thompson,oracle,mean_oracle,empirical,optspace,particle,icf,greedy,random"
    )
    config.panel_field = "data"
    config.panel_values = ("jester", "movielens")
    config.horizon_reading = "bound"
    return config
