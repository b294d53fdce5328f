"""Gibbs sampling of PMF against dense float64 conditionals, quadrature, and the prior."""

import jax
import jax.numpy as jnp
import numpy as np
from factorisation import (
    NOISE,
    VARIANCE,
    assert_means,
    dense_factors,
    exact_entries,
    looks,
    statistics,
    whitened,
)
from problems import assert_gaussian, make_problem
from scipy import stats

from smc_jax.beliefs import gibbs as pmf
from smc_jax.model import gaussian
from smc_jax.observations import Observations


def test_a_sweep_draws_users_and_then_items_given_them():
    observations = make_problem(1, rows=3, columns=4, rank=2).observations
    assert observations.times_seen().max() > 1
    items = jax.random.normal(jax.random.key(0), (3, 2))
    start = pmf.Factors(jnp.full((4, 2), jnp.nan), items, jnp.asarray(NOISE), jnp.asarray(VARIANCE))
    keys = jax.random.split(jax.random.key(1), 20_000)
    end = jax.jit(jax.vmap(pmf.sweep, in_axes=(0, None, None)))(keys, start, observations)
    count, total = statistics(observations)
    for n in range(4):
        moments = dense_factors(items, VARIANCE, NOISE, count[:, n], total[:, n])
        assert_gaussian(end.users[:, n], *moments)
    for d in range(3):
        moments = dense_factors(end.users, VARIANCE, NOISE, count[d], total[d])
        assert_gaussian(whitened(end.items[:, d], *moments), np.zeros(2), np.eye(2))


def test_the_chain_reaches_the_posterior():
    """4000 independent chains of 100 sweeps, and the user factors drawn live."""
    observations = looks(2, 3, 2)
    belief = pmf.gibbs(
        rank=1, noise_variance=NOISE, factor_variance=VARIANCE, draws=2, sweeps=2, first_sweeps=100
    )

    @jax.jit
    @jax.vmap
    def entries(key):
        keys = jax.random.split(key, 4)
        chain = belief.init(keys[0], observations)
        chain = belief.refit(keys[1], chain, observations)
        drawn = belief.draw(keys[2], chain)
        return gaussian.sample_matrix(keys[3], drawn, observations, entry_noise=False)

    samples = entries(jax.random.split(jax.random.key(0), 4000))
    exact = exact_entries(
        observations,
        noise=NOISE,
        item_variance=VARIANCE,
        user_variances=[VARIANCE],
        weights=[1.0],
        span=4.5,
        points=81,
    )
    assert_means(np.stack([samples, samples**2], 1), exact)


def test_learned_variances_keep_the_prior():
    """Geweke (2004): from truth and data drawn from the prior, the chain stays in the prior."""
    shape, rate = 4.0, 2.0
    belief = pmf.gibbs(
        rank=2,
        noise_variance=None,
        factor_variance=None,
        draws=1,
        first_sweeps=5,
        shape=shape,
        rate=rate,
    )
    count = np.random.default_rng(0).integers(0, 3, (3, 4))

    @jax.jit
    @jax.vmap
    def after(key):
        keys = jax.random.split(key, 7)
        noise, variance = (rate / jax.random.gamma(key, shape) for key in keys[:2])
        users, items = (
            jnp.sqrt(variance) * jax.random.normal(key, (number, 2))
            for key, number in zip(keys[2:4], (4, 3), strict=True)
        )
        first, second = (
            items @ users.T + jnp.sqrt(noise) * jax.random.normal(key, (3, 4)) for key in keys[4:6]
        )
        observations = Observations.empty(3, 4)
        for least, value in ((1, first), (2, second)):
            observations = observations.add(*np.indices((3, 4)), value, 1.0 * (count >= least))
        truth = pmf.Factors(users, items, noise, variance)
        chain = belief.init(keys[6], observations)._replace(factors=truth)
        return belief.refit(keys[6], chain, observations).factors

    end = after(jax.random.split(jax.random.key(1), 3000))
    prior = stats.invgamma(shape, scale=rate)
    # Four Kolmogorov-Smirnov tests at 0.001: one fails for about 0.4 % of the seeds.
    assert stats.kstest(end.noise_variance, prior.cdf).pvalue > 1e-3
    assert stats.kstest(end.factor_variance, prior.cdf).pvalue > 1e-3
    scale = np.sqrt(end.factor_variance)
    assert stats.kstest(end.users[:, 0, 0] / scale, "norm").pvalue > 1e-3
    assert stats.kstest(end.items[:, 2, 1] / scale, "norm").pvalue > 1e-3


def test_a_variance_has_its_exact_conditional():
    keys = jax.random.split(jax.random.key(0), 5000)
    draw = jax.vmap(lambda key: pmf.sample_variance(key, 3.0, 5, shape=1.5, rate=0.7))
    exact = stats.invgamma(1.5 + 2.5, scale=0.7 + 1.5)
    # Fails for 0.1 % of the seeds.
    assert stats.kstest(jax.jit(draw)(keys), exact.cdf).pvalue > 1e-3


def test_refits_go_on_from_the_last_state_and_draws_are_uniform():
    observations = looks(3, 4, 5)
    belief = pmf.gibbs(rank=2, noise_variance=NOISE, factor_variance=VARIANCE, draws=4)
    refit = jax.jit(belief.refit)
    chain = refit(jax.random.key(1), belief.init(jax.random.key(0), observations), observations)
    last = np.sqrt(VARIANCE) * chain.factors.items
    np.testing.assert_allclose(chain.draws.loadings[-1], last, rtol=1e-6)
    longer = pmf.gibbs(
        rank=2, noise_variance=NOISE, factor_variance=VARIANCE, draws=4, first_sweeps=7
    )
    # After the first refit, `first_sweeps` plays no part and only the state counts.
    again = [
        step(jax.random.key(2), chain, observations) for step in (refit, jax.jit(longer.refit))
    ]
    np.testing.assert_allclose(again[0].draws.loadings, again[1].draws.loadings, rtol=1e-3)
    assert again[0].refits == 2

    keys = jax.random.split(jax.random.key(3), 2000)
    drawn = jax.jit(jax.vmap(belief.draw, in_axes=(0, None)))(keys, chain)
    which = (drawn.loadings[:, None] == chain.draws.loadings).all((2, 3))
    assert (which.sum(1) == 1).all()
    # Fails for 0.1 % of the seeds.
    assert stats.chisquare(which.sum(0)).pvalue > 1e-3


def test_a_broken_chain_is_reported():
    observations = looks(3, 4, 5)
    belief = pmf.gibbs(rank=2, noise_variance=None, factor_variance=None)
    chain = belief.init(jax.random.key(0), observations)
    assert belief.diagnose(chain).finite
    assert np.isnan(belief.diagnose(chain).elbo)
    assert np.isnan(belief.diagnose(chain).effective_rank)
    users = chain.factors.users.at[0, 0].set(jnp.nan)
    chain = chain._replace(factors=chain.factors._replace(users=users))
    assert not belief.diagnose(chain).finite
