"""Davis: how strongly 442 kinase targets (rows) bind 68 drugs (columns), all measured.

Commands:
  python -m launch.run --config=configs/davis.py --workdir=results/davis
  python -m launch.run --config=configs/davis.py:features --workdir=results/davis_features

A value is pKd = 9 - log10(Kd in nM). 70 % of the entries have the lowest value, 5.0: there Kd is
10 uM or more, or no binding was detected. Some targets are mutants or phosphorylated forms of one
kinase, and their rows are much alike.

Davis et al., Nature Biotechnology 29:1046 (2011), published the values; data/davis of
hkmztrk/DeepDTA on GitHub has them too. Neither states an open licence, so that nothing is
downloaded: the folder that SMC_DATA_DIR names must hold davis/davis_matrix_pKd.csv. The model is
the one for ratings (configs/ratings.py).

With `:features` the model knows 50 coordinates of the targets' sequences (kernel principal
components of their Smith-Waterman similarity) and 1,024 fingerprint bits of the drugs, in
davis/target_features_sw50.csv and davis/drug_features_ecfp4_1024.csv of the same folder.

The model is fitted anew after every 19 picks: on development seeds `ids` had less regret with this
than with 40 refits, at a tenth of the horizon and at its end.
"""

from ml_collections import config_dict

from configs import ratings

FEATURES = {
    "row_features": "davis/target_features_sw50.csv",
    "column_features": "davis/drug_features_ecfp4_1024.csv",
}


def get_config(known: str = "values") -> config_dict.ConfigDict:
    """The experiment on drugs and kinase targets."""
    config = ratings.get_config()
    config.data = "davis"
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.rank = 20
    config.horizon = 3005  # a tenth of the entries
    config.refits = 160
    config.rows = 442
    config.columns = 68
    return ratings.knowing(config, known, FEATURES)
