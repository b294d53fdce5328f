"""Who and what is available: the offers, and the best sequence under them at every prefix."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from worlds import begin, make

from smc_jax.simulation.environment import Environment
from smc_jax.simulation.offers import arrivals, budgets, calendar, costs, restricted, stock
from smc_jax.simulation.offers.best import best_in_groups
from smc_jax.types import Choice

solve = jax.jit(best_in_groups)
LARGE = 1e6  # more than any value: as many picks as can be earn something


def masks_of(environment, keys, world, horizon):
    """The offers [horizon, D, N] if nothing is ever taken."""
    offer = jax.jit(environment.offer)
    found = []
    for clock in range(horizon):
        made = offer(keys.offers, world._replace(clock=jnp.asarray(clock)))
        mask = np.zeros(world.open.shape, bool)
        columns = slice(None) if made.columns is None else np.asarray(made.columns)
        mask[:, columns] = np.asarray(made.open)
        found.append(mask)
    return np.array(found)


def best_assignment(value, masks):
    """The largest sum of a matching of offers with entries, of as many offers as can be."""
    allowed = masks.reshape(len(masks), -1)
    weight = np.where(allowed, value.ravel() + LARGE, 0.0)
    picks, entries = linear_sum_assignment(weight, maximize=True)
    used = allowed[picks, entries]
    return (value.ravel()[entries] * used)[used].sum()


def best_in_order(value, masks, *, row=np.inf, column=np.inf):
    """The largest sum of a sequence that passes where nothing is left, by trying everything."""
    masks = [frozenset(zip(*np.nonzero(mask), strict=True)) for mask in masks]

    @functools.cache
    def from_here(step, taken):
        if step == len(masks):
            return 0.0
        used = [[entry[side] for entry in taken] for side in (0, 1)]
        left = [
            entry
            for entry in masks[step] - taken
            if used[0].count(entry[0]) < row and used[1].count(entry[1]) < column
        ]
        if not left:
            return from_here(step + 1, taken)
        return max(value[e] + from_here(step + 1, taken | {e}) for e in left)

    return from_here(0, frozenset())


@pytest.mark.parametrize("shift", [0.0, -3.0, 3.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_in_groups_is_the_best_assignment_at_every_prefix(seed, shift):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        entries, groups, picks = rng.integers(1, 4), rng.integers(2, 7), rng.integers(1, 15)
        # Rounded, so that values tie; and some do not exist.
        value = np.round(rng.normal(size=(4, 8)), 1) + shift
        value = np.where(rng.random(value.shape) < 0.2, -np.inf, value)
        value[entries:] = -np.inf
        value[:, groups:] = -np.inf
        present = np.zeros((16, 8), bool)
        present[:picks, :groups] = rng.random((picks, groups)) < rng.uniform(0.1, 0.6)
        rewards = np.asarray(solve(present, value), np.float64)
        for t in range(1, 17):
            masks = present[:t, None, :] & np.isfinite(value)
            expected = best_assignment(np.where(np.isfinite(value), value, 0.0), masks)
            np.testing.assert_allclose(rewards[:t].sum(), expected, rtol=1e-5, atol=1e-5)


MADE = {
    "two arrive": lambda e: arrivals(e, number=2),
    "active ones arrive": lambda e: arrivals(e, number=2, activity=1.5),
    "weighted": lambda e: arrivals(e, number=2, weights=[1.0, 2.0, 3.0, 4.0]),
    "stock": lambda e: stock(e, in_stock=0.5, duration=3.0),
    "costs": lambda e: arrivals(costs(e, [1.0, 2.0, 0.5, 4.0]), number=2),
    "costs last": lambda e: costs(arrivals(e, number=2), [1.0, 2.0, 0.5, 4.0]),
}


@pytest.mark.parametrize("title", MADE)
def test_the_best_under_arrivals_and_under_stock_is_exact(title):
    entries = np.abs(np.random.default_rng(0).normal(size=(3, 4)))  # no losses
    environment = MADE[title](make(entries, initial=2))
    assert environment.exact
    best = jax.jit(environment.best, static_argnums=2)
    for seed in range(2):
        keys, world = begin(environment, seed)
        rewards = np.asarray(best(keys.offers, world, 9), np.float64)
        value = entries / [1.0, 2.0, 0.5, 4.0] if "costs" in title else entries
        masks = masks_of(environment, keys, world, 9)
        for t in (3, 6, 9):
            expected = best_assignment(value, masks[:t])
            np.testing.assert_allclose(rewards[:t].sum(), expected, rtol=1e-5)


@pytest.mark.parametrize("inner", ["standing", "arrivals", "stock"])
@pytest.mark.parametrize("sides", [{"row": 2}, {"column": 1}, {"row": 2, "column": 1}])
def test_budgets_of_the_side_that_is_on_offer_together_are_exact(inner, sides):
    """Else the best sequence is an upper bound; values may be losses under it."""
    inside = {
        "standing": lambda e: e,
        "arrivals": lambda e: arrivals(e, number=2),
        "stock": lambda e: stock(e, in_stock=0.6, duration=2.5),
    }
    together = {"standing": ("row", "column"), "arrivals": ("column",), "stock": ("row",)}[inner]
    exact = len(sides) == 1 and set(sides) <= set(together)
    for seed, shift in enumerate((3.0,) if exact else (3.0, -3.0)):
        entries = np.random.default_rng(seed).normal(size=(3, 4)) + shift
        environment = budgets(inside[inner](make(entries, initial=1)), **sides)
        assert environment.exact == exact
        keys, world = begin(environment, seed)
        rewards = np.asarray(environment.best(keys.offers, world, 5), np.float64)
        masks = masks_of(inside[inner](make(entries)), keys, world, 5)
        first = tuple(int(i[0]) for i in np.nonzero(world.times))  # of the design: it counts
        for t in range(1, 6):
            design = np.zeros((1, 3, 4), bool)
            design[0][first] = True
            expected = best_in_order(entries, (*design, *masks[:t]), **sides) - entries[first]
            assert rewards[:t].sum() >= expected - 1e-4
            if exact:
                np.testing.assert_allclose(rewards[:t].sum(), expected, rtol=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_other_benchmarks_are_upper_bounds_and_say_so(seed):
    closures = [(0, None, 0, 2), (None, 1, 2, 3), (2, 2, 1, 4), (None, None, 3, 3)]

    def closed(key, clock):
        return jax.random.bernoulli(jax.random.fold_in(key, clock), 0.3, (3, 4))

    entries = np.random.default_rng(seed).normal(size=(3, 4))
    for wrap in (
        lambda e: calendar(e, closures),
        lambda e: calendar(stock(e, in_stock=0.5, duration=4.0), closures),
        lambda e: stock(arrivals(e, number=2), in_stock=0.5, duration=4.0),
        lambda e: restricted(stock(e, in_stock=0.8, duration=9.0), closed),
    ):
        inner = wrap(make(entries))
        environment = costs(budgets(inner, column=2), 2.0)
        assert not environment.exact
        keys, world = begin(environment, seed)
        rewards = np.asarray(environment.best(keys.offers, world, 5), np.float64)
        masks = masks_of(inner, keys, world, 5)
        for t in range(1, 6):
            expected = best_in_order(entries / 2.0, masks[:t], column=2)
            assert rewards[:t].sum() >= expected - 1e-5


def test_a_calendar_closes_what_it_says():
    closures = [(0, None, 0, 1), (None, 1, 1, 2), (2, 3, 2, 2), (None, None, 4, 4)]
    closures += [(1, 0, 4, 2**31 + 5), (1, 0, 2**32, 2**32 + 1)]  # the clock has 32 bits
    environment = calendar(make(np.zeros((3, 4))), closures)
    masks = masks_of(environment, *begin(environment), 6)
    expected = np.ones((6, 3, 4), bool)
    expected[:2, 0] = expected[1:3, :, 1] = expected[2, 2, 3] = expected[4] = False
    expected[4:, 1, 0] = False
    np.testing.assert_array_equal(masks, expected)


def test_stock_has_its_share_and_its_duration():
    """Both depend on the key and the time alone."""
    environment = stock(make(np.zeros((60, 1))), in_stock=0.7, duration=10.0)
    keys, world = begin(environment)
    used = world._replace(times=world.times + 1)

    @jax.jit
    def stocked(clock):
        return environment.offer(keys.offers, used._replace(clock=clock)).open[:, 0]

    there = np.asarray(jax.lax.map(stocked, jnp.arange(2000)))
    # 60 rows of 667 periods each: the standard deviation of the share is 0.0023.
    assert abs(there.mean() - 0.7) < 0.011
    begun = (there[1:] & ~there[:-1]).sum()
    # About 8,400 stays, each of mean 10 and deviation below 10: the mean's is about 0.11.
    assert abs(there.sum() / begun - 10.0) < 0.6
    other = environment.offer(keys.design, world).open[:, 0]
    assert (np.asarray(other) != there[0]).any()


@pytest.mark.parametrize("number", [1, 3])
def test_columns_arrive_by_their_weights(number):
    weights = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    environment = arrivals(make(np.zeros((1, 5))), number=number, weights=weights)
    keys, world = begin(environment)

    @jax.jit
    def present(clock):
        return environment.offer(keys.offers, world._replace(clock=clock)).columns

    drawn = np.asarray(jax.lax.map(present, jnp.arange(4000)))
    assert all(len(set(line)) == number for line in drawn.tolist())
    if number == 1:
        chance = weights / weights.sum()
    else:  # one after another, in all orders
        chance = np.zeros(5)
        for a in range(5):
            for b in set(range(5)) - {a}:
                for c in set(range(5)) - {a, b}:
                    left = weights.sum() - np.cumsum([0.0, weights[a], weights[b]])
                    p = np.prod(weights[[a, b, c]] / left)
                    chance[[a, b, c]] += p
    counts = np.bincount(drawn.ravel(), minlength=5)
    deviation = np.sqrt(4000 * chance * (1 - chance))
    # Five counts of each case, standard normal after scaling: one of ten fails for 7e-5 of seeds.
    assert (np.abs(counts - 4000 * chance) < 4.5 * deviation).all()


def test_activity_differs_between_seeds_and_is_the_same_for_all_policies():
    environment = arrivals(make(np.zeros((1, 50))), number=1, activity=2.0)
    keys, world = begin(environment)
    present = jax.jit(lambda key, t: environment.offer(key, world._replace(clock=t)).columns)
    often = []
    for key in (keys.offers, keys.design):
        drawn = np.asarray(jax.lax.map(lambda t, key=key: present(key, t), jnp.arange(1000)))
        often.append(np.bincount(drawn.ravel(), minlength=50).argmax())
        # The log-normal weights of deviation 2: the first of 50 has some 20 or more of 100.
        assert np.bincount(drawn.ravel()).max() > 60
    assert often[0] != often[1]


def test_a_used_up_budget_closes_and_an_empty_offer_passes():
    environment = budgets(make(np.ones((2, 2))), row=1)
    keys, world = begin(environment)
    for expected in ([[1, 1], [1, 1]], [[0, 0], [1, 1]], [[0, 0], [0, 0]]):
        offer = environment.offer(keys.offers, world)
        np.testing.assert_array_equal(offer.open, np.array(expected, bool))
        row = jnp.minimum(world.clock, 1)
        world, outcome, step = environment.answer(keys.noise, world, offer, Choice(row, row * 0))
        assert step.valid
    assert not outcome.answered
    assert step.row == -1
    assert world.clock == 3
    rewards = environment.best(keys.offers, begin(environment)[1], 4)
    np.testing.assert_allclose(rewards, [1.0, 1.0, 0.0, 0.0])


def test_rewards_are_values_for_their_costs():
    entries = np.array([[4.0, 6.0], [10.0, 2.0]])
    environment: Environment = costs(make(entries), [[1.0], [5.0]])
    keys, world = begin(environment)
    assert environment.standing
    assert environment.exact
    offer = environment.offer(keys.offers, world)
    assert offer.columns is None
    _, outcome, step = environment.answer(
        keys.noise, world, offer, Choice(jnp.asarray(1), jnp.asarray(0))
    )
    assert step.reward == 2.0
    assert outcome.value == 10.0
    rewards = environment.best(keys.offers, world, 4)
    np.testing.assert_allclose(rewards, [6.0, 4.0, 2.0, 0.4], rtol=1e-6)


@pytest.mark.parametrize(
    ("wrap", "told"),
    [
        (lambda e: arrivals(e, activity=-1.0), r"^activity: must"),
        (lambda e: arrivals(e, activity=1.0, weights=[1.0]), r"^activity: must be 0"),
        (lambda e: arrivals(e, weights=[1.0, -1.0]), r"^weights: must be one positive"),
        (lambda e: stock(e, in_stock=1.0), r"^in_stock: must lie"),
        (lambda e: stock(e, in_stock=0.9, duration=5.0), r"^duration: must be at least .* = 10,"),
        (lambda e: budgets(e), r"^row: give a budget"),
        (lambda e: budgets(e, row=0), r"^row: must be at least 1"),
        (lambda e: calendar(e, [(0, 0, 3, 2)]), r"^calendar: the last pick is before"),
        (lambda e: calendar(e, [(-1, 0, 3, 2)]), r"^calendar: row: must not be negative"),
        (lambda e: costs(e, [1.0, 0.0]), r"^costs: must be positive"),
        (lambda e: costs(e, [1.0, 1e-300]), r"^costs: must be positive"),
        (lambda e: costs(e, [1.0, 1e-39]), r"^costs: must be positive"),
        (lambda e: begun(costs(e, [1.0, 2.0, 3.0])), r"^costs: have the shape \(3,\)"),
        (lambda e: begun(calendar(e, [(2, None, 0, 1)])), r"^calendar: row 2 is not one of the 2"),
        (lambda e: begun(arrivals(e, weights=[1.0])), r"^weights: must be one a column, 2, got 1"),
    ],
)
def test_what_cannot_be_offered_is_refused_in_one_line(wrap, told):
    with pytest.raises(ValueError, match=told) as error:
        wrap(make(np.ones((2, 2))))
    assert "\n" not in str(error.value)


def begun(environment):
    keys, world = begin(environment)
    return environment.offer(keys.offers, world)


def test_the_benchmark_is_a_bound_where_there_are_losses():
    """A policy that empties columns on purpose loses less than one that serves every offer."""
    entries, arriving = np.array([[-1.0, -2.0, -10.0]]), [[0, 1], [1, 2], [0, 1]]
    present = np.zeros((3, 3), bool)
    for pick, columns in enumerate(arriving):
        present[pick, columns] = True
    best = best_in_order(entries, present[:, None, :])
    assert solve(present, entries).sum() == -13.0
    assert best == -3.0
    entries = np.random.default_rng(1).normal(size=(1, 4)) - 2.0
    for wrap in (
        lambda e: arrivals(e, number=2),
        lambda e: stock(e, in_stock=0.5, duration=3.0),
        lambda e: budgets(arrivals(e, number=2), column=1),
    ):
        environment = wrap(make(entries))
        keys, world = begin(environment)
        rewards = np.asarray(environment.best(keys.offers, world, 5), np.float64)
        masks = masks_of(environment, keys, world, 5)
        for t in range(1, 6):
            assert rewards[:t].sum() >= best_in_order(entries, masks[:t]) - 1e-5


def test_two_stocks_are_two_draws():
    environment = stock(make(np.ones((200, 1))), in_stock=0.5, duration=4.0)
    keys, world = begin(environment)
    twice = stock(environment, in_stock=0.5, duration=4.0).offer(keys.offers, world).open.sum()
    # 50 of 200 rows are in both, with a deviation of 6; in one of them 100.
    assert 20 < twice < 75
