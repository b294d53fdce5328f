"""Rewards, noise, the design and the best sequence, against brute force."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from smc_jax.simulation import environment
from smc_jax.simulation.environment import standing_offer, untouched
from smc_jax.simulation.problem import Problem
from smc_jax.types import Choice, Offer


def make_problem(entries, *, noise=0.0, available=None):
    entries = jnp.asarray(entries, float)
    available = jnp.ones(entries.shape, bool) if available is None else jnp.asarray(available)
    return Problem(entries, jnp.asarray(noise, float), available, None)


def follow(problem, choices, *, beta, once=False, key=None, world=None):
    """Chooses entries, numbered row by row: the world after, and (outcome, step) each."""
    key = jax.random.key(0) if key is None else key
    world = untouched(problem) if world is None else world
    records = []
    for number in choices:
        choice = Choice(*map(jnp.asarray, divmod(number, problem.entries.shape[1])))
        offer = standing_offer(world)
        world, *record = environment.answer(key, world, offer, choice, beta=beta, once=once)
        records.append(record)
    return world, records


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_rewards_are_discounted_by_the_times_chosen_before(beta):
    problem = make_problem([[1.0, -2.0, 3.0], [4.0, 5.0, 6.0]])
    world, records = follow(problem, [5, 1, 5, 5, 1, 0], beta=beta)
    values = np.array([6.0, -2.0, 6.0, 6.0, -2.0, 1.0])
    before = np.array([0, 0, 1, 2, 1, 0])
    discount = np.array([beta ** int(j) for j in before])  # Python's 0.0**0 is 1
    for step, reward in zip((step for _, step in records), discount * values, strict=True):
        np.testing.assert_allclose([step.reward, step.expected], reward, rtol=1e-6)
    np.testing.assert_array_equal(world.times, [[1, 2, 0], [0, 0, 3]])
    np.testing.assert_array_equal([record[0].row for record in records], [1, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal([record[0].column for record in records], [2, 1, 2, 2, 1, 0])


def test_a_hidden_repeat_earns_exactly_nothing_and_is_not_seen():
    problem = make_problem([[2.0, 3.0]], noise=1.0)
    once, _ = follow(problem, [1], beta=0.0)
    twice, ((outcome, step),) = follow(problem, [1], beta=0.0, world=once)
    assert step.reward == 0.0
    assert step.expected == 0.0
    assert step.valid
    assert not outcome.answered
    chex.assert_trees_all_equal(once.data, twice.data)
    np.testing.assert_array_equal(twice.times, [[0, 2]])


def test_repeats_are_seen_where_the_discount_leaves_something():
    problem = make_problem([[2.0, 3.0]], noise=1.0)
    world, records = follow(problem, [1, 1, 1], beta=0.5)
    values = np.array([record[0].value for record in records])
    assert len(set(values.tolist())) == 3  # each answer has noise of its own
    np.testing.assert_array_equal(world.data.times_seen(), [[0, 3]])
    np.testing.assert_allclose(
        world.data.average() * world.data.times_seen(), [[0, values.sum()]], rtol=1e-6
    )
    squares = world.data.squared_error(0.0)
    np.testing.assert_allclose(squares, [[0, (values**2).sum()]], rtol=1e-6)
    np.testing.assert_allclose(
        [record[1].reward for record in records], values * [1.0, 0.5, 0.25], rtol=1e-6
    )
    np.testing.assert_allclose([record[1].expected for record in records], [3.0, 1.5, 0.75])


def test_noise_depends_on_the_entry_and_its_answers_alone():
    problem = make_problem(np.zeros((3, 4)), noise=0.7)
    key = jax.random.key(3)
    _, one = follow(problem, [7, 7, 2], beta=1.0, key=key)
    _, other = follow(problem, [0, 2, 2, 11, 7, 0, 7], beta=1.0, key=key)
    assert one[0][0].value == other[4][0].value  # first answer of entry 7
    assert one[1][0].value == other[6][0].value  # second answer of entry 7
    assert one[2][0].value == other[1][0].value  # first answer of entry 2
    _, elsewhere = follow(problem, [7], beta=1.0, key=jax.random.key(4))
    assert elsewhere[0][0].value != one[0][0].value


def test_noise_is_normal_with_the_stated_deviation():
    problem = make_problem(np.full((40, 50), 2.0), noise=0.7)
    world = untouched(problem)

    def reward(row, column):
        key, offer, choice = jax.random.key(5), standing_offer(world), Choice(row, column)
        return environment.answer(key, world, offer, choice, beta=0.0, once=True)[2].reward

    rewards = jax.vmap(reward)(*(x.ravel() for x in jnp.indices((40, 50))))
    assert len(set(rewards.tolist())) > 1990  # (1, 2) and (2, 1) have noise of their own
    # Kolmogorov-Smirnov at 0.001: fails for 0.1 % of the seeds.
    assert stats.kstest(np.asarray(rewards, np.float64), stats.norm(2.0, 0.7).cdf).pvalue > 1e-3


def test_offers_discount_and_forbid():
    exists = [[True, True], [False, True]]
    problem = make_problem([[1.0, 2.0], [9.0, 4.0]], available=exists)

    def offer(**settings):
        return standing_offer(follow(problem, [1, 1, 3], **settings)[0])

    np.testing.assert_array_equal(offer(beta=0.5).open, exists)
    np.testing.assert_array_equal(offer(beta=0.5).factor, [[1.0, 0.25], [1.0, 0.5]])
    forbidden = offer(beta=0.5, once=True).open
    np.testing.assert_array_equal(forbidden, [[True, False], [False, False]])
    np.testing.assert_array_equal(offer(beta=0.0).factor, [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(offer(beta=1.0).factor, np.ones((2, 2)))


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_design_counts_its_answers_and_keeps_to_existing_entries(beta):
    exists = np.ones((3, 4), bool)
    exists[1, :3] = exists[2, 3] = False
    entries = np.where(exists, np.arange(12.0).reshape(3, 4) - 5.0, np.nan)
    problem = make_problem(entries, available=exists)._replace(noise=jnp.asarray(1e-6))
    world = environment.initial_design(
        jax.random.key(0), jax.random.key(1), problem, size=30, beta=beta, once=False
    )
    times = np.asarray(world.times)
    assert times.sum() == 30
    assert times[~exists].sum() == 0
    assert times.max() > 1  # 30 answers of 8 entries: with replacement
    seen = np.minimum(times, 1) if beta == 0 else times
    np.testing.assert_array_equal(world.data.times_seen(), seen)
    total = seen * np.nan_to_num(entries)
    np.testing.assert_allclose(
        world.data.average() * world.data.times_seen(), total, rtol=1e-4, atol=1e-4
    )


def test_a_second_answer_without_noise_shows_nothing_new():
    problem = make_problem(np.ones((1, 2)))
    world = environment.initial_design(
        jax.random.key(0), jax.random.key(1), problem, size=9, beta=0.5, once=False
    )
    assert world.times.sum() == 9
    np.testing.assert_array_equal(world.data.times_seen(), [[1, 1]])


def test_design_is_uniform_over_existing_entries():
    exists = np.asarray([[True, False, True], [True, True, False]])
    problem = make_problem(np.zeros((2, 3)), available=exists)
    world = environment.initial_design(
        jax.random.key(0), jax.random.key(1), problem, size=2000, beta=1.0, once=False
    )
    # Chi-square at 0.001: fails for 0.1 % of the seeds.
    assert stats.chisquare(np.asarray(world.times)[exists]).pvalue > 1e-3


def test_a_design_of_nothing():
    problem = make_problem(np.zeros((2, 3)))
    world = environment.initial_design(
        jax.random.key(0), jax.random.key(1), problem, size=0, beta=0.0, once=False
    )
    assert world.times.sum() == 0
    assert world.data.times_seen().sum() == 0


def best_totals(entries, exists, times, *, horizon, beta, once):
    """The largest expected sum of rewards [horizon] over all sequences of 1, 2, ... choices."""
    entries, times = np.asarray(entries, np.float64).ravel(), np.asarray(times).ravel()
    totals = np.full(horizon, -np.inf)
    actions = np.flatnonzero(np.asarray(exists).ravel())
    for sequence in itertools.product(actions, repeat=horizon):
        chosen, total = times.copy(), 0.0
        for step, action in enumerate(sequence):
            if once and chosen[action]:
                break
            total += entries[action] * beta ** int(chosen[action])
            chosen[action] += 1
            totals[step] = max(totals[step], total)
    return totals


MATRICES = {
    "positive": ([[1.0, 0.8], [2.0, 0.3]], np.ones((2, 2), bool)),
    "signs": ([[1.0, -0.5], [-2.0, 0.7]], np.ones((2, 2), bool)),
    "one positive": ([[-1.0, -0.5], [-2.0, 0.7]], np.ones((2, 2), bool)),
    "none positive": ([[-1.0, -0.5], [-2.0, -0.7]], np.ones((2, 2), bool)),
    "missing": ([[1.0, 0.9], [3.0, -0.1]], np.asarray([[True, True], [False, True]])),
}


@pytest.mark.parametrize("design", [(), (3,), (0, 3, 3)])
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("name", MATRICES)
def test_best_rewards_with_repeats(name, beta, design):
    entries, exists = MATRICES[name]
    problem = make_problem(entries, available=exists)
    world, _ = follow(problem, design, beta=beta)
    best = environment.best_rewards(world, horizon=5, beta=beta, once=False)
    expected = best_totals(entries, exists, world.times, horizon=5, beta=beta, once=False)
    np.testing.assert_allclose(np.cumsum(best), expected, rtol=1e-5, atol=1e-6)
    assert (np.diff(best) <= 1e-6).all() or name == "none positive"


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("design", [(), (3,), (1, 3, 3)])
@pytest.mark.parametrize("name", MATRICES)
def test_best_rewards_once(name, design, beta):
    """Top entries still available, negative ones too where nothing else is left."""
    entries, exists = MATRICES[name]
    problem = make_problem(entries, available=exists)
    world, _ = follow(problem, design, beta=beta, once=True)
    left = int((exists & (np.asarray(world.times) == 0)).sum())
    best = environment.best_rewards(world, horizon=left, beta=beta, once=True)
    expected = best_totals(entries, exists, world.times, horizon=left, beta=beta, once=True)
    np.testing.assert_allclose(np.cumsum(best), expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_where_nothing_is_positive_the_best_is_what_costs_least(beta, seed):
    entries = -np.random.default_rng(seed).uniform(0.1, 3.0, (2, 2))
    problem, exists = make_problem(entries), np.ones((2, 2), bool)
    best = environment.best_rewards(untouched(problem), horizon=4, beta=beta, once=False)
    expected = best_totals(entries, exists, np.zeros((2, 2), int), horizon=4, beta=beta, once=False)
    assert expected[-1] < 0.0
    np.testing.assert_allclose(np.cumsum(best), expected, rtol=1e-5)


def test_best_rewards_beyond_the_last_entry():
    """With beta = 0 further picks earn nothing; where repeats are forbidden there are none."""
    problem = make_problem([[1.0, 3.0]])
    world = untouched(problem)
    free = environment.best_rewards(world, horizon=4, beta=0.0, once=False)
    np.testing.assert_array_equal(free, [3.0, 1.0, 0.0, 0.0])
    once = environment.best_rewards(world, horizon=4, beta=0.0, once=True)
    np.testing.assert_array_equal(once, [3.0, 1.0, -np.inf, -np.inf])


CASES = [((0, 0), True), ((0, 1), False), ((-1, -1), False), ((2, 0), False), ((0, 2), False)]


@pytest.mark.parametrize(("choice", "valid"), CASES)
def test_what_is_not_there_cannot_be_chosen(choice, valid):
    problem = make_problem([[1.0, 2.0], [3.0, 4.0]], available=[[True, False], [True, True]])
    before = untouched(problem)
    picked = Choice(*map(jnp.asarray, choice))
    after, outcome, step = environment.answer(
        jax.random.key(0), before, standing_offer(before), picked, beta=0.0, once=True
    )
    assert step.valid == valid
    if choice not in ((0, 0), (0, 1)):
        chex.assert_trees_all_equal(after._replace(clock=before.clock), before)
        assert not outcome.answered
        assert (step.row, step.column) == (-1, -1)


def test_answers_keep_to_an_offer_of_some_columns():
    problem = make_problem(np.arange(12.0).reshape(3, 4))
    world = untouched(problem)
    columns = jnp.asarray([3, 1])
    offer = Offer(
        columns, jnp.asarray([[True, False], [True, True], [False, False]]), 0.5 * jnp.ones((3, 2))
    )

    def answered(offer, row, column):
        choice = Choice(jnp.asarray(row), jnp.asarray(column))
        return environment.answer(jax.random.key(0), world, offer, choice, beta=0.0, once=True)

    after, outcome, step = answered(offer, 1, 3)
    assert step.valid
    assert outcome.value == 7.0
    assert step.reward == 3.5  # the factor of the offer
    assert not after.open[1, 3]
    for row, column in ((0, 1), (2, 3), (1, 0), (1, 2), (-1, -1)):
        assert not answered(offer, row, column)[2].valid
    nothing = offer._replace(open=jnp.zeros((3, 2), bool))
    after, outcome, step = answered(nothing, 0, 3)
    assert step.valid  # nobody can choose from nothing: time passes
    assert (step.row, step.column, step.reward) == (-1, -1, 0.0)
    assert after.clock == 1
    chex.assert_trees_all_equal(after._replace(clock=world.clock), world)
    assert not outcome.answered


def test_the_design_chooses_as_counting_the_existing_entries_does():
    """Row by row, by brute force: the numbers drawn are indices into the list of what exists."""
    rng = np.random.default_rng(0)
    exists = rng.random((6, 7)) < 0.4
    exists[2] = False
    problem = make_problem(rng.normal(size=(6, 7)), available=exists)
    key, size = jax.random.key(3), 25
    world = environment.initial_design(
        key, jax.random.key(1), problem, size=size, beta=1.0, once=False
    )
    drawn = np.asarray(jax.random.randint(key, (size,), 0, exists.sum()))
    times = np.zeros(42, int)
    np.add.at(times, np.flatnonzero(exists)[drawn], 1)
    np.testing.assert_array_equal(world.times, times.reshape(6, 7))
    assert world.clock == 0


@pytest.mark.parametrize(
    ("settings", "named"), [({"initial": -1}, "initial"), ({"initial": 1, "beta": 2.0}, "beta")]
)
def test_settings_that_cannot_be_used(settings, named):
    with pytest.raises(ValueError, match=rf"^{named}: "):
        environment.make_environment(lambda key, seed: None, **settings)
