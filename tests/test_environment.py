"""Rewards, noise, the design and the best sequence, against brute force."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from smc_jax import environment
from smc_jax.environment import Problem, untouched


def make_problem(entries, *, noise=0.0, available=None):
    entries = jnp.asarray(entries, float)
    available = jnp.ones(entries.shape, bool) if available is None else jnp.asarray(available)
    return Problem(entries, jnp.asarray(noise, float), available, None)


def follow(problem, choices, *, beta, once=False, key=None, world=None):
    """Looks at one entry after another: the world after, and (outcome, step) each."""
    key = jax.random.key(0) if key is None else key
    world = untouched(problem) if world is None else world
    records = []
    for choice in choices:
        choice = jnp.asarray(choice)
        world, *record = environment.look(key, problem, world, choice, beta=beta, once=once)
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
    assert outcome.weight == 0.0
    jax.tree.map(np.testing.assert_array_equal, once.view.observations, twice.view.observations)
    np.testing.assert_array_equal(twice.times, [[0, 2]])


def test_repeats_are_seen_where_the_discount_leaves_something():
    problem = make_problem([[2.0, 3.0]], noise=1.0)
    world, records = follow(problem, [1, 1, 1], beta=0.5)
    values = np.array([record[0].value for record in records])
    assert len(set(values.tolist())) == 3  # each look has noise of its own
    np.testing.assert_array_equal(world.view.observations.count, [[0, 3]])
    np.testing.assert_allclose(world.view.observations.total, [[0, values.sum()]], rtol=1e-6)
    np.testing.assert_allclose(world.view.observations.square, [[0, (values**2).sum()]], rtol=1e-6)
    np.testing.assert_allclose(
        [record[1].reward for record in records], values * [1.0, 0.5, 0.25], rtol=1e-6
    )
    np.testing.assert_allclose([record[1].expected for record in records], [3.0, 1.5, 0.75])


def test_noise_depends_on_the_entry_and_its_looks_alone():
    problem = make_problem(np.zeros((3, 4)), noise=0.7)
    key = jax.random.key(3)
    _, one = follow(problem, [7, 7, 2], beta=1.0, key=key)
    _, other = follow(problem, [0, 2, 2, 11, 7, 0, 7], beta=1.0, key=key)
    assert one[0][0].value == other[4][0].value  # first look at entry 7
    assert one[1][0].value == other[6][0].value  # second look at entry 7
    assert one[2][0].value == other[1][0].value  # first look at entry 2
    _, elsewhere = follow(problem, [7], beta=1.0, key=jax.random.key(4))
    assert elsewhere[0][0].value != one[0][0].value


def test_noise_is_normal_with_the_stated_deviation():
    problem = make_problem(np.full((40, 50), 2.0), noise=0.7)
    looks = jax.vmap(
        lambda choice: (
            environment.look(
                jax.random.key(5), problem, untouched(problem), choice, beta=0.0, once=True
            )[2].reward
        )
    )(jnp.arange(2000))
    # Kolmogorov-Smirnov at 0.001: fails for 0.1 % of the seeds.
    assert stats.kstest(np.asarray(looks, np.float64), stats.norm(2.0, 0.7).cdf).pvalue > 1e-3


def test_view_discounts_and_forbids():
    exists = [[True, True], [False, True]]
    problem = make_problem([[1.0, 2.0], [9.0, 4.0]], available=exists)

    def view(**settings):
        return follow(problem, [1, 1, 3], **settings)[0].view

    np.testing.assert_array_equal(view(beta=0.5).available, exists)
    np.testing.assert_array_equal(view(beta=0.5).discount, [[1.0, 0.25], [1.0, 0.5]])
    forbidden = view(beta=0.5, once=True).available
    np.testing.assert_array_equal(forbidden, [[True, False], [False, False]])
    np.testing.assert_array_equal(view(beta=0.0).discount, [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(view(beta=1.0).discount, np.ones((2, 2)))


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_design_counts_its_looks_and_keeps_to_existing_entries(beta):
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
    assert times.max() > 1  # 30 looks at 8 entries: with replacement
    seen = np.minimum(times, 1) if beta == 0 else times
    np.testing.assert_array_equal(world.view.observations.count, seen)
    total = seen * np.nan_to_num(entries)
    np.testing.assert_allclose(world.view.observations.total, total, rtol=1e-4, atol=1e-4)


def test_a_second_look_at_an_entry_without_noise_shows_nothing_new():
    problem = make_problem(np.ones((1, 2)))
    world = environment.initial_design(
        jax.random.key(0), jax.random.key(1), problem, size=9, beta=0.5, once=False
    )
    assert world.times.sum() == 9
    np.testing.assert_array_equal(world.view.observations.count, [[1, 1]])


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
    assert world.view.observations.count.sum() == 0


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
    "missing": ([[1.0, 0.9], [3.0, -0.1]], np.asarray([[True, True], [False, True]])),
}


@pytest.mark.parametrize("design", [(), (3,), (0, 3, 3)])
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("name", MATRICES)
def test_best_rewards_with_repeats(name, beta, design):
    entries, exists = MATRICES[name]
    problem = make_problem(entries, available=exists)
    world, _ = follow(problem, design, beta=beta)
    best = environment.best_rewards(problem, world, horizon=5, beta=beta, once=False)
    expected = best_totals(entries, exists, world.times, horizon=5, beta=beta, once=False)
    np.testing.assert_allclose(np.cumsum(best), expected, rtol=1e-5)
    assert (np.diff(best) <= 1e-6).all()


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("design", [(), (3,), (1, 3, 3)])
@pytest.mark.parametrize("name", MATRICES)
def test_best_rewards_once(name, design, beta):
    """Top entries still available, negative ones too where nothing else is left."""
    entries, exists = MATRICES[name]
    problem = make_problem(entries, available=exists)
    world, _ = follow(problem, design, beta=beta, once=True)
    left = int((exists & (np.asarray(world.times) == 0)).sum())
    best = environment.best_rewards(problem, world, horizon=left, beta=beta, once=True)
    expected = best_totals(entries, exists, world.times, horizon=left, beta=beta, once=True)
    np.testing.assert_allclose(np.cumsum(best), expected, rtol=1e-5)


def test_best_rewards_where_nothing_is_positive():
    problem = make_problem([[-1.0, -0.5], [-2.0, -0.7]])
    for beta in (0.0, 0.3, 0.9):  # a repeat comes as near to nothing as one likes
        world, _ = follow(problem, [2], beta=beta)
        best = environment.best_rewards(problem, world, horizon=6, beta=beta, once=False)
        np.testing.assert_array_equal(best, np.zeros(6))
    world, _ = follow(problem, [2], beta=1.0)
    undiscounted = environment.best_rewards(problem, world, horizon=6, beta=1.0, once=False)
    np.testing.assert_array_equal(undiscounted, np.full(6, -0.5))
    world, _ = follow(problem, [2], beta=0.0, once=True)
    once = environment.best_rewards(problem, world, horizon=3, beta=0.0, once=True)
    np.testing.assert_allclose(once, [-0.5, -0.7, -1.0])


def test_best_rewards_beyond_the_last_entry():
    """With beta = 0 further picks earn nothing; where repeats are forbidden there are none."""
    problem = make_problem([[1.0, 3.0]])
    world = untouched(problem)
    free = environment.best_rewards(problem, world, horizon=4, beta=0.0, once=False)
    np.testing.assert_array_equal(free, [3.0, 1.0, 0.0, 0.0])
    once = environment.best_rewards(problem, world, horizon=4, beta=0.0, once=True)
    np.testing.assert_array_equal(once, [3.0, 1.0, -np.inf, -np.inf])


@pytest.mark.parametrize(("choice", "valid"), [(0, True), (1, False), (-1, False), (4, False)])
def test_what_is_not_there_cannot_be_chosen(choice, valid):
    problem = make_problem([[1.0, 2.0], [3.0, 4.0]], available=[[True, False], [True, True]])
    before = untouched(problem)
    after, ((outcome, step),) = follow(problem, [choice], beta=0.0, once=True)
    assert step.valid == valid
    if choice in (-1, 4):
        chex.assert_trees_all_equal(after, before)
        assert outcome.weight == 0.0
        assert (step.row, step.column) == (-1, -1)
