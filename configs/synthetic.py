"""Synthetic matrices of a known rank: 50 x 100, noise variance 0.1.

Command:
  python -m launch.run --config=configs/synthetic.py --workdir=results/rank5

Time: some minutes for ten seeds on two cores; with --config.inference.method=svi about one.

Expected (seeds 0-9), regret at 10, 25, 50 and 100 % of the horizon of 2,600:
  ids           174    273    249    210
  thompson      255    358    373    283
  oracle        196    291    319    265
  greedy        173    334    563    271
  random        704   1372   2087   2538

With --config.inference.method=svi --config.ids.draws=16, ids has 187, 278, 267 and 221. From how
many of the best entries ids measures regret was chosen with these two, on seeds 1000-1009,
  python -m launch.run --config=configs/synthetic.py --config.policies=ids \
    --config.first_seed=1000 --config.true_rank=RANK --config.ids.best_of=NUMBER --workdir=DIR

  regret at 10, 25, 50 and 100 %    true rank 1          true rank 5          true rank 15
    best_of=1                 128  161  242  300   193  252  260  220   301  448  558  479
    best_of=4                 122  153  233  291   180  245  252  214   299  429  541  461
    best_of=16, chosen        118  151  225  283   171  259  253  208   302  435  528  428
    best_of=65                120  161  218  278   185  268  270  206   295  490  527  437
    best_of=260               127  191  224  282   187  316  314  227

Found anew at every pick rather than at the refit, the single best entry gives 296, 217 and 458 at
100 %, which is no better than 16 entries at the refit, and takes a pass over all entries a pick.
"""

from ml_collections import config_dict

from configs import base
from launch.config import apply_preset
from smc_jax import presets
from smc_jax.data.synthetic import synthetic
from smc_jax.policies.registry import settings_of


def get_config() -> config_dict.ConfigDict:
    """The synthetic experiment of the paper at one true rank, with the settings of a preset."""
    config = base.get_config()
    apply_preset(config, presets.paper())
    config.data = "synthetic"
    config.update(settings_of(synthetic))
    return config
