"""The interface of all policies: five pure functions over a state of the policy's own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.beliefs import Belief, Diagnostics
from smc_jax.environment import Problem
from smc_jax.extremes import argmax
from smc_jax.types import Outcome, View


class Policy(NamedTuple):
    """Chooses entries one by one.

    Between two refits the view changes only in the entry that was absorbed last.
    """

    init: Callable[[Array, View, Problem], Any]  # (key, view, problem: for oracles alone) -> state
    refit: Callable[[Array, Any, View], Any]  # (key, state, view) -> state
    choose: Callable[[Array, Any, View], Array]  # (key, state, view) -> flat index into [D, N]
    absorb: Callable[[Array, Any, View, Outcome], Any]  # (key, state, view after, outcome)
    diagnose: Callable[[Any], Diagnostics]


class Setting(NamedTuple):
    """What all policies of one experiment share."""

    belief: Belief  # the model fitted to what has been seen
    entry_noise: bool  # the noise is part of the entry, as where each is seen once
    standardise: bool = False  # other models than the belief are fitted to standardised values


class Best(NamedTuple):
    """The largest score of every column, which is kept up to date column by column."""

    score: Array  # [N]  NaN where a score in the column is
    row: Array  # [N] int: the first that has it

    @classmethod
    def of_column(cls, score: Array, available: Array) -> "Best":
        """Of the available scores [D] of one column."""
        masked = jnp.where(available, score, -jnp.inf)
        largest = jnp.where(jnp.isnan(score).any(), jnp.nan, masked.max())
        return cls(largest, argmax(masked))

    def choice(self) -> Array:
        """Flat index into [D, N] of the first of the largest."""
        columns = self.score.size
        index = self.row * columns + jnp.arange(columns)
        largest = self.score == self.score.max()
        first = jnp.where(largest, index, jnp.iinfo(index.dtype).max).min()
        return unless_broken(first, self.score)


def best_available(reward: Array, available: Array) -> Array:
    """Flat index of the largest reward [D, N] among the available entries."""
    return unless_broken(argmax(jnp.where(available, reward, -jnp.inf)), reward)


def unless_broken(choice: Array, score: Array) -> Array:
    """The choice, or -1, which the loop reports, where a score behind it is not a number."""
    return jnp.where(jnp.isnan(score).any(), -1, choice)


def blank(function: Callable[..., Any], *arguments: Any) -> Any:
    """Zeros in the shape of what the function returns."""
    shapes = jax.eval_shape(function, *arguments)
    return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
