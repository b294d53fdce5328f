"""The Beta-Bernoulli bandit of Russo & Van Roy, played with the library's information code.

Arms with means theta ~ U[0, 1]; a pull earns 1 with probability theta. The posterior of an arm
is Beta(1 + successes, 1 + failures): S draws of all arms stand for it, or it is integrated on a
grid, which shows what the finite number of draws does.

A pull changes the posterior of its own arm only, so only that arm's draws are renewed, and those
of one more arm at random: else an arm passed over because its draws happen to be low would keep
them for good.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax.policies import information

ARMS = 10
CELLS = 512

# (key, distribution functions [A, CELLS + 1], draws [A, S]) -> arm
Rule = Callable[[Array, Array, Array], Array]
Scores = tuple[Array, Array]  # expected regret [A] and information gain [A]


def posterior_distribution(successes: ArrayLike, failures: ArrayLike) -> Array:
    """Distribution function of Beta(1 + successes, 1 + failures) at CELLS + 1 even points."""
    centres = (jnp.arange(CELLS) + 0.5) / CELLS
    log_density = successes * jnp.log(centres) + failures * jnp.log1p(-centres)
    mass = jnp.exp(log_density - log_density.max())
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(mass / mass.sum())])


def posterior_draws(key: Array, distributions: Array, draws: int) -> Array:
    """Independent draws [A, S] by inversion of the arms' distribution functions."""
    edges = jnp.arange(CELLS + 1) / CELLS
    uniform = jax.random.uniform(key, (distributions.shape[0], draws))
    return jax.vmap(lambda u, below: jnp.interp(u, below, edges))(uniform, distributions)


def table_information(best: Array, success: Array) -> Array:
    """I(A*; y_a) [A] from p(A*) [A] and p(A*, y_a = 1) [A*, a].

    Rows weighted by A p(a*) turn the mean over equally likely draws into one over best arms.
    """
    arms = best.shape[0]
    tables = arms * jnp.stack([best[:, None] - success, success], axis=-1)
    return jax.vmap(information.mutual_information, in_axes=(1, None))(tables, jnp.arange(arms))


def outcome_information(theta: Array) -> Scores:
    """Regret and I(A*; y_a) of binary outcomes from draws [A, S].

    Draws of the same best arm are summed first, as `mutual_information` would do draw by draw.
    """
    arms, draws = theta.shape
    member = (theta.argmax(0) == jnp.arange(arms)[:, None]).astype(theta.dtype)  # [A*, S]
    success = member @ theta.T / draws
    return jnp.trace(success) - success.sum(0), table_information(member.mean(1), success)


def outcome_variance(theta: Array) -> Scores:
    """Regret and Var(E[y_a | A*]) from draws [A, S]."""
    gain = information.variance_gain(theta.T, theta.argmax(0))
    return theta.max(0).mean() - theta.mean(1), gain


def exact_information(distributions: Array) -> Scores:
    """Regret and I(A*; y_a) with the posterior integrated on the grid, no draws.

    p(A* = a, theta_a = x) = f_a(x) prod over b != a of F_b(x).
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
    return maximum.sum() - success.sum(0), table_information(best.sum(1), success)


def thompson(key: Array, distributions: Array, draws: Array) -> Array:
    """The best arm of one new draw."""
    del draws
    return posterior_draws(key, distributions, 1)[:, 0].argmax()


def two_action(key: Array, scores: Scores) -> Array:
    """IDS: the best mixture of two arms."""
    return information.two_action_choice(key, *scores, jnp.ones(ARMS, bool))


def deterministic(key: Array, scores: Scores) -> Array:
    """The arm of smallest information ratio."""
    del key
    return information.deterministic_choice(*scores, jnp.ones(ARMS, bool))


def from_draws(select: Callable[[Array, Scores], Array], score: Callable[[Array], Scores]) -> Rule:
    """IDS where posterior draws stand for the posterior."""
    return lambda key, distributions, draws: select(key, score(draws))


def exact(select: Callable[[Array, Scores], Array]) -> Rule:
    """IDS with the posterior itself."""
    return lambda key, distributions, draws: select(key, exact_information(distributions))


def play(key: Array, rule: Rule, *, horizon: int, draws: int) -> Array:
    """Pseudo-regret of one trial: the sum of max theta - theta of the arm pulled."""
    theta_key, prior_key, play_key = jax.random.split(key, 3)
    theta = jax.random.uniform(theta_key, (ARMS,))

    def pull(state: tuple[Array, ...], key: Array) -> tuple[tuple[Array, ...], Array]:
        counts, distributions, samples = state
        choose_key, outcome_key, other_key, renew_key = jax.random.split(key, 4)
        arm = rule(choose_key, distributions, samples)
        outcome = jax.random.bernoulli(outcome_key, theta[arm]).astype(int)
        counts = counts.at[arm, outcome].add(1.0)
        failures, successes = counts[arm]
        distributions = distributions.at[arm].set(posterior_distribution(successes, failures))
        other = (arm + jax.random.randint(other_key, (), 1, ARMS)) % ARMS
        renewed = jnp.stack([arm, other])
        fresh = posterior_draws(renew_key, distributions[renewed], draws)
        samples = samples.at[renewed].set(fresh)
        return (counts, distributions, samples), theta.max() - theta[arm]

    prior = jnp.tile(posterior_distribution(0.0, 0.0), (ARMS, 1))
    start = jnp.zeros((ARMS, 2)), prior, posterior_draws(prior_key, prior, draws)
    return lax.scan(pull, start, jax.random.split(play_key, horizon))[1].sum()


def study(seed: int, rule: Rule, *, trials: int, horizon: int, draws: int = 0) -> Array:
    """Pseudo-regrets [trials]; at one seed, every rule meets the same arms."""
    keys = jax.random.split(jax.random.key(seed), trials)
    one = jax.vmap(lambda key: play(key, rule, horizon=horizon, draws=draws))
    return jax.jit(one)(keys)
