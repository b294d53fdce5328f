"""The particle filter against conjugate algebra, quadrature and Gibbs sampling."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
from problems import assert_gaussian
from scipy import stats

from smc_jax.beliefs.particles import (
    Filter,
    Particles,
    log_weight,
    particles,
    systematic,
    update,
)
from smc_jax.observations import Observations
from smc_jax.types import Outcome

GIVEN = Filter(NOISE, VARIANCE, VARIANCE, learn_variance=False, shape=2.0, rate=2.0)
NUMBER, ROWS, COLUMNS = 20_000, 4, 3  # common to several tests, which then share a program

step = jax.jit(update, static_argnames="given")
weigh = jax.jit(log_weight)


def outcome_of(row, column, value, answered=True):
    return Outcome(*map(jnp.asarray, (row, column, value, answered)))


def random_particles(number):
    rng = np.random.default_rng(0)
    return Particles(
        jnp.asarray(rng.normal(size=(number, COLUMNS, 2))),
        jnp.asarray(rng.normal(size=(number, ROWS, 2))),
        jnp.asarray(rng.uniform(0.5, 2.0, number)),
    )


def test_weights_multiply_to_the_exact_likelihood():
    """One user and a fixed V: the product over the looks, a repeat among them."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(4, 2))
    rows, values = [2, 0, 2, 3, 1], rng.normal(size=5)
    seen, total = Observations.empty(4, 1), 0.0
    for row, value in zip(rows, values, strict=True):
        outcome = outcome_of(row, 0, value)
        total += weigh(jnp.asarray(items), 1.3, NOISE, seen, outcome, 1.0)
        seen = seen.add(row, 0, value, 1.0)
    covariance = 1.3 * items[rows] @ items[rows].T + NOISE * np.eye(5)
    exact = stats.multivariate_normal.logpdf(values, np.zeros(5), covariance)
    np.testing.assert_allclose(total, exact, rtol=1e-5)


def test_several_looks_may_enter_as_their_mean():
    """Between two particles, the weight of a mean is as that of the looks one by one."""
    seen = looks(1, 4, 1)
    values = (0.4, -0.9, 1.1)
    difference = []
    for seed in (0, 1):
        items = jnp.asarray(np.random.default_rng(seed).normal(size=(4, 2)))
        one_by_one, now = 0.0, seen
        for value in values:
            outcome = outcome_of(1, 0, value)
            one_by_one += weigh(items, 1.3, NOISE, now, outcome, 1.0)
            now = now.add(1, 0, value, 1.0)
        mean = outcome_of(1, 0, np.mean(values))
        difference.append(one_by_one - weigh(items, 1.3, NOISE, seen, mean, 3.0))
    np.testing.assert_allclose(*difference, rtol=1e-4)


def test_an_update_draws_the_user_and_then_the_item_exactly():
    """Particles of one V: u_n has its conjugate posterior, and v_d that given U."""
    row, column = 1, 2
    after = looks(2, ROWS, COLUMNS).add(row, column, 0.7, 1.0)
    start = random_particles(NUMBER)
    items = jnp.broadcast_to(start.items[0], start.items.shape)
    start = Particles(start.users, items, jnp.full(NUMBER, 1.3, float))
    end = step(jax.random.key(0), start, after, outcome_of(row, column, 0.7), given=GIVEN)
    count, total = statistics(after)
    user = dense_factors(items[0], 1.3, NOISE, count[:, column], total[:, column])
    assert_gaussian(end.users[:, column], *user)
    item = dense_factors(end.users, VARIANCE, NOISE, count[row], total[row])
    assert_gaussian(whitened(end.items[:, row], *item), np.zeros(2), np.eye(2))
    np.testing.assert_array_equal(end.items[:, [0, 2, 3]], items[:, [0, 2, 3]])


def test_resampling_keeps_a_particle_together():
    code = jnp.arange(1.0, NUMBER + 1)
    start = Particles(
        jnp.broadcast_to(code[:, None, None], (NUMBER, COLUMNS, 2)),
        jnp.broadcast_to(2 * code[:, None, None], (NUMBER, ROWS, 2)) / NUMBER,
        code / NUMBER,
    )
    after = Observations.empty(ROWS, COLUMNS).add(1, 2, 3.0, 1.0)
    end = step(jax.random.key(0), start, after, outcome_of(1, 2, 3.0), given=GIVEN)
    assert 1 < len(np.unique(end.user_variance)) < NUMBER
    for column in (0, 1):
        np.testing.assert_allclose(end.users[:, column, 0], NUMBER * end.user_variance, rtol=1e-6)
    for row in (0, 2, 3):
        np.testing.assert_allclose(end.items[:, row, 0], 2 * end.user_variance, rtol=1e-6)


