"""What a fitted policy says of any entries, and how well it does."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from smc_jax.checks import at_least
from smc_jax.observations import Observations
from smc_jax.policies.base import Mixture, Policy


class Predicted(NamedTuple):
    """The posterior of M entries."""

    mean: Array  # [M]
    sd: Array  # [M]  standard deviation
    quantiles: Array  # [Q, M]


def mixture_quantiles(mean: Array, scale: Array, levels: Array) -> Array:
    """Quantiles [Q, M] of equally weighted mixtures of normals [S, M], by bisection."""
    reach = 10.0 * scale
    low, high = (mean - reach).min(0), (mean + reach).max(0)
    ends = tuple(jnp.broadcast_to(end, (levels.size, *end.shape)) for end in (low, high))

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = ndtr((middle[:, None] - mean) / scale).mean(1)  # [Q, M]
        under = below < levels[:, None]
        return jnp.where(under, middle, low), jnp.where(under, high, middle)

    low, high = lax.fori_loop(0, 60, halve, ends)
    return 0.5 * (low + high)


def predict(
    key: Array,
    policy: Policy,
    state: Any,
    data: Observations,
    rows: ArrayLike,
    columns: ArrayLike,
    *,
    draws: int = 64,
    noise: bool = False,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
) -> Predicted:
    """Mean, standard deviation and quantiles of any entries, given everything seen.

    Args:
      key: randomness of the parameter draws.
      policy: any that fits a model.
      state: of the policy.
      data: what was seen.
      rows: [M] of the entries.
      columns: [M] of the entries.
      draws: how many parameter draws are averaged.
      noise: whether the noise of an answer is a part of what is predicted.
      quantiles: levels between 0 and 1.
    """
    at_least("draws", draws, 1)
    levels = jnp.asarray(quantiles, float)
    if not all(0.0 < level < 1.0 for level in quantiles):
        raise ValueError(f"quantiles: must lie between 0 and 1, got {tuple(quantiles)!r}")
    if policy.predict is None:
        raise ValueError("policy: it fits no model, so that it has no predictions")
    rows, columns = jnp.asarray(rows), jnp.asarray(columns)
    _inside("rows", rows, data.rows)
    _inside("columns", columns, data.columns)
    found = policy.predict(key, state, data, rows, columns, draws)
    return summary(found, levels, noise=noise)


def _inside(name: str, index: Array, size: int) -> None:
    """Refuses indices that are not there, where they are known already."""
    if not isinstance(index, jax.core.Tracer) and ((index < 0) | (index >= size)).any():
        raise ValueError(f"{name}: must lie in 0 to {size - 1}, got {index.tolist()}")


def summary(found: Mixture, levels: Array, *, noise: bool) -> Predicted:
    """Mean, standard deviation and quantiles of mixtures of normals."""
    variance = found.variance + found.noise**2 if noise else found.variance
    spread = jnp.sqrt(variance.mean(0) + found.mean.var(0))
    # A value that a draw knows has neither variance nor noise, and quantiles divide by the scale.
    tiny = jnp.finfo(found.mean.dtype).tiny
    scale = jnp.sqrt(jnp.maximum(variance, jnp.maximum(1e-12 * found.noise**2, tiny)))
    quantiles = mixture_quantiles(found.mean, scale, levels)
    return Predicted(found.mean.mean(0), spread, quantiles)


def score(
    entries: Array, exists: Array, hidden: Array, means: Array, deviations: Array
) -> tuple[Array, Array]:
    """Error of the mean prediction of hidden entries, and their mean log density.

    Both are in units of the standard deviation of all entries [D, N] that exist. Each of S draws
    predicts normals with means and deviations [S, D, N]; the density is that of their mixture.
    """
    unit = jnp.std(entries, where=exists)
    error = jnp.sqrt(jnp.mean((means.mean(0) - entries) ** 2, where=hidden)) / unit
    each = jax.scipy.stats.norm.logpdf(entries, means, deviations)
    density = jax.nn.logsumexp(each, axis=0) - jnp.log(len(means)) + jnp.log(unit)
    return error, jnp.mean(density, where=hidden)
