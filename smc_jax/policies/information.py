"""The information ratio: expected regret squared over the information about the best action.

A finite set of S equally likely parameter draws stands for the posterior (Alg. 3). Under draw s,
action a has an outcome distribution q_{s,a}, and `best[s]` is the action of highest mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtr, ndtri, xlogy
from jax.typing import ArrayLike

from smc_jax.algebra.extremes import argmin


def best_groups(best: Array) -> Array:
    """Numbers the draws [S] by the first draw with the same best action."""
    return jnp.argmax(best[:, None] == best[None, :], axis=1)


def without_rounding(gain: Array, scale: ArrayLike) -> Array:
    """The gain, or exactly zero where it is no more than the rounding of numbers of that scale."""
    return jnp.where(gain > 8.0 * jnp.finfo(gain.dtype).eps * scale, gain, 0.0)


def mutual_information(outcomes: Array, groups: Array) -> Array:
    """I(A*; y_a) of one action from its outcome probabilities [S, B] under each draw.

    sum over a*, y of p(a*, y) log [ p(a*, y) / (p(a*) p(y)) ] with
    p(a*, y) = sum over the draws whose best action is a* of q_s(y) / S.
    """
    draws = outcomes.shape[0]
    chex.assert_shape(groups, (draws,))
    joint = jnp.zeros_like(outcomes).at[groups].add(outcomes / draws)
    best = joint.sum(1, keepdims=True)
    marginal = joint.sum(0, keepdims=True)
    information = (xlogy(joint, joint) - xlogy(joint, best) - xlogy(joint, marginal)).sum()
    return without_rounding(information, 1.0)


def normal_bins(mean: Array, scale: Array, bins: int) -> Array:
    """Outcome probabilities [S, B] of normals [S] in bins of equal probability.

    The edges are quantiles of the normal with the mixture's mean and variance, so that every
    action is resolved alike, whatever its scale.
    """
    centre = mean.mean()
    width = jnp.sqrt(mean.var() + (scale**2).mean())
    edges = centre + width * ndtri(jnp.arange(1, bins) / bins)
    below = ndtr((edges - mean[:, None]) / scale[:, None])
    zero, one = jnp.zeros_like(below[:, :1]), jnp.ones_like(below[:, :1])
    return jnp.diff(below, axis=1, prepend=zero, append=one)


def entropy_of_best(best: Array) -> Array:
    """H(A*) [] of the best actions [S] of equally likely draws: no outcome says more about A*."""
    # Counts, divided once: the share of a best action that all agree on is then 1, and H is 0.
    share = jnp.zeros(best.shape).at[best_groups(best)].add(1.0) / best.size
    return -xlogy(share, share).sum()


def histogram_gain(
    means: Array, scales: Array, best: Array, *, bins: int = 32, chunk: int = 1024
) -> Array:
    """I(A*; y_a) [A] for normal outcomes with means and scales [S, A], `chunk` actions at once."""
    chex.assert_shape([means, scales], (best.shape[0], None))
    groups = best_groups(best)

    def gain(moments: tuple[Array, Array]) -> Array:
        mean, scale = moments
        return mutual_information(normal_bins(mean, scale, bins), groups)

    return lax.map(gain, (means.T, scales.T), batch_size=chunk)


def gaussian_gain(total_variance: ArrayLike, conditional_variance: ArrayLike) -> Array:
    """1/2 log(total predictive variance / variance left once theta is known).

    With the geometric mean over draws of the latter it bounds I(A*; y_a) from above.
    """
    ratio = jnp.asarray(total_variance) / conditional_variance
    return without_rounding(0.5 * jnp.log(ratio), 1.0)


def variance_gain(means: Array, best: Array) -> Array:
    """Var(E[y_a | A*]) [A] from the mean outcomes [S, A]."""
    chex.assert_shape(means, (best.shape[0], None))
    groups = best_groups(best)
    sums = jnp.zeros_like(means).at[groups].add(means)  # over the draws of each group
    sizes = jnp.zeros(len(means), means.dtype).at[groups].add(1.0)

    def average(values: Array, weights: Array) -> Array:
        # As a product: on CPUs, XLA's sums over the first axis of a long array take 30 times that.
        return jnp.matmul(weights / len(means), values, precision="highest")

    overall = average(means, jnp.ones_like(sizes))
    deviations = sums / jnp.maximum(sizes, 1.0)[:, None] - overall
    scale = average(means**2, jnp.ones_like(sizes))
    return without_rounding(average(deviations**2, sizes), scale)


def information_ratio(regret: Array, gain: Array) -> Array:
    """Delta^2 / g, zero where nothing is lost and infinite where nothing is learned at a loss."""
    learns = gain > 0.0
    ratio = regret**2 / jnp.where(learns, gain, 1.0)
    return jnp.where(regret <= 0.0, 0.0, jnp.where(learns, ratio, jnp.inf))


def deterministic_choice(regret: Array, gain: Array, available: Array) -> Array:
    """The available action [] with the smallest information ratio (the paper's rule).

    Where no action at a loss teaches anything, the one of smallest regret.
    """
    ratio = jnp.where(available, information_ratio(regret, gain), jnp.inf)
    fallback = argmin(jnp.where(available, regret, jnp.inf))
    return jnp.where(jnp.isfinite(ratio.min()), argmin(ratio), fallback)


class Pruned(NamedTuple):
    """A choice, and how many actions had to be evaluated for it."""

    choice: Array  # [] int
    evaluated: Array  # [] int


def pruned_choice(
    regret: Array,
    bound: Array,
    available: Array,
    gains: Callable[[Array], Array],
    *,
    rounding: ArrayLike = 1e-5,
    first: int = 8,
    chunk: int = 32,
) -> Pruned:
    """The choice of `deterministic_choice`, without the gains of actions that it cannot be.

    An upper bound on the gain bounds the ratio from below. Actions are evaluated in the order of
    that, until none that is left can have a ratio as small as the best found. A few are most often
    enough; where they are not, there may be many more, and larger chunks of them are evaluated.

    Args:
      regret: [A].
      bound: [A], at least the gain; zero where nothing is learned.
      available: [A].
      gains: from indices [C] of actions to their gains [C].
      rounding: how far above its bound it may leave a gain, in the units of these.
      first: C at first.
      chunk: C from then on.
    """
    size = regret.size
    slack = jnp.where(bound > 0.0, 1.001 * bound + rounding, 0.0)
    floor = jnp.where(available, information_ratio(regret, slack), jnp.inf)

    def unfinished(state: tuple) -> Array:
        floor, ratio, _, _ = state
        least = floor.min()
        return (least <= ratio) & jnp.isfinite(least)

    def evaluate(state: tuple, number: int) -> tuple:
        floor, ratio, choice, evaluated = state
        least, index = lax.top_k(-floor, min(number, size))
        candidate = jnp.isfinite(least)
        found = jnp.where(candidate, information_ratio(regret[index], gains(index)), jnp.inf)
        earliest = jnp.where(found == found.min(), index, size).min()
        better = (found.min() < ratio) | ((found.min() == ratio) & (earliest < choice))
        return (
            floor.at[index].set(jnp.inf),
            jnp.where(better, found.min(), ratio),
            jnp.where(better, earliest, choice),
            evaluated + candidate.sum(),
        )

    start = (floor, jnp.full((), jnp.inf, floor.dtype), jnp.full((), size), jnp.zeros((), int))
    _, ratio, choice, evaluated = lax.while_loop(
        unfinished, lambda state: evaluate(state, chunk), evaluate(start, first)
    )
    fallback = argmin(jnp.where(available, regret, jnp.inf))
    return Pruned(jnp.where(jnp.isfinite(ratio), choice, fallback), evaluated)


def two_action_mixture(regret: Array, gain: Array, available: Array) -> tuple[Array, Array, Array]:
    """The minimiser of Delta(p)^2 / g(p) over all distributions p, which mixes two actions.

    By duality the minimum is max over t >= 0 of min over a of 2 t Delta_a - t^2 g_a, concave in t.
    Let m be the action of least Delta / g. Every term rises until t = Delta_m / g_m, and the term
    of m is zero at twice that: the maximum lies between. In units of Delta_m and g_m we have
    t = 2 - s with 0 <= s <= 1 and g_a <= Delta_a, so that for s > 0 no action of more regret than
    m has the least term. Bisection on the sign of the slope brackets the maximum; the minimising
    actions at the two ends span the optimum, whose mixing weight has a closed form.

    Returns:
      Actions i and j and the probability of j.
    """
    regret = jnp.where(available, jnp.maximum(regret, 0.0), jnp.inf)
    gain = jnp.where(available, jnp.maximum(gain, 0.0), 0.0)
    # In units of the largest first: in others, a quotient of the two might overflow.
    regret = _in_units_of(regret, jnp.max(regret, initial=0.0, where=available))
    gain = _in_units_of(gain, gain.max())
    cost = jnp.where(gain > 0.0, regret / gain, jnp.inf)
    m = jnp.where(jnp.isfinite(cost.min()), argmin(cost), argmin(regret))
    useful = regret <= regret[m]
    # m itself is set: quotients may be rounded twice, and its Delta - g would not be zero.
    regret = _in_units_of(regret, regret[m]).at[m].set(jnp.sign(regret[m]))
    gain = _in_units_of(gain, gain[m]).at[m].set(jnp.sign(gain[m]))

    def minimiser(s: Array) -> Array:  # of 2 Delta - t g
        return argmin(jnp.where(useful, 2.0 * (regret - gain) + s * gain, jnp.inf))

    def bisect(_: int, ends: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, i, j = ends
        middle = 0.5 * (low + high)
        action = minimiser(middle)
        rising = regret[action] > (2.0 - middle) * gain[action]  # in t
        return (
            jnp.where(rising, low, middle),
            jnp.where(rising, middle, high),
            jnp.where(rising, action, i),
            jnp.where(rising, j, action),
        )

    zero, one = jnp.zeros((), regret.dtype), jnp.ones((), regret.dtype)
    bits = jnp.finfo(regret.dtype).nmant + 1
    _, _, i, j = lax.fori_loop(0, bits, bisect, (zero, one, minimiser(one), m))
    # d/dq of ((1-q) Di + q Dj)^2 / ((1-q) gi + q gj) vanishes at D = 0 or 2 D' g = D g'.
    slope_regret, slope_gain = regret[j] - regret[i], gain[j] - gain[i]
    flat = (slope_regret == 0.0) | (slope_gain == 0.0)
    stationary = regret[i] / slope_regret - 2.0 * gain[i] / slope_gain
    q = jnp.where(flat, 0.0, jnp.clip(stationary, 0.0, 1.0))
    candidates = jnp.stack([jnp.zeros_like(q), q, jnp.ones_like(q)])
    mixed_regret = regret[i] + candidates * slope_regret
    mixed_gain = gain[i] + candidates * slope_gain
    # Not the square, which might be too small for a number of this type.
    ratio = jnp.where(mixed_gain > 0.0, mixed_regret * (mixed_regret / mixed_gain), jnp.inf)
    return i, j, candidates[jnp.argmin(ratio)]


def _in_units_of(values: Array, unit: Array) -> Array:
    return values / jnp.where(unit > 0.0, unit, 1.0)


def two_action_choice(key: Array, regret: Array, gain: Array, available: Array) -> Array:
    """An action [] drawn from the IDS distribution, which mixes at most two."""
    i, j, q = two_action_mixture(regret, gain, available)
    mixed = jnp.where(jax.random.bernoulli(key, q), j, i)
    nothing_to_learn = ~(available & (gain > 0.0)).any()
    return jnp.where(nothing_to_learn, argmin(jnp.where(available, regret, jnp.inf)), mixed)
