"""What every experiment has: the library's settings with the library's defaults, and a few more."""

from ml_collections import config_dict

from launch.config import library_fields
from smc_jax.policies.equalised import equalised
from smc_jax.policies.registry import settings_of


def get_config() -> config_dict.ConfigDict:
    """An experiment on no data; the other files add the data, and change what differs.

    `python -m launch.run --help` lists all fields, with the meanings that the factories' docstrings
    give. The fields below are the launcher's own.

    Fields:
      policies: names, separated by commas, or a tuple of them: policies of `smc_jax.POLICIES`, or
        `module:function` for a factory (setting, **settings) -> Policy of your own.
      reference: the policy that all others are compared with pair by pair, in addition to the
        oracles, ids, thompson and greedy.
      data: synthetic, jester, movielens, replay, table, davis, pkis1, arylation, buchwald or oboe.
      rows: D.
      columns: N.
      seeds: how many seeds every policy is run on.
      first_seed: the number of the first seed.
      horizon: H, the number of picks; none is k (N + D - k) with k = horizon_rank.
      horizon_rank: k of the horizon; none is rank.
      initial_fraction: size of the initial design, in horizons.
      arrivals: how many columns, at random, are present at each pick; 0: every column is present.
      silence.lowest_rate: the least part of its entries that a column answers, on average; 1: every
        ask is answered, and the other fields of the group mean nothing.
      silence.heed: whether policies learn who answers; NAME_ignoring is a policy that does not.
      row_features: what is known of the rows beforehand: a CSV or Parquet file with a line an id,
        here or in the folder that SMC_DATA_DIR names; or `ids`, the parts of the ids, which | is
        between. None is nothing.
      column_features: the same of the columns.
      features_checksum: SHA-256 of these files; it is filled in, and a record with another one is
        refused.
      equalise: takes from each column how much it is above the others, so that a user who rates
        high is not served more often for it.
      equalise_strength: how much these offsets are shrunk: as that number of further answers at
        the average would shrink them.
      stop_when_completable: ends the run of a seed at the first refit at which what was seen could
        be completed.
      completable.check: reports that refit, and the run is not ended.
      completable.held_out: the part of what was seen that the convex completion must predict.
      completable.factor: a matrix is completable where the error is at most this times the noise.
      completable.noise_deviation: standard deviation of the noise; none is that of the synthetic
        data.
    """
    config = library_fields()
    config.policies = config_dict.FieldReference(
        "ids,thompson,oracle,greedy,random", field_type=object
    )
    config.reference = config_dict.placeholder(str)
    config.seeds = 10
    config.first_seed = 0
    config.horizon = config_dict.placeholder(int)
    config.horizon_rank = config_dict.placeholder(int)
    config.initial_fraction = 0.05
    config.arrivals = 0
    config.silence.lowest_rate = 1.0
    config.silence.heed = True
    config.row_features = config_dict.placeholder(str)
    config.column_features = config_dict.placeholder(str)
    config.features_checksum = config_dict.placeholder(str)
    config.equalise = False
    config.equalise_strength = settings_of(equalised)["strength"]
    config.stop_when_completable = False
    config.completable = config_dict.create(
        check=False, held_out=0.2, factor=1.3, noise_deviation=config_dict.placeholder(float)
    )
    return config
