"""OBOE: how well 219 machine learning pipelines (rows) do on 418 data sets (columns).

Commands:
  python -m launch.run --config=configs/oboe.py --workdir=results/oboe
  python -m launch.run --config=configs/oboe.py:features --workdir=results/oboe_features
  python -m launch.run --config=configs/oboe.py:costs --workdir=results/oboe_costs

A value is 1 - balanced error of a pipeline on an OpenML classification data set; all were measured.
The highest values are those of easy data sets, on which many pipelines make no error: a policy
earns most by finding these columns. `--config.equalise=True` takes this away: it takes from each
column how much it is above the others, and what is left is which pipeline suits a data set.

With `configs/oboe.py:costs` a choice costs the seconds that the pipeline ran on the data set, and
one second more: the reward is 1 - balanced error a second. The run times are known beforehand,
from oboe/oboe_matrix_runtime_seconds.csv of the same folder. Beside costs equalise is refused: it
would take from each column what values are, and not what they are for their costs.

With `configs/oboe.py:features` the model knows the algorithm and the hyperparameters of each
pipeline, and the size and meta-features of each data set, from oboe/pipeline_features.csv and
oboe/datasets.csv of the same folder.

Yang, Akimoto, Kim and Udell, KDD (2019), published the errors; oboe/defaults/Oboe of oboe 0.2.0 on
PyPI has them, and so has udellgroup/oboe on GitHub. Nothing is downloaded: the folder that
SMC_DATA_DIR names must hold oboe/oboe_matrix_balanced_error.csv. The model is the one for ratings
(configs/ratings.py).
"""

from ml_collections import config_dict

from configs import ratings

FEATURES = {"row_features": "oboe/pipeline_features.csv", "column_features": "oboe/datasets.csv"}


def get_config(variant: str = "values") -> config_dict.ConfigDict:
    """The experiment on `values`, with `features` or `noise` known, or with rewards for `costs`."""
    if variant not in ("values", "features", "noise", "costs"):
        told = f"config: unknown {variant!r}; choose from values, features, noise, costs"
        raise ValueError(told)
    config = ratings.get_config()
    config.data = "oboe"
    config.policies = "ids,thompson,greedy,icf,particle,optspace,random"
    config.seeds = 10
    config.rank = 20
    config.horizon = 9154  # a tenth of the entries
    config.rows = 219
    config.columns = 418
    if variant == "costs":
        config.offers.costs = "oboe/oboe_matrix_runtime_seconds.csv"
        config.offers.overhead = 1.0
    return ratings.knowing(config, "values" if variant == "costs" else variant, FEATURES)
