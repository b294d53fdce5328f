"""What the experiments on ratings share; configs/jester.py and its neighbours add the data.

The model, that of `smc_jax.presets.ratings`, has signed loadings whose rows are alike a priori, an
intercept a row and a noise a column. With `paper` it is the model of the paper, with non-negative
loadings; IDS measures regret from the one best entry, and Thompson draws have the noise of an
entry. Both are fitted to standardised values. docs/ratings.md tells how the settings were found.
"""

from ml_collections import config_dict

from configs import base
from launch.config import apply_preset
from smc_jax import presets

# The paper's own model where values have a mean and a scale; oracles are the paper's near-oracle.
PAPER = presets.Preset(
    standardise=True,
    inference={"method": "svi"},
    policies={"oracle": {"covariance": "second_moment"}, **presets.RATING_BASELINES},
)
MODELS = {"ratings": presets.ratings(), "paper": PAPER}


def get_config(model: str = "ratings") -> config_dict.ConfigDict:
    """Settings for ratings, without the data."""
    if model not in MODELS:
        raise ValueError(f"config: unknown model {model!r}; choose from {', '.join(MODELS)}")
    config = base.get_config()
    apply_preset(config, MODELS[model])
    config.policies = "ids,thompson,oracle,mean_oracle,greedy,random"
    config.seeds = 5
    config.rows = 100
    config.columns = 1000
    return config


def knowing(
    config: config_dict.ConfigDict, known: str, features: dict[str, str]
) -> config_dict.ConfigDict:
    """The config with features of rows and columns where `known` says so, or with useless ones."""
    if known not in ("values", "features", "noise"):
        raise ValueError(f"config: unknown {known!r}; choose from values, features, noise")
    if known == "features":
        config.update(features)
    elif known == "noise":
        config.update(dict.fromkeys(features, "noise"))
    return config
