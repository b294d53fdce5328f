"""What every experiment has: the library's settings with the library's defaults, and a few more."""

from ml_collections import config_dict

from launch.config import library_fields
from launch.offers import DURATION
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
      offers.activity: how unevenly columns arrive: the standard deviation of the logarithm of the
        weights that they are drawn by, drawn anew for every seed; 0: all arrive equally often.
      offers.in_stock: the share of the time that a row is on offer; 1: always.
      offers.stock_duration: for how many picks on average a row that came stays.
      offers.row_budget: how often a row can be chosen in all, by the initial design too; none is
        any number of times.
      offers.column_budget: the same of a column.
      offers.calendar: when entries are closed: a CSV file of lines row, column, first pick, last
        pick, here or in the folder that SMC_DATA_DIR names. An empty row means every row, an empty
        column every column; picks are counted from 0. Rows and columns are named by their ids,
        those of synthetic data by their numbers from 0.
      offers.costs: what entries cost, by which their rewards are divided: a CSV file of lines row
        and cost, column and cost, or row, column and cost; or a matrix with ids on both sides.
      offers.overhead: what is added to every cost.
      offers.checksum: SHA-256 of these files; it is filled in, and a record with another one is
        refused.
      silence.lowest_rate: the least part of its entries that a column answers, on average; 1: every
        ask is answered, and the other fields of the group mean nothing.
      silence.heed: whether policies learn who answers; NAME_ignoring is a policy that does not.
      silence.learn_value_slope: whether policies on the fitted model learn with it that answers
        depend on values, and what a refusal says of the value; for signed loadings with mcmc.
      row_features: what is known of the rows beforehand: a CSV or Parquet file with a line an id,
        here or in the folder that SMC_DATA_DIR names; or `ids`, the parts of the ids, which | is
        between; or `noise`, 20 random numbers an id, which tell what useless features cost. None is
        nothing.
      column_features: the same of the columns.
      entry_prediction: a prediction of the values from elsewhere, such as a docking score or the
        output of another model, by ids and with gaps where there is none: a CSV or Parquet file,
        a matrix with ids on both sides or lines of row, column and prediction. What it is worth is
        learned. None is none.
      features_checksum: SHA-256 of these files; it is filled in, and a record with another one is
        refused.
      prior: what is known beforehand: a .npz file that `python -m launch.prior` or
        `smc_jax.priors.save` wrote, or a CSV or Parquet table of history, row, column and value, of
        other columns, whose rows are found by id. None is nothing. Oracles are told the truth
        instead, and `ids_without_history` nothing.
      prior_temper: in (0, 1]: each observation of history counts as that many, and an earlier fit q
        as q^prior_temper.
      prior_checksum: SHA-256 of that file; it is filled in, and a record with another one is
        refused.
      history: how many further columns of recorded data the seed draws as history: policies are
        told all their values, and they are never offered.
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
    config.offers = config_dict.create(
        activity=0.0,
        in_stock=1.0,
        stock_duration=DURATION,
        row_budget=config_dict.placeholder(int),
        column_budget=config_dict.placeholder(int),
        calendar=config_dict.placeholder(str),
        costs=config_dict.placeholder(str),
        overhead=0.0,
        checksum=config_dict.placeholder(str),
    )
    config.silence.lowest_rate = 1.0
    config.silence.heed = True
    config.silence.learn_value_slope = False
    config.row_features = config_dict.placeholder(str)
    config.column_features = config_dict.placeholder(str)
    config.entry_prediction = config_dict.placeholder(str)
    config.features_checksum = config_dict.placeholder(str)
    config.prior = config_dict.placeholder(str)
    config.prior_temper = 1.0
    config.prior_checksum = config_dict.placeholder(str)
    config.history = 0
    config.equalise = False
    config.equalise_strength = settings_of(equalised)["strength"]
    config.stop_when_completable = False
    config.completable = config_dict.create(
        check=False, held_out=0.2, factor=1.3, noise_deviation=config_dict.placeholder(float)
    )
    return config
