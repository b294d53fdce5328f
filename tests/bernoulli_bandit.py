"""The Beta-Bernoulli bandit of Russo & Van Roy, played with the library's information code.

Arms with means theta ~ U[0, 1]; a pull earns 1 with probability theta. The posterior of an arm
is Beta(1 + successes, 1 + failures): S draws of all arms stand for it at every pull, or it is
integrated on a grid, which shows what the finite number of draws does.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax import information

ARMS = 10
CELLS = 512

Rule = Callable[[Array, Array], Array]  # (key, distribution functions [A, CELLS + 1]) -> arm
Scores = tuple[Array, Array]  # expected regret [A] and information gain [A]


def posterior_distribution(successes: ArrayLike, failures: ArrayLike) -> Array:
    """Distribution function of Beta(1 + successes, 1 + failures) at CELLS + 1 even points."""
    centres = (jnp.arange(CELLS) + 0.5) / CELLS
    log_density = successes * jnp.log(centres) + failures * jnp.log1p(-centres)
    mass = jnp.exp(log_density - log_density.max())
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(mass / mass.sum())])


def posterior_draws(key: Array, distributions: Array, draws: int) -> Array:
    """Independent draws [S, A] by inversion of the arms' distribution functions."""
    edges = jnp.arange(CELLS + 1) / CELLS
    uniform = jax.random.uniform(key, (distributions.shape[0], draws))
    invert = jax.vmap(lambda u, below: jnp.interp(u, below, edges), out_axes=1)
    return invert(uniform, distributions)


def outcome_information(theta: Array) -> Scores:
    """Regret and I(A*; y_a) of binary outcomes from draws [S, A]; the groups are the arms."""
    outcomes = jnp.stack([1.0 - theta, theta], axis=-1)
    groups = theta.argmax(1)
    gain = jax.vmap(information.mutual_information, in_axes=(1, None))(outcomes, groups)
    return theta.max(1).mean() - theta.mean(0), gain


def outcome_variance(theta: Array) -> Scores:
    """Regret and Var(E[y_a | A*]) from draws [S, A]."""
    return theta.max(1).mean() - theta.mean(0), information.variance_gain(theta, theta.argmax(1))


def exact_information(distributions: Array) -> Scores:
    """Regret and I(A*; y_a) with the posterior integrated on the grid, no draws.

    p(A* = a, theta_a = x) = f_a(x) prod over b != a of F_b(x). Rows of the outcome tables that
    are weighted by A p(a*) turn the mean over equally likely draws into one over best arms.
    """
    arms = distributions.shape[0]
    same = jnp.eye(arms, dtype=bool)
    centres = (jnp.arange(CELLS) + 0.5) / CELLS
    mass = jnp.maximum(jnp.diff(distributions, axis=1), 0.0)
    below = 0.5 * (distributions[:, 1:] + distributions[:, :-1])
    mean_below = jnp.cumsum(mass * centres, axis=1) - 0.5 * mass * centres
    best = mass * jnp.where(same[:, :, None], 1.0, below).prod(1)  # [A*, x]
    best = best / best.sum()
    given_below = jnp.where(below > 1e-30, mean_below / jnp.maximum(below, 1e-30), 0.0)
    maximum = best @ centres  # E[max theta; A* = a]
    success = jnp.where(same, maximum[:, None], best @ given_below.T)  # [A*, a]
    tables = arms * jnp.stack([best.sum(1, keepdims=True) - success, success], axis=-1)
    gain = jax.vmap(information.mutual_information, in_axes=(1, None))(tables, jnp.arange(arms))
    return maximum.sum() - success.sum(0), gain


def thompson(key: Array, distributions: Array) -> Array:
    """The best arm of one draw."""
    return posterior_draws(key, distributions, 1)[0].argmax()


def two_action(key: Array, scores: Scores) -> Array:
    """IDS: the best mixture of two arms."""
    return information.two_action_choice(key, *scores, jnp.ones(ARMS, bool))


def deterministic(key: Array, scores: Scores) -> Array:
    """The arm of smallest information ratio."""
    del key
    return information.deterministic_choice(*scores, jnp.ones(ARMS, bool))


def from_draws(
    select: Callable[[Array, Scores], Array], score: Callable[[Array], Scores], draws: int
) -> Rule:
    """IDS where S posterior draws stand for the posterior."""

    def rule(key: Array, distributions: Array) -> Array:
        draw_key, select_key = jax.random.split(key)
        return select(select_key, score(posterior_draws(draw_key, distributions, draws)))

    return rule


def exact(select: Callable[[Array, Scores], Array]) -> Rule:
    """IDS with the posterior itself."""
    return lambda key, distributions: select(key, exact_information(distributions))


def play(key: Array, rule: Rule, *, horizon: int) -> Array:
    """Pseudo-regret of one trial: the sum of max theta - theta of the arm pulled."""
    theta_key, play_key = jax.random.split(key)
    theta = jax.random.uniform(theta_key, (ARMS,))

    def pull(state: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
        counts, distributions = state
        choose_key, outcome_key = jax.random.split(key)
        arm = rule(choose_key, distributions)
        outcome = jax.random.bernoulli(outcome_key, theta[arm]).astype(int)
        counts = counts.at[arm, outcome].add(1.0)
        failures, successes = counts[arm]
        distributions = distributions.at[arm].set(posterior_distribution(successes, failures))
        return (counts, distributions), theta.max() - theta[arm]

    prior = jnp.tile(posterior_distribution(0.0, 0.0), (ARMS, 1))
    start = jnp.zeros((ARMS, 2)), prior
    return lax.scan(pull, start, jax.random.split(play_key, horizon))[1].sum()


def study(seed: int, rule: Rule, *, trials: int, horizon: int) -> Array:
    """Pseudo-regrets [trials]; at one seed, every rule meets the same arms."""
    keys = jax.random.split(jax.random.key(seed), trials)
    one = jax.vmap(lambda key: play(key, rule, horizon=horizon))
    return jax.jit(one)(keys)