@pytest.mark.parametrize("learn_variance", [False, True])
def test_no_answer_changes_nothing(learn_variance):
    start = random_particles(NUMBER)
    given = GIVEN._replace(learn_variance=learn_variance)
    seen = looks(2, ROWS, COLUMNS)
    for number, value in enumerate((0.3, 50.0)):
        key = jax.random.key(number)
        end = step(key, start, seen, outcome_of(1, 2, value, False), given=given)
        chex.assert_trees_all_equal(start, end)
        moved = step(key, start, seen, outcome_of(1, 2, value), given=given)
        assert (moved.users[:, 2] != start.users[:, 2]).all()


def test_systematic_resampling_is_unbiased():
    weights = np.array([0.0, 0.31, 0.02, 0.17, 0.003, 0.297, 0.2])
    keys = jax.random.split(jax.random.key(0), 20_000)
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights)) + 7.0
    ancestors = jax.jit(jax.vmap(systematic, in_axes=(0, None)))(keys, log_weights)
    counts = (np.asarray(ancestors)[:, :, None] == np.arange(7)).sum(1)
    expected = 7 * weights
    assert (np.abs(counts - expected) < 1).all()
    possible = expected > 0
    assert (counts[:, ~possible] == 0).all()
    assert_means(counts[:, possible], expected[possible])


def replicates(belief):
    """Of the data: means [32, 2, D, N] over the particles of v_d u_n and its square, by filter.

    The bias of a filter is of the order 1 / P, below the standard error of 32 of them.
    """

    @jax.jit
    def run(seen):
        keys = jax.random.split(jax.random.key(0), 32)
        state = jax.vmap(belief.init, in_axes=(0, None))(keys, seen)
        entries = jnp.einsum("rpdk,rpnk->rpdn", state.items, state.users)
        return jnp.stack([entries.mean(1), (entries**2).mean(1)], 1)

    return run


def test_the_filter_agrees_with_quadrature():
    """One user, one item, and two of each, with su2 learned; the rest of the matrix is unseen."""
    belief = particles(
        particles=2000,
        rank=1,
        noise_variance=NOISE,
        factor_variance=VARIANCE,
        learn_variance=True,
        shape=3.0,
        rate=2.0,
    )
    run = replicates(belief)
    variances = stats.invgamma(3.0, scale=2.0).ppf((np.arange(200) + 0.5) / 200)
    for rows, columns in ((2, 1), (1, 4), (2, 2)):
        seen = looks(5, rows, columns)
        margins = (0, 2 - rows), (0, 4 - columns)
        whole = jax.tree.map(lambda x: jnp.pad(x, margins), seen)
        exact = exact_entries(
            seen,
            noise=NOISE,
            item_variance=VARIANCE,
            user_variances=variances,
            weights=np.ones(200),
            span=5.0,
            points=101,
        )
        assert_means(run(whole)[:, :, :rows, :columns], exact)


def numpy_gibbs(count, total, *, chains, sweeps):
    """v_d u_n [chains, D, N] at the end of independent chains of rank 2, in float64."""
    rng = np.random.default_rng(0)
    users, items = (np.sqrt(VARIANCE) * rng.normal(size=(chains, n, 2)) for n in total.T.shape)

    def draw(others, count, total):
        mean, covariance = dense_factors(others, VARIANCE, NOISE, count, total)
        return mean + np.einsum(
            "ckl,cl->ck", np.linalg.cholesky(covariance), rng.normal(size=mean.shape)
        )

    for _ in range(sweeps):
        for n in range(users.shape[1]):
            users[:, n] = draw(items, count[:, n], total[:, n])
        for d in range(items.shape[1]):
            items[:, d] = draw(users, count[d], total[d])
    return np.einsum("cdk,cnk->cdn", items, users)


@pytest.mark.slow
def test_the_filter_agrees_with_gibbs():
    """A 4 x 5 matrix of rank 2: 32 filters of 2000 particles, 2000 chains of 100 sweeps."""
    seen = looks(6, 4, 5, most=2)
    settings = {"rank": 2, "noise_variance": NOISE, "factor_variance": VARIANCE}
    estimates = np.asarray(replicates(particles(particles=2000, **settings))(seen))
    count, total = statistics(seen)
    entries = numpy_gibbs(count, total, chains=2000, sweeps=100)
    reference = np.stack([entries, entries**2], 1)
    error = np.sqrt(estimates.var(0, ddof=1) / 32 + reference.var(0) / 2000)
    z = (estimates.mean(0) - reference.mean(0)) / error
    # 40 of them, at 2e-5 each or less.
    np.testing.assert_array_less(np.abs(z), 5.0)


def test_a_broken_filter_is_reported():
    belief = particles(particles=3, rank=2)
    state = random_particles(3)
    assert belief.diagnose(state).finite
    assert not belief.diagnose(state._replace(users=state.users.at[0].set(jnp.nan))).finite
