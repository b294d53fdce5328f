"""The fields that every experiment has, with their defaults."""

from ml_collections import config_dict


def get_config() -> config_dict.ConfigDict:
    """Model, inference and policies as used throughout; experiments override what differs."""
    config = config_dict.ConfigDict()
    # Comma-separated, or a tuple.
    config.policies = config_dict.FieldReference(
        "ids,thompson,oracle,greedy,random", field_type=object
    )
    config.seeds = 10
    config.first_seed = 0
    config.rank = 20  # K, the bound that the model is given
    config.beta = 0.0  # discount of a repeated choice
    config.once = True  # forbids repeats
    config.horizon = config_dict.placeholder(int)  # none: k (N + D - k) with k = horizon_rank
    config.horizon_rank = config_dict.placeholder(int)  # none: rank
    config.refits = 40
    # What is shared out over the devices: seeds, or the columns of one big matrix.
    config.shard = "seeds"
    config.initial_fraction = 0.05  # size of the initial design, in horizons
    # Ends a seed's run at the first refit at which what was seen could be completed.
    config.stop_when_completable = False
    config.completable = config_dict.create(
        check=False,  # reports that refit, and goes on
        held_out=0.2,  # part of what was seen that the convex completion must predict
        factor=1.3,  # completable: error within so many times the noise
        noise_deviation=config_dict.placeholder(float),  # none: that of the synthetic data
    )

    # Takes from each column how much it is above the others, so that who rates high is not served
    # more for it; shrunk as `equalise_strength` more looks at the average would.
    config.equalise = False
    config.equalise_strength = 2.0
    # Fits the model to (y - mean) / deviation of what was seen at the start.
    config.standardise = False
    config.model = config_dict.create(
        loadings="gamma",  # gamma, signed
        intercepts=False,
        intercept_scale=1.0,
        noise_shape=1.0,  # 1/sigma^2 ~ G(noise_shape, noise_rate)
        noise_rate=1.0,
        fixed_noise=config_dict.placeholder(float),  # a known sigma^2
        noise_spread=0.0,  # of the log of each column's noise; 0: the same in all
        common=0.0,  # of signed loadings: what all rows share, over what is their own
    )
    config.inference = config_dict.create(
        start="spectral",  # spectral, random, map
        optimiser="adam",  # adam, adadelta
        learning_rate=config_dict.placeholder(float),  # none: the optimiser's own default
        first_steps=1000,
        steps=100,  # at every later refit
        draws=1,  # reparametrised draws a step
        columns=config_dict.placeholder(int),  # random ones that a draw looks at; none: all
        window=50,
        tolerance=0.0,  # stop a refit early once the ELBO gains less than this, relatively
        start_scale=0.1,
    )
    config.ids = config_dict.create(
        draws=16,
        scope="matrix",  # matrix, covariance
        gain="gaussian",  # gaussian, histogram, variance
        selection="deterministic",  # deterministic, two_action
        conditioned=True,  # False: the ratio is frozen between refits
        # Entries whose average the regret of a pick is measured from; none: half of the horizon.
        best_of=config_dict.FieldReference(1, field_type=int),
        bins=32,
        chunk=1024,
    )
    # Here and below, whether draws of an entry have the noise that is part of it, as in the paper,
    # or only what can be learned.
    config.thompson = config_dict.create(noisy=True)
    config.oracle = config_dict.create(
        picks="thompson",  # thompson, ids
        noisy=True,
        draws=16,  # of ids
        best_of=config_dict.FieldReference(1, field_type=int),  # of ids
        covariance="true",  # true, second_moment, population
    )
    config.mean_oracle = config_dict.create(
        picks="thompson",
        noisy=True,
        draws=16,
        best_of=config_dict.FieldReference(1, field_type=int),
    )
    config.empirical = config_dict.create(
        strength=2.0,  # each pair of rows counts as seen so many more times, uncorrelated
        floor=0.5,  # least eigenvalue over their mean
        centred=False,  # whether rows have means
        noisy=True,
    )
    config.optspace = config_dict.create(
        rank=1,  # of the completion; with guess, the largest
        guess=False,  # the rank from the singular values
        penalty=0.0,  # on the core
        steps=50,  # of descent
        centred=False,  # whether rows have means
    )
    config.particle = config_dict.create(
        particles=100,
        rank=3,
        noise_variance=0.1,
        factor_variance=1.0,
        learn_variance=False,  # of the users' factors, ~ IG(shape, rate)
        shape=2.0,
        rate=2.0,
        users="chosen",  # chosen, random
        noisy=False,
    )
    config.icf = config_dict.create(
        rule="thompson",  # thompson, linucb
        rank=5,
        noise_variance=config_dict.placeholder(float),  # none: learned
        factor_variance=config_dict.placeholder(float),  # none: learned
        draws=10,
        sweeps=5,  # before each draw
        first_sweeps=200,
        shape=1.0,  # prior IG(shape, rate) of a variance that is learned
        rate=1.0,
        exploration=1.0,  # of linucb
        noisy=False,
    )
    config.greedy = config_dict.create(draws=16)
    return config
