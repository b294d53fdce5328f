"""A Rao-Blackwellised particle filter over matrix factorisation (Kawale et al. 2015)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.beliefs import gibbs as pmf
from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or
from smc_jax.beliefs.history import heeding_history
from smc_jax.checks import at_least, positive
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Outcome


class Particles(NamedTuple):
    """P equally weighted draws of all that is unknown, given everything seen so far."""

    users: Array  # [P, N, K]  U
    items: Array  # [P, D, K]  V
    user_variance: Array  # [P]  su2


class Filter(NamedTuple):
    """What the filter takes as given."""

    noise_variance: float  # s2
    item_variance: float  # sv2
    user_variance: float  # su2, unless it is learned
    learn_variance: bool  # su2 ~ IG(shape, rate) in every particle
    shape: float
    rate: float


def log_weight(
    items: Array,
    user_variance: Array,
    noise_variance: float,
    column: Observations,
    outcome: Outcome,
    times: Array,
) -> Array:
    """log p(y | V, earlier values of user n) = log N(y; v_d'm, s2 + v_d'C v_d), without u_n.

    `column` [D, 1] is what was seen before this outcome. The value stands for the mean of `times`
    observations; what is left of their density is the same for all particles.
    """
    model = pmf.given(items, user_variance, noise_variance)
    posterior = gaussian.latent_posterior(model, column)
    loading = model._replace(
        loadings=model.loadings[outcome.row][None], intercepts=model.intercepts[:1]
    )
    mean, variance = (x[0, 0] for x in gaussian.entry_moments(loading, posterior))
    noise = noise_variance / jnp.where(times > 0, times, 1.0)  # times may be a fraction
    return jax.scipy.stats.norm.logpdf(outcome.value, mean, jnp.sqrt(variance + noise))


def systematic(key: Array, log_weights: Array) -> Array:
    """Ancestors [P]: i occurs P w_i times on average, rounded up or down."""
    number = log_weights.size
    cumulative = jnp.cumsum(jax.nn.softmax(log_weights))
    positions = (jax.random.uniform(key) + jnp.arange(number)) / number
    ancestors = jnp.searchsorted(cumulative / cumulative[-1], positions, side="right")
    return jnp.minimum(ancestors, number - 1)


def update(
    key: Array,
    particles: Particles,
    observations: Observations,
    outcome: Outcome,
    given: Filter,
    times: Array | None = None,
) -> Particles:
    """Moves the particles from the posterior before the outcome to that after it.

    The weights do not depend on u_n, which is then drawn given V and everything seen; v_d given U,
    and su2 given U, are Gibbs steps. The observations hold the outcome already, and all statistics
    are made anew from them, for V has moved. Without an answer everything stays as it was. The
    value is the mean of `times` observations, by default of one.
    """
    row, n = outcome.row, outcome.column
    number = particles.user_variance.size
    new = outcome.answered
    times = outcome.weight if times is None else times
    weight_key, move_key = jax.random.split(key)
    user_keys, item_keys, variance_keys = jax.random.split(move_key, (3, number))

    after = observations.column(n)
    before = after.add(row, jnp.zeros_like(row), outcome.value, -times)
    log_weights = jax.vmap(log_weight, in_axes=(0, 0, None, None, None, None))(
        particles.items, particles.user_variance, given.noise_variance, before, outcome, times
    )
    ancestors = jnp.where(new, systematic(weight_key, log_weights), jnp.arange(number))
    users, items, user_variance = jax.tree.map(lambda x: x[ancestors], particles)

    user = jax.vmap(pmf.sample_factors, in_axes=(0, 0, 0, None, None))(
        user_keys, items, user_variance, given.noise_variance, after
    )[:, 0]
    users = users.at[:, n].set(jnp.where(new, user, users[:, n]))

    of_item = observations.row(row).transposed()
    item = jax.vmap(pmf.sample_factors, in_axes=(0, 0, None, None, None))(
        item_keys, users, given.item_variance, given.noise_variance, of_item
    )[:, 0]
    items = items.at[:, row].set(jnp.where(new, item, items[:, row]))

    if given.learn_variance:
        squares = (users**2).sum((1, 2))
        drawn = jax.vmap(
            lambda key, squares: pmf.sample_variance(
                key, squares, users[0].size, shape=given.shape, rate=given.rate
            )
        )(variance_keys, squares)
        user_variance = jnp.where(new, drawn, user_variance)
    return Particles(users, items, user_variance)


def draw_prior(
    key: Array, given: Filter, *, particles: int, rows: int, columns: int, rank: int
) -> Particles:
    """P draws of everything before anything is seen."""
    user_key, item_key, variance_key = jax.random.split(key, 3)
    variance = jnp.ones(particles) * given.user_variance
    if given.learn_variance:
        variance = given.rate / jax.random.gamma(variance_key, given.shape, (particles,))
    users = jax.random.normal(user_key, (particles, columns, rank))
    items = jax.random.normal(item_key, (particles, rows, rank))
    return Particles(
        jnp.sqrt(variance)[:, None, None] * users, jnp.sqrt(given.item_variance) * items, variance
    )


def absorb_all(
    key: Array, particles: Particles, observations: Observations, given: Filter
) -> Particles:
    """Absorbs everything seen, entry by entry; repeats of an entry enter as their mean."""
    seen = observations.seen()
    rows, columns = jnp.nonzero(seen, size=seen.size, fill_value=0)

    def one(i: Array, carry: tuple[Particles, Observations]) -> tuple[Particles, Observations]:
        particles, so_far = carry
        row, column = rows[i], columns[i]
        times, mean = observations.entry(row, column)
        outcome = Outcome(row, column, mean, times > 0)
        so_far = so_far.add(row, column, mean, times)
        own = jax.random.fold_in(key, i)
        return update(own, particles, so_far, outcome, given, times), so_far

    start = (particles, Observations.empty(observations.rows, observations.columns))
    return lax.fori_loop(0, seen.sum(), one, start)[0]


def particles(
    *,
    particles: int = 100,
    rank: int = 3,
    noise_variance: float = 0.1,
    factor_variance: float = 1.0,
    learn_variance: bool = False,
    shape: float = 2.0,
    rate: float = 2.0,
) -> Belief:
    """The filter, which moves with every outcome and is never refitted.

    Earlier `Particles` that have absorbed the data already may be given as the prior: the filter
    goes on from there.

    Args:
      particles: P, the number of particles.
      rank: K.
      noise_variance: s2.
      factor_variance: sv2, and su2 unless it is learned.
      learn_variance: whether su2 ~ IG(shape, rate) is a part of every particle.
      shape: the shape of the prior of su2.
      rate: the rate of the prior of su2.
    """
    at_least("particles", particles, 1)
    at_least("rank", rank, 1)
    positive("noise_variance", noise_variance)
    positive("factor_variance", factor_variance)
    positive("shape", shape)
    positive("rate", rate)
    given = Filter(noise_variance, factor_variance, factor_variance, learn_variance, shape, rate)

    def init(key: Array, data: Observations, prior: Particles | None = None) -> Particles:
        start_key, absorb_key = jax.random.split(key)
        size = {"rows": data.rows, "columns": data.columns, "rank": rank}
        start = draw_prior(start_key, given, particles=particles, **size)
        if prior is None:
            return absorb_all(absorb_key, start, data, given)
        return earlier_or(start, prior, "particle")

    def draw(key: Array, state: Particles) -> Parameters:
        index = jax.random.randint(key, (), 0, particles)
        return pmf.given(state.items[index], state.user_variance[index], noise_variance)

    def absorb(key: Array, state: Particles, data: Observations, outcome: Outcome) -> Particles:
        return update(key, state, data, outcome, given)

    return heeding_history(
        Belief(
            init=init,
            refit=lambda key, state, data: state,
            draw=draw,
            diagnose=Diagnostics.finite_only,
            absorb=absorb,
        )
    )
