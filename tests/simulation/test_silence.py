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
from smc_jax.simulation.environment import make_environment, seed_keys, untouched
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.offers import best
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


def over(wrap, entries, *, initial=0, **settings):
    """Silence over another wrapper."""
    problem = problem_of(entries)
    inner = make_environment(lambda key, seed: problem, initial=initial)
    return silence.silent(wrap(inner), **settings)


@pytest.mark.parametrize("again", [False, True])
def test_a_refused_ask_uses_up_the_budget_and_nobody_beats_the_best(again):
    rare = {"lowest_rate": 0.01, "highest_rate": 0.01, "ask_again": again}
    environment = over(lambda e: wrappers.budgets(e, row=2), np.ones((1, 6)), **rare)
    keys, world = begin(environment)
    assert world.silence.patience[0, :3].min() > 0
    assert environment.exact == (not again)
    found, ask, earned = environment.best(keys.offers, world, 3), asking(environment, keys), 0.0
    for number in range(3):
        world, outcome, step = ask(world, 0, number)
        earned += float(step.expected)
        assert step.valid
        assert bool(outcome.refused) == (number < 2)
        assert step.row == (0 if number < 2 else -1)  # the budget is used up: a pick passes
        assert earned <= float(found[: number + 1].sum()) + 1e-6
    assert step.expected == 0.0


def test_an_entry_of_the_design_uses_up_a_budget_once():
    environment = wrappers.budgets(
        make_environment(lambda key, seed: problem_of(np.ones((1, 6))), initial=7), row=6
    )
    keys, world = begin(environment)
    distinct = int((world.times > 0).sum())
    assert distinct < 6  # some were drawn again
    assert int(environment.offer(keys.offers, world).open.sum()) == 6 - distinct


def test_who_is_asked_again_over_costs_is_paid_by_the_cost():
    entries, cost = np.array([[1.0, 2.0], [3.0, 0.5]]), np.array([10.0, 0.1])
    environment = over(lambda e: wrappers.costs(e, cost), entries, ask_again=True)
    keys, world = begin(environment)
    assert environment.exact
    value = np.asarray(world.silence.chance) * entries / cost
    expected = best_by_force(value, np.asarray(world.silence.patience), 5)
    np.testing.assert_allclose(environment.best(keys.offers, world, 5), expected, rtol=1e-5)


def test_a_long_horizon_of_patient_entries_does_not_overflow():
    world = untouched(problem_of(np.ones((240, 200))))
    patience = jnp.full((240, 200), int(silence.MOST_REFUSALS))
    world = world._replace(silence=silence.Silence(jnp.ones((240, 200)), patience))
    value = jnp.arange(48_000.0).reshape(240, 200)
    found = silence._best_of_repeated(world, value, 48_000)
    np.testing.assert_array_equal(found, 47_999.0)


def test_no_two_kinds_of_randomness_are_the_same():
    assert len(set(best.KINDS)) == len(best.KINDS)
    assert silence.SILENT in best.KINDS
