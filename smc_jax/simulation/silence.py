"""An environment in which not every entry that is asked for is answered.

An answer comes with probability Phi(a_n + c_d + g z_dn): a_n is how willing the column (a user) is,
c_d how well the row (an item) is answered for, z_dn the standardised value. How many times an entry
refuses before it answers is a function of the seed, the row and the column, so that all policies of
a seed meet the same silence.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtr, ndtri

from smc_jax.checks import at_least, between
from smc_jax.simulation.environment import Environment, SeedKeys, Step, World, entry_at
from smc_jax.simulation.offers.best import SILENT, own_key
from smc_jax.simulation.problem import Problem
from smc_jax.types import Choice, Offer, Outcome

MOST_REFUSALS = 2.0**30


class Silence(NamedTuple):
    """Who answers, which nobody but the environment knows."""

    chance: Array  # [D, N]: the probability of an answer
    patience: Array  # [D, N] int: how many asks are refused before one is answered


def standardised_values(problem: Problem) -> Array:
    """The entries [D, N] that exist, with mean 0 and deviation 1, and 0 elsewhere."""
    there, values = problem.available, problem.entries
    mean = values.mean(where=there)
    deviation = values.std(where=there)
    return jnp.where(there, (values - mean) / jnp.where(deviation > 0, deviation, 1.0), 0.0)


def draw_silence(
    key: Array,
    problem: Problem,
    *,
    lowest_rate: float,
    highest_rate: float,
    row_spread: float,
    value_slope: float,
) -> Silence:
    """Draws who answers for one matrix; the settings are those of `silent`."""
    rate_key, row_key, coin_key = jax.random.split(key, 3)
    rows, columns = problem.entries.shape
    dtype = problem.entries.dtype
    rates = jax.random.uniform(rate_key, (columns,), dtype, lowest_rate, highest_rate)
    # E Phi(a + s e) = Phi(a / sqrt(1 + s^2)) for e standard normal.
    inclination = math.sqrt(1.0 + row_spread**2 + value_slope**2) * ndtri(rates)
    appeal = row_spread * jax.random.normal(row_key, (rows, 1), dtype)
    chance = ndtr(inclination + appeal + value_slope * standardised_values(problem))

    def coin(row: Array, column: Array) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(coin_key, row), column)
        return jax.random.uniform(own, (), dtype, jnp.finfo(dtype).tiny, 1.0)

    coins = jax.vmap(jax.vmap(coin, (None, 0)), (0, None))(jnp.arange(rows), jnp.arange(columns))
    # Refusals before the first answer are geometric: at least k with probability (1 - chance)^k.
    refusals = jnp.floor(jnp.log(coins) / jnp.log1p(-chance))
    return Silence(chance, jnp.clip(refusals, 0.0, MOST_REFUSALS).astype(int))


def _silent_design(world: World, silence: Silence, *, ask_again: bool) -> World:
    """The world after an initial design some of whose asks were not answered."""
    asked = world.times if ask_again else jnp.minimum(world.times, 1)
    refused = jnp.minimum(asked, silence.patience)
    answers = asked > refused
    mute = (asked > 0) & ~answers
    data = world.data.without(mute).with_refusals(refused)
    return world._replace(
        data=data,
        open=world.open | mute if ask_again else world.open,
        factor=jnp.where(mute, 1.0, world.factor),
        times=jnp.where(answers, world.times, 0),
        silence=silence,
    )


def answer(
    environment: Environment,
    key: Array,
    world: World,
    offer: Offer,
    choice: Choice,
    *,
    ask_again: bool,
) -> tuple[World, Outcome, Step]:
    """As `Environment.answer` of the environment within, where a refused ask changes nothing."""
    rows, columns = world.open.shape
    row, column = choice
    there = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    position = column
    if offer.columns is not None:
        present = offer.columns == column
        position, there = jnp.argmax(present), there & present.any()

    def read() -> tuple[Array, ...]:
        chance, patience = (entry_at(x, row, column) for x in world.silence)
        mute = world.data.refused_at(row, column) < patience
        factor, is_open = (entry_at(x, row, position) for x in (offer.factor, offer.open))
        expected = factor * chance * entry_at(world.problem.entries, row, column)
        return mute & is_open, jnp.where(is_open, expected, 0.0)

    def nothing() -> tuple[Array, ...]:
        return tuple(map(jnp.zeros_like, read()))

    # A branch, so that all is read before the world is written to, in place.
    refused, expected = lax.cond(there, read, nothing)
    # To the environment within, a refused ask is none: only time passes. What is not on offer it
    # settles as it does without silence.
    asked = Choice(jnp.where(refused, -1, row), column)
    world, outcome, step = environment.answer(key, world, offer, asked)
    written = jnp.where(refused, row, rows)  # beyond the last row nothing is written
    world = world._replace(data=world.data.refuse(written, column, refused))
    if not ask_again:
        world = world._replace(open=world.open.at[written, column].set(False, mode="drop"))
    outcome = outcome._replace(
        row=jnp.where(refused, row, outcome.row),
        column=jnp.where(refused, column, outcome.column),
        refused=refused,
    )
    return (
        world,
        outcome,
        step._replace(
            row=jnp.where(refused, row, step.row),
            column=jnp.where(refused, column, step.column),
            expected=expected,
            valid=refused | step.valid,
        ),
    )


def _best_of_repeated(world: World, value: Array, horizon: int) -> Array:
    """The largest values [horizon], each as often as its entry can be asked until it answers."""
    left = world.silence.patience - world.data.times_refused().astype(int) + 1
    value = jnp.where(world.open, value, -jnp.inf).ravel()
    largest, index = lax.top_k(value, min(horizon, value.size))
    times = jnp.clip(left.ravel()[index], 1, horizon)
    # Sums that stop at the horizon: those of long horizons do not fit into 32 bits.
    until = lax.associative_scan(lambda a, b: jnp.minimum(a + b, horizon), times)
    number = jnp.searchsorted(until, jnp.arange(horizon), side="right")
    best = largest.at[number].get(mode="fill", fill_value=0.0)
    return jnp.where(jnp.isfinite(best), best, 0.0)


def silent(
    environment: Environment,
    *,
    lowest_rate: float = 0.3,
    highest_rate: float = 0.9,
    row_spread: float = 0.0,
    value_slope: float = 0.0,
    ask_again: bool = False,
) -> Environment:
    """Entries that are asked for are answered with some probability; no answer earns nothing.

    Regret counts the expected reward of a pick, the probability of an answer times the value, and
    so does the best sequence. Without asking again, it is as exact as that of the environment
    within. With it, each entry can be asked until it answers: the best sequence, which asks for the
    largest expected reward until an answer comes, is exact under the standing offer, and an upper
    bound under others, and where answers are late. Every ask uses up a budget. The initial design
    is asked for too, and not all of it answered.

    Args:
      environment: the outermost one but for this.
      lowest_rate: the least part of its entries that a column answers, on average; with a value
        slope, were its values spread like those of the whole matrix.
      highest_rate: the largest; rates are uniform between the two.
      row_spread: standard deviation over the rows of the probit of the probability.
      value_slope: how much the probit rises with each standard deviation of the value.
      ask_again: whether an entry that was refused may be asked for again.
    """
    if not environment.once:
        raise ValueError("silence: is for entries that are chosen once; set once=True")
    between("lowest_rate", lowest_rate, 0.0, 1.0)
    between("highest_rate", highest_rate, 0.0, 1.0)
    if highest_rate < lowest_rate:
        raise ValueError(f"highest_rate: must be at least lowest_rate, got {highest_rate!r}")
    at_least("row_spread", row_spread, 0.0)
    if not math.isfinite(value_slope):
        raise ValueError(f"value_slope: must be finite, got {value_slope!r}")
    settings = {
        "lowest_rate": lowest_rate,
        "highest_rate": highest_rate,
        "row_spread": row_spread,
        "value_slope": value_slope,
    }

    def reset(keys: SeedKeys, seed: Array) -> World:
        world = environment.reset(keys, seed)
        silence = draw_silence(own_key(keys.offers, SILENT), world.problem, **settings)
        return _silent_design(world, silence, ask_again=ask_again)

    def answered(
        key: Array, world: World, offer: Offer, choice: Choice
    ) -> tuple[World, Outcome, Step]:
        return answer(environment, key, world, offer, choice, ask_again=ask_again)

    def best(key: Array, world: World, horizon: int) -> Array:
        expected = jnp.where(world.problem.available, world.problem.entries, 0.0)
        expected = world.silence.chance * expected
        if not ask_again:
            problem = world.problem._replace(entries=expected)
            return environment.best(key, world._replace(problem=problem), horizon)
        found = _best_of_repeated(world, environment.factor(world) * expected, horizon)
        return found if environment.standing else jnp.maximum(found, 0.0)

    exact = environment.standing if ask_again else environment.exact
    return environment._replace(reset=reset, answer=answered, best=best, exact=exact)
