"""The interface of all policies: pure functions over a state of the policy's own."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.algebra.batching import mapped
from smc_jax.algebra.extremes import argmax, first_largest
from smc_jax.beliefs.base import Belief, Diagnostics, parameter_draws
from smc_jax.looks import Looks, Seen
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Choice, Offer, Outcome


class Mixture(NamedTuple):
    """What S equally likely parameter draws say of M entries: normals, noise apart.

    The value of an entry that was refused is known to a draw where answers depend on values: then
    it is the mean, noise included, and nothing is left of variance and noise.
    """

    mean: Array  # [S, M]
    variance: Array  # [S, M]  of the entry without noise
    noise: Array  # [S, M]  standard deviation of the noise


class Init(Protocol):
    """Starts a policy."""

    def __call__(self, key: Array, data: Observations, offer: Offer, prior: Any = None) -> Any:
        """The state before the first refit.

        Args:
          key: randomness of the start.
          data: what was seen.
          offer: one of the kind that will be made, from which shapes are taken.
          prior: what the belief knows beforehand; None for nothing.
        """


class Policy(NamedTuple):
    """Chooses entries one by one; a refit precedes the first choice.

    `absorb` and `refit` are given the data after the last outcome, and the offer that comes next.
    """

    init: Init  # (key, data, offer, prior=None) -> state
    refit: Callable[[Array, Any, Observations, Offer], Any]  # (key, state, data, offer) -> state
    choose: Callable[[Array, Any, Observations, Offer], Choice]  # (key, state, data, offer)
    absorb: Callable[[Array, Any, Observations, Outcome, Offer], Any]  # -> state
    diagnose: Callable[[Any], Diagnostics]
    # (key, state, data, rows [M], columns [M], number of draws); None where no model is fitted.
    predict: Callable[[Array, Any, Observations, Array, Array, int], Mixture] | None = None
    # (key, state, data, offer, pending [D, N], number) -> distinct choices; None where a pending
    # entry is closed and changes nothing else.
    choose_several: Callable[[Array, Any, Observations, Offer, Array, int], Choice] | None = None
    # What an oracle must be told as its prior: a name in `simulation.oracles.REVEALED`.
    told: str | None = None
    learns_answers: bool = False  # whether its own belief learns who answers


class Setting(NamedTuple):
    """What all policies of one experiment share."""

    belief: Belief  # the model fitted to what has been seen
    entry_noise: bool  # the noise is part of the entry, as where each is seen once
    standardise: bool = False  # other models than the belief are fitted to standardised values
    horizon: int | None = None  # H, where it is known
    paper: Belief | None = None  # the model fitted as the paper does; None: `belief` itself


class Best(NamedTuple):
    """The largest score of every column, which is kept up to date column by column."""

    score: Array  # [N]  NaN where a score in the column is
    row: Array  # [N] int: the first that has it

    @classmethod
    def of_column(cls, score: Array, available: Array) -> "Best":
        """The best of the available scores [D] of one column."""
        masked = jnp.where(available, score, -jnp.inf)
        largest = jnp.where(jnp.isnan(score).any(), jnp.nan, masked.max())
        return cls(largest, argmax(masked))

    def choice(self) -> Choice:
        """Row and position of the largest score: the first row, then the first column."""
        largest = self.score == self.score.max()
        row = jnp.where(largest, self.row, jnp.iinfo(self.row.dtype).max).min()
        position = argmax(largest & (self.row == row))
        return unless_broken(Choice(row, position), self.score)


def best_open(reward: Array, offer: Offer) -> Choice:
    """The open entry of the largest reward [D, C]; none where an open reward is NaN."""
    row, position = first_largest(jnp.where(offer.open, reward, -jnp.inf))
    broken = row == reward.shape[0]  # another pass over all rewards would cost as much as this one
    return Choice(*(jnp.where(broken, -1, x) for x in (row, offer.column_of(position))))


def unless_broken(choice: Choice, score: Array) -> Choice:
    """The choice, or (-1, -1), which the loop reports, where a score behind it is NaN."""
    broken = jnp.isnan(score).any()
    return Choice(*(jnp.where(broken, -1, index) for index in choice))


def keys_of(key: Array, number: int) -> Array:
    """A key for each of a number of steps; one step takes the key itself, as in the loop."""
    return key[None] if number == 1 else jax.random.split(key, number)


def blank(function: Callable[..., Any], *arguments: Any) -> Any:
    """Zeros in the shape of what the function returns."""
    shapes = jax.eval_shape(function, *arguments)
    return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)


def predictor(
    belief: Belief, state_of: Callable[[Any], Any] = lambda state: state
) -> Callable[[Array, Any, Observations, Array, Array, int], Mixture]:
    """`Policy.predict` from draws of the belief, whose state is found in the policy's.

    A draw costs what the columns that are asked for cost. Where these would have more entries than
    lists of looks have slots, a draw takes all columns of the lists in place of a block.
    """

    def predict(
        key: Array, state: Any, data: Seen, rows: Array, columns: Array, number: int
    ) -> Mixture:
        whole = isinstance(data, Looks) and columns.size * data.rows > data.slots
        seen = data if whole else data.at_columns(columns)

        def one(parameters: Parameters) -> Mixture:
            own = parameters.at_columns(columns)
            found = gaussian.latent_posterior(parameters if whole else own, seen)
            mean, covariance = (x[columns] if whole else x for x in found)  # [M, K] and [M, K, K]
            w = own.factors()[rows]
            variance = jnp.einsum("mk,mkl,ml->m", w, covariance, w)
            noise = jnp.broadcast_to(own.noise(), rows.shape)
            place = jnp.arange(rows.size)
            expected = own.expected_at(rows, place) + (w * mean).sum(1)
            mixture = Mixture(expected, jnp.maximum(variance, 0.0), noise)
            if own.answers is None:
                return mixture
            refused = (own.answers.refused[place, rows] > 0) & ~seen.seen()[rows, place]
            known = Mixture(own.answers.values[place, rows], *jnp.zeros((2, rows.size)))
            return jax.tree.map(lambda a, b: jnp.where(refused, a, b), known, mixture)

        return mapped(one, parameter_draws(key, belief, state_of(state), number), on_cpu=1)

    return predict
