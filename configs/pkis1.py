"""PKIS1: how much 366 compounds (columns) inhibit 224 kinases (rows), all measured.

Commands:
  python -m launch.run --config=configs/pkis1.py --workdir=results/pkis1
  python -m launch.run --config=configs/pkis1.py:features --workdir=results/pkis1_features

A value is the percent inhibition at 1 uM, clipped to 0 to 100; the mean is 10. 21 of the rows are
mutants of a kinase.

Drewry et al., PLoS ONE e0181585 (2017), published the values of the set that Drewry et al. (2014)
and Elkins et al. (2016) describe; data/pkis1_continuous_labels.csv of SpencerEricksen/informers on
GitHub has them too. Nothing is downloaded: the folder that SMC_DATA_DIR names must hold
pkis1/pkis1_matrix_pct_inhibition_1uM_clipped.csv. The model is the one for ratings
(configs/ratings.py).

With `:features` the model knows 50 coordinates of the kinases' sequences (kernel principal
components of their Smith-Waterman similarity) and 1,024 fingerprint bits of the compounds, in
pkis1/target_features_sw50.csv and pkis1/compound_features_ecfp4_1024.csv.gz of the same folder.

The model is fitted anew after every 20 picks: on development seeds `ids` had less regret with this
than with 40 refits at a tenth of the horizon, which is as far as both were run.
"""

from ml_collections import config_dict

from configs import ratings

FEATURES = {
    "row_features": "pkis1/target_features_sw50.csv",
    "column_features": "pkis1/compound_features_ecfp4_1024.csv.gz",
}


def get_config(known: str = "values") -> config_dict.ConfigDict:
    """The experiment on compounds and kinases."""
    config = ratings.get_config()
    config.data = "pkis1"
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.rank = 20
    config.horizon = 8198  # a tenth of the entries
    config.refits = 410
    config.rows = 224
    config.columns = 366
    return ratings.knowing(config, known, FEATURES)
