"""Particle Thompson Sampling (Kawale et al. 2015): a Rao-Blackwellised filter over PMF."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax import gaussian, pmf
from smc_jax.beliefs import Belief, Diagnostics, standardised
from smc_jax.environment import Problem
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.thompson import sampling
from smc_jax.types import Observations, Outcome, Parameters, View

USERS = ("chosen", "random")


class Particles(NamedTuple):
    """P equally weighted draws of all that is unknown, given everything seen so far."""

    users: Array  # [P, N, K]  U
    items: Array  # [P, D, K]  V
    user_variance: Array  # [P]  su2


class Filter(NamedTuple):
    """What the filter takes as known."""

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
) -> Array:
    """log p(y | V, earlier looks at user n) = log N(y; v_d'm, s2 + v_d'C v_d), without u_n.

    `column` [D, 1] are the looks before this one. A weight c stands for c looks whose mean is the
    value, and what is left of their density is the same for all particles.
    """
    model = pmf.given(items, user_variance, noise_variance)
    posterior = gaussian.latent_posterior(model, column)
    loading = model._replace(
        loadings=model.loadings[outcome.row][None], intercepts=model.intercepts[:1]
    )
    mean, variance = (x[0, 0] for x in gaussian.entry_moments(loading, posterior))
    noise = noise_variance / jnp.maximum(outcome.weight, 1.0)
    return jax.scipy.stats.norm.logpdf(outcome.value, mean, jnp.sqrt(variance + noise))


def systematic(key: Array, log_weights: Array) -> Array:
    """Ancestors [P]: i occurs P w_i times on average, rounded up or down."""
    number = log_weights.size
    cumulative = jnp.cumsum(jax.nn.softmax(log_weights))
    positions = (jax.random.uniform(key) + jnp.arange(number)) / number
    ancestors = jnp.searchsorted(cumulative / cumulative[-1], positions, side="right")
    return jnp.minimum(ancestors, number - 1)


def update(
    key: Array, particles: Particles, observations: Observations, outcome: Outcome, known: Filter
) -> Particles:
    """Moves the particles from the posterior before the outcome to that after it.

    The weights do not depend on u_n, which is then drawn given V and all looks; v_d given U, and
    su2 given U, are Gibbs steps. The observations hold the outcome already, and all statistics are
    made anew from them, for V has moved. Weight 0 leaves everything as it was.
    """
    row, n = outcome.row, outcome.column
    number = particles.user_variance.size
    new = outcome.weight > 0
    weight_key, move_key = jax.random.split(key)
    user_keys, item_keys, variance_keys = jax.random.split(move_key, (3, number))

    after = Observations(*(lax.dynamic_slice_in_dim(x, n, 1, 1) for x in observations))
    before = after.add(row, jnp.zeros_like(row), outcome.value, -outcome.weight)
    log_weights = jax.vmap(log_weight, in_axes=(0, 0, None, None, None))(
        particles.items, particles.user_variance, known.noise_variance, before, outcome
    )
    ancestors = jnp.where(new, systematic(weight_key, log_weights), jnp.arange(number))
    users, items, user_variance = jax.tree.map(lambda x: x[ancestors], particles)

    user = jax.vmap(pmf.sample_factors, in_axes=(0, 0, 0, None, None))(
        user_keys, items, user_variance, known.noise_variance, after
    )[:, 0]
    users = users.at[:, n].set(jnp.where(new, user, users[:, n]))

    looks = Observations(*(lax.dynamic_slice_in_dim(x, row, 1, 0) for x in observations))
    item = jax.vmap(pmf.sample_factors, in_axes=(0, 0, None, None, None))(
        item_keys, users, known.item_variance, known.noise_variance, pmf.transposed(looks)
    )[:, 0]
    items = items.at[:, row].set(jnp.where(new, item, items[:, row]))

    if known.learn_variance:
        squares = (users**2).sum((1, 2))
        drawn = jax.vmap(
            lambda key, squares: pmf.sample_variance(
                key, squares, users[0].size, shape=known.shape, rate=known.rate
            )
        )(variance_keys, squares)
        user_variance = jnp.where(new, drawn, user_variance)
    return Particles(users, items, user_variance)


def prior(
    key: Array, known: Filter, *, particles: int, rows: int, columns: int, rank: int
) -> Particles:
    """P draws of everything before anything is seen."""
    user_key, item_key, variance_key = jax.random.split(key, 3)
    variance = jnp.ones(particles) * known.user_variance
    if known.learn_variance:
        variance = known.rate / jax.random.gamma(variance_key, known.shape, (particles,))
    users = jax.random.normal(user_key, (particles, columns, rank))
    items = jax.random.normal(item_key, (particles, rows, rank))
    return Particles(
        jnp.sqrt(variance)[:, None, None] * users, jnp.sqrt(known.item_variance) * items, variance
    )


def absorb_all(
    key: Array, particles: Particles, observations: Observations, known: Filter
) -> Particles:
    """Absorbs everything seen, entry by entry; c looks at an entry enter as their mean."""
    rows, columns = observations.count.shape
    seen = observations.count.ravel() > 0
    entries = jnp.nonzero(seen, size=seen.size, fill_value=0)[0]

    def one(i: Array, carry: tuple[Particles, Observations]) -> tuple[Particles, Observations]:
        particles, so_far = carry
        row, column = jnp.divmod(entries[i], columns)
        looks = observations.count[row, column]
        outcome = Outcome(row, column, observations.total[row, column] / looks, looks)
        so_far = so_far.add(*outcome)
        return update(jax.random.fold_in(key, i), particles, so_far, outcome, known), so_far

    start = (particles, Observations.empty(rows, columns))
    return lax.fori_loop(0, seen.sum(), one, start)[0]


def particle(
    setting: Setting,
    *,
    particles: int = 100,
    rank: int = 3,
    noise_variance: float = 0.1,
    factor_variance: float = 1.0,
    learn_variance: bool = False,
    shape: float = 2.0,
    rate: float = 2.0,
    users: str = "chosen",
    noisy: bool = False,
) -> Policy:
    """Thompson Sampling from a filter that is never refitted.

    Args:
      setting: of the experiment; its belief is not used.
      particles: P.
      rank: K.
      noise_variance: s2.
      factor_variance: sv2, and su2 unless it is learned.
      learn_variance: su2 ~ IG(shape, rate) is a part of every particle.
      shape: of the prior of su2.
      rate: of the same.
      users: `chosen` with the item, or `random`: one of those with something available arrives.
      noisy: see `thompson`; its authors draw factors, not ratings.
    """
    if users not in USERS:
        raise ValueError(f"particle.users: unknown {users!r}; choose from {', '.join(USERS)}")
    known = Filter(noise_variance, factor_variance, factor_variance, learn_variance, shape, rate)

    def init(key: Array, observations: Observations, problem: Problem) -> Particles:
        del problem
        prior_key, absorb_key = jax.random.split(key)
        rows, columns = observations.count.shape
        start = prior(prior_key, known, particles=particles, rows=rows, columns=columns, rank=rank)
        return absorb_all(absorb_key, start, observations, known)

    def draw(key: Array, state: Particles) -> Parameters:
        index = jax.random.randint(key, (), 0, particles)
        return pmf.given(state.items[index], state.user_variance[index], noise_variance)

    def diagnose(state: Particles) -> Diagnostics:
        return Diagnostics.finite_only(state)

    belief = Belief(init, lambda key, state, observations: state, draw, diagnose)
    if setting.standardise:
        belief = standardised(belief)
    thompson = sampling(belief, entry_noise=setting.entry_noise and noisy)

    def choose(key: Array, state: Any, view: View) -> Array:
        if users == "chosen":
            return thompson.choose(key, state, view)
        user_key, item_key = jax.random.split(key)
        waiting = view.available.any(0)
        lottery = jax.random.uniform(user_key, waiting.shape)
        arriving = jnp.argmax(jnp.where(waiting, lottery, -1.0))
        mine = view.available & (jnp.arange(waiting.size) == arriving)
        return thompson.choose(item_key, state, view._replace(available=mine))

    def absorb(key: Array, state: Any, view: View, outcome: Outcome) -> Any:
        if not setting.standardise:
            return update(key, state, view.observations, outcome, known)
        observations = view.observations.relative_to(state.centre, state.scale)
        outcome = outcome.relative_to(state.centre, state.scale)
        return state._replace(inner=update(key, state.inner, observations, outcome, known))

    return thompson._replace(choose=choose, absorb=absorb)
