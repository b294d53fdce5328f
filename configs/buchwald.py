"""Buchwald-Hartwig: the yields of 3,955 reactions, all combinations of four components but five.

Commands:
  python -m launch.run --config=configs/buchwald.py --workdir=results/buchwald
  python -m launch.run --config=configs/buchwald.py:features --workdir=results/buchwald_features

A row is one of 15 aryl halides with one of 3 bases, a column is one of 22 additives with one of 4
ligands: 45 x 88. A value is the yield in percent. The five entries that nobody measured do not
exist: no policy can choose them.

Ahneman, Estrada, Lin, Dreher and Doyle, Science 360:186 (2018), published the yields;
data/Buchwald-Hartwig of rxn4chemistry/rxn_yields on GitHub has them. Nothing is downloaded: the
folder that SMC_DATA_DIR names must hold
buchwald_hartwig/matrix_45x88_halide-base_x_additive-ligand.csv. The model is the one for ratings
(configs/ratings.py).

With `:features` the model knows of each row its halide and its base, and of each column its
additive and its ligand, which the ids are made of.

The model is fitted anew after every 10 picks: on development seeds `ids` had less regret with this
than with 40 refits, at a tenth of the horizon and at its end.
"""

from ml_collections import config_dict

from configs import ratings

FEATURES = {"row_features": "ids", "column_features": "ids"}


def get_config(known: str = "values") -> config_dict.ConfigDict:
    """The experiment on components of a Buchwald-Hartwig reaction."""
    config = ratings.get_config()
    config.data = "buchwald"
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.rank = 10
    config.horizon = 988  # a quarter of the entries that exist
    config.refits = 100
    config.rows = 45
    config.columns = 88
    return ratings.knowing(config, known, FEATURES)
