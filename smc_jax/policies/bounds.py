"""Bounds on the scores of all entries, for less than the scores cost.

The variance of an entry in one draw is at most

    w'C w = sum_kl C_kl w_k w_l <= sum_k w_k² a_k,   a_k = sum_l |C_kl|,

since |w_k w_l| <= (w_k² + w_l²) / 2. With it in place of the variance a rule whose scores never
fall with the variance says what a column may hold, from two products of D x K matrices a draw.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.batching import at_once
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies.base import Best
from smc_jax.policies.ensemble import Prediction
from smc_jax.policies.ensemble_policy import ColumnView, Rule
from smc_jax.types import Offer

BOUNDED = 2**20  # entries of all draws that have their bounds found at once on a CPU
ROWS = 1024  # of these entries, where the columns can be chosen


def of_columns(parameters: Parameters, columns: Array) -> Parameters:
    """The draws of the matrix of some columns alone."""
    return jax.vmap(lambda one: one.at_columns(columns))(parameters)


def is_best(node: Any) -> bool:
    """Whether a part of a summary is the best of columns, for maps over summaries."""
    return isinstance(node, Best)


def _better(one: Best, other: Best) -> Best:
    """The larger of two scores, column by column: the first where they are alike; NaN is larger."""
    larger = (other.score > one.score) | (jnp.isnan(other.score) & ~jnp.isnan(one.score))
    return jax.tree.map(lambda a, b: jnp.where(larger, b, a), one, other)


def bounds_of_columns(
    rule: Rule,
    parameters: Parameters,
    columns: Array,
    data: Observations,
    offer: Offer,
    shared: Any,
) -> Any:
    """The summary of some columns [C], of bounds on the scores of their entries.

    Args:
      rule: whose scores never fall with the variance of a draw.
      parameters: S draws of the matrix of these columns.
      columns: which they are.
      data: what was seen of them.
      offer: their entries.
      shared: what `Rule.share` returned.
    """

    def latents_of(draw: Parameters) -> tuple[Array, Array]:
        mean, covariance = gaussian.latent_posterior(draw, data)
        return mean.T, jnp.abs(covariance).sum(2).T  # m and a [K, C]

    latents, spread = lax.map(latents_of, parameters)
    rows = offer.open.shape[0]
    on_cpu = max(BOUNDED // (parameters.sigma.shape[0] * columns.size), 1)
    height = min(at_once(on_cpu, rows), rows)
    noise = jax.vmap(lambda one: jnp.broadcast_to(one.noise(), columns.shape))(parameters)

    def of_rows(begin: Array) -> Any:
        def cut(array: Array) -> Array:
            return lax.dynamic_slice_in_dim(array, begin, height)

        def predicted(draw: Parameters, latents: Array, spread: Array) -> Prediction:
            w = cut(draw.factors())
            mean = cut(draw.expected()) + w @ latents
            return Prediction(mean, w**2 @ spread, mean)

        prediction = jax.vmap(predicted)(parameters, latents, spread)
        entries = jax.tree.map(cut, (offer.open, offer.factor, offer.chance))
        is_open, factor, chance = entries
        known = (prediction, None, is_open, factor, shared, chance)  # no rule of bounds needs data
        view = ColumnView(columns, noise, *known)  # type: ignore[arg-type]
        axes = ColumnView(0, 1, 2, None, 1, 1, None, 1)  # type: ignore[arg-type]
        found = jax.vmap(rule.summarise, in_axes=(axes,), out_axes=-1)(view)
        return jax.tree.map(lambda x: x._replace(row=x.row + begin), found, is_leaf=is_best)

    def more(best: Any, begin: Array) -> tuple[Any, None]:
        return jax.tree.map(_better, best, of_rows(begin), is_leaf=is_best), None

    begins = jnp.minimum(height * jnp.arange(-(-rows // height)), rows - height)
    return lax.scan(more, of_rows(begins[0]), begins[1:])[0]


def bounds(
    rule: Rule, parameters: Parameters, data: Observations, offer: Offer, shared: Any
) -> Any:
    """The summary of all columns [N], of bounds, some columns at a time."""
    draws, columns = parameters.sigma.shape[0], data.columns
    width = at_once(max(BOUNDED // (draws * min(ROWS, data.rows)), 1), columns)
    blocks = data.blocks(width)

    def of_block(block: tuple[Array, Array]) -> Any:
        number, some = block
        seen, own = data.of_block(number, some), of_columns(parameters, some)
        return bounds_of_columns(rule, own, some, seen, offer.of(some, seen), shared)

    found = lax.map(of_block, (jnp.arange(len(blocks)), blocks))  # [blocks, C]

    def by_column(of_blocks: Array) -> Array:
        empty = jnp.zeros(columns, of_blocks.dtype)
        return empty.at[blocks.ravel()].set(of_blocks.ravel(), mode="drop")

    return jax.tree.map(by_column, found)
