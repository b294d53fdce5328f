"""Entries that may not be answered: how often, for whom, and the best sequence, by brute force."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from smc_jax.policies.random import random
from smc_jax.simulation import offers as wrappers
from smc_jax.simulation import silence
from smc_jax.simulation.environment import make_environment, seed_keys
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.problem import Problem
from smc_jax.types import Choice


def problem_of(entries):
    entries = jnp.asarray(entries, float)
    return Problem(entries, jnp.zeros(()), jnp.ones(entries.shape, bool), None)


def make(entries, *, initial=0, **settings):
    problem = problem_of(entries)
    inner = make_environment(lambda key, seed: problem, initial=initial)
    return silence.silent(inner, **settings)


def begin(environment, seed=0):
    keys = seed_keys(jnp.uint32(seed))
    return keys, jax.jit(environment.reset)(keys, jnp.uint32(seed))


def asking(environment, keys):
    """(world, row, column) -> what an ask leaves, compiled."""

    @jax.jit
    def ask(world, row, column):
        offer = environment.offer(keys.offers, world)
        return environment.answer(keys.noise, world, offer, Choice(row, column))

    return lambda world, *entry: ask(world, *map(jnp.asarray, entry))


def test_rates_lie_where_they_are_said_to():
    """Each column's rate over rows and values is uniform: KS at 0.001, fails for 0.1 %."""
    problem = problem_of(np.random.default_rng(0).normal(5.0, 3.0, (300, 400)))
    settings = {"lowest_rate": 0.3, "highest_rate": 0.9, "row_spread": 0.5, "value_slope": -0.8}
    drawn = silence.draw_silence(jax.random.key(1), problem, **settings)
    rates = np.asarray(drawn.chance, float).mean(0)
    assert stats.kstest(rates, stats.uniform(0.3, 0.6).cdf).pvalue > 1e-3
    first = np.asarray(drawn.patience == 0).mean()
    assert abs(first - rates.mean()) < 5 * 0.5 / np.sqrt(300 * 400)
    # The mean of a geometric number of refusals; of rare answers it varies too much.
    often = np.asarray(drawn.chance) > 0.3
    expected = ((1.0 - drawn.chance) / drawn.chance)[often].mean()
    np.testing.assert_allclose(drawn.patience[often].mean(), expected, rtol=0.05)
    high = np.asarray(problem.entries) > 5.0
    assert drawn.chance[high].mean() < drawn.chance[~high].mean() - 0.2


@pytest.mark.parametrize("again", [False, True])
def test_a_refusal_earns_nothing_is_counted_and_may_close(again):
    entries = np.random.default_rng(2).normal(size=(4, 5))
    environment = make(entries, ask_again=again)
    keys, world = begin(environment, 3)
    ask = asking(environment, keys)
    chance, patience = (np.asarray(x) for x in world.silence)
    for row, column in itertools.product(range(4), range(5)):
        asks = patience[row, column] + 1 if again else 1
        for number in range(min(asks, 4)):
            world, outcome, step = ask(world, row, column)
            answered = number == patience[row, column]
            assert bool(outcome.answered) == bool(step.answered) == answered
            assert bool(outcome.refused) == (not answered)
            assert (outcome.row, outcome.column, step.row, step.column) == (row, column) * 2
            assert bool(step.valid)
            value = entries[row, column]
            np.testing.assert_allclose(step.expected, chance[row, column] * value, rtol=1e-5)
            np.testing.assert_allclose(step.reward, answered * value, rtol=1e-5)
            refused = world.data.times_refused()[row, column]
            assert refused == number + (not answered)
            assert bool(world.data.seen()[row, column]) == answered
            assert bool(world.open[row, column]) == (again and not answered)
    assert int(world.data.number()) == ((patience < 4) if again else patience == 0).sum()


