"""Direct arylation: the yields of 1,728 reactions, every combination of five conditions.

Commands:
  python -m launch.run --config=configs/arylation.py --workdir=results/arylation
  python -m launch.run --config=configs/arylation.py:features --workdir=results/arylation_features

A row is one of 12 ligands with one of 4 bases, a column is one of 4 solvents with one of 3
concentrations and one of 3 temperatures: 48 x 36. A value is the yield in percent; 29 % of them are
zero.

Shields et al., Nature 590:89 (2021), published the yields; experiments/data/direct_arylation of
b-shields/edbo on GitHub has them. Nothing is downloaded: the folder that SMC_DATA_DIR names must
hold direct_arylation/matrix_ligand-base_x_solvent-conc-temp.csv. The model is the one for ratings
(configs/ratings.py).

With `:features` the model knows of each row its ligand and its base, and of each column its
solvent, concentration and temperature, which the ids are made of.

The model is fitted anew after every 3 picks: on development seeds `ids` had less regret with this
than with 40 refits, at a tenth of the horizon and at its end.
"""

from ml_collections import config_dict

from configs import ratings

FEATURES = {"row_features": "ids", "column_features": "ids"}


def get_config(known: str = "values") -> config_dict.ConfigDict:
    """The experiment on conditions of a direct arylation."""
    config = ratings.get_config()
    config.data = "arylation"
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.rank = 10
    config.horizon = 432  # a quarter of the entries
    config.refits = 144
    config.rows = 48
    config.columns = 36
    return ratings.knowing(config, known, FEATURES)
