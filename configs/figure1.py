"""Figure 1: regret on synthetic matrices of five true ranks, every policy.

Command:
  python -m launch.figure --config=configs/figure1.py --workdir=results/figure1
"""

from ml_collections import config_dict

from configs import synthetic


def get_config() -> config_dict.ConfigDict:
    config = synthetic.get_config()
    config.policies = "ids,thompson,oracle,empirical,optspace,particle,icf,greedy,random"
    config.loadings = "mixed"  # uniform at even seeds, Beta(2, 5) at odd ones
    config.panel_field = "true_rank"
    config.panel_values = (1, 5, 10, 15, 20)
    # The horizon k (N + D - k): `bound` takes k = rank in every panel, `true_rank` its true rank.
    config.horizon_reading = "bound"
    return config