def test_all_policies_meet_the_same_silence_whatever_they_asked_before():
    environment = make(np.zeros((5, 6)), ask_again=True)
    keys, world = begin(environment)
    ask = asking(environment, keys)
    orders = [[7, 7, 2, 7], [0, 2, 11, 7, 0, 7, 7]]
    found = []
    for order in orders:
        told, now = {}, world
        for entry in order:
            now, outcome, _ = ask(now, *divmod(entry, 6))
            told.setdefault(entry, []).append(bool(outcome.refused))
        found.append(told)
    assert found[0][7] == found[1][7]
    assert found[0][2] == found[1][2]


def test_a_choice_that_is_none_is_no_refusal():
    environment = make(np.zeros((3, 4)))
    keys, world = begin(environment)
    after, outcome, step = asking(environment, keys)(world, -1, -1)
    assert not outcome.answered
    assert not outcome.refused
    assert not step.valid
    assert after.data.times_refused().sum() == 0


@pytest.mark.parametrize("again", [False, True])
def test_the_initial_design_is_silent_too(again):
    environment = make(np.ones((12, 15)), initial=150, ask_again=again)
    _, world = begin(environment)
    plain = make_environment(lambda key, seed: problem_of(np.ones((12, 15))), initial=150)
    asked = np.asarray(begin(plain)[1].times)
    patience = np.asarray(world.silence.patience)
    tries = asked if again else np.minimum(asked, 1)
    np.testing.assert_array_equal(world.data.seen(), tries > patience)
    np.testing.assert_array_equal(world.data.times_refused(), np.minimum(tries, patience))
    closed = tries > patience if again else asked > 0
    np.testing.assert_array_equal(world.open, ~closed)


def best_by_force(chance_times_value, patience, horizon):
    """The largest sum of expected rewards if every entry is asked until it answers at most."""
    values = chance_times_value.ravel()
    often = np.repeat(values, np.minimum(patience.ravel() + 1, horizon))
    return np.sort(often)[::-1][:horizon]


@pytest.mark.parametrize("seed", range(3))
def test_the_best_sequence_is_the_best_by_expected_reward(seed):
    entries = np.random.default_rng(seed).normal(size=(3, 4)) + 1.0
    environment = make(entries, value_slope=0.7)
    keys, world = begin(environment, seed)
    assert environment.exact
    value = np.asarray(world.silence.chance) * np.asarray(world.problem.entries)
    found = environment.best(keys.offers, world, 9)
    np.testing.assert_allclose(found, np.sort(value.ravel())[::-1][:9], rtol=1e-5)
    environment = make(entries, ask_again=True, lowest_rate=0.1, highest_rate=0.4)
    keys, world = begin(environment, seed)
    assert environment.exact
    value = np.asarray(world.silence.chance) * np.asarray(world.problem.entries)
    expected = best_by_force(value, np.asarray(world.silence.patience), 9)
    np.testing.assert_allclose(environment.best(keys.offers, world, 9), expected, rtol=1e-5)


def test_who_arrives_may_be_silent_and_nobody_beats_the_best():
    entries = np.random.default_rng(5).normal(size=(6, 7)) + 1.0
    problem = problem_of(entries)
    inner = make_environment(lambda key, seed: problem, initial=4)
    assert silence.silent(wrappers.arrivals(inner)).exact
    environment = silence.silent(wrappers.arrivals(inner), ask_again=True)
    assert not environment.exact
    loop = make_loop(environment, random(), horizon=12, refits=2)

    @jax.jit
    def totals(seed):
        carry, best = loop.start(seed)
        _, _, steps = loop.advance(carry, loop.batches)
        return best.cumsum(), steps.expected.cumsum(), steps

    best, earned, steps = totals(jnp.uint32(4))
    assert steps.valid.all()
    assert (best - earned > -1e-4).all()
    assert 0 < steps.answered.sum() < 12


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lowest_rate": 0.0}, "lowest_rate"),
        ({"highest_rate": 1.0}, "highest_rate"),
        ({"lowest_rate": 0.5, "highest_rate": 0.4}, "highest_rate"),
        ({"row_spread": -1.0}, "row_spread"),
        ({"value_slope": float("nan")}, "value_slope"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, name):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        make(np.zeros((2, 2)), **settings)
