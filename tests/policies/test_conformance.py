"""Conformance of every policy: shapes, traces, and choices inside offers of every kind."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import ALL, COLUMNS, PRESET, ROWS, SMALL, make

from smc_jax.data.synthetic import synthetic
from smc_jax.observations import Observations
from smc_jax.policies.base import Best, best_open
from smc_jax.policies.ensemble_policy import Rule, ensemble_policy
from smc_jax.policies.registry import ORACLES
from smc_jax.predictions import predict
from smc_jax.simulation import environment
from smc_jax.simulation import offers as wrappers
from smc_jax.simulation.oracles import REVEALED
from smc_jax.types import Choice, Offer, Outcome

RULES = [(0.0, True), (0.0, False), (0.5, True), (0.5, False), (1.0, True), (1.0, False)]


@pytest.fixture(scope="module", params=ALL)
def title(request):
    """One policy after another, with all its tests; what was compiled for it is then dropped.

    A process can hold only a number of compiled programs: each takes mappings of memory. What the
    policies have in common is kept.
    """
    yield request.param
    compiled.cache_clear()


@functools.cache
def compiled(title):
    """The policy, the policy with every function under jit, and how often each was traced."""
    policy = make(title)
    traces = collections.Counter()

    def counted(field):
        def function(*arguments):
            traces[field] += 1
            return getattr(policy, field)(*arguments)

        return jax.jit(function)

    fields = ("init", "refit", "choose", "absorb", "diagnose")
    return policy, policy._replace(**{field: counted(field) for field in fields}), traces


@functools.cache
def world_of(beta, once, kind="standing"):
    """An environment, its functions under jit, and the world after the initial design."""
    data = synthetic(rows=ROWS, columns=COLUMNS, true_rank=2)
    made = environment.make_environment(data, initial=8, beta=beta, once=once)
    if kind == "changing":  # three columns arrive, and of each row and entry some are closed

        def closed(key, clock):
            row_key, entry_key = jax.random.split(jax.random.fold_in(key, clock))
            rows = jax.random.bernoulli(row_key, 0.3, (ROWS, 1))
            return rows | jax.random.bernoulli(entry_key, 0.4, (ROWS, COLUMNS))

        made = wrappers.restricted(wrappers.arrivals(made, number=3), closed)
    if kind == "budgets":  # a standing offer that closes behind the back of what was kept
        made = wrappers.costs(wrappers.budgets(made, row=4, column=3), np.arange(1.0, 7.0))
    if kind == "available":  # everything together
        made = wrappers.stock(
            wrappers.arrivals(made, number=3, activity=0.5), in_stock=0.7, duration=4.0
        )
        made = wrappers.calendar(made, [(None, 2, 0, 3), (1, None, 2, 5), (0, 0, 0, 9)])
        made = wrappers.costs(wrappers.budgets(made, row=6, column=4), np.arange(1.0, 6.0)[:, None])
    keys = environment.seed_keys(jnp.uint32(0))
    jitted = made._replace(offer=jax.jit(made.offer), answer=jax.jit(made.answer))
    return jitted, keys, made.reset(keys, jnp.uint32(0))


def play(policy, *, beta=0.0, once=True, kind="standing", batches=2, picks=3):
    """A short run: the states after each call, and the data, offers and choices."""
    made, seed, world = world_of(beta, once, kind)
    keys = iter(jax.random.split(jax.random.key(2), 1 + batches * (1 + 2 * picks)))
    prior = None if policy.told is None else REVEALED[policy.told](world.problem)
    offer = made.offer(seed.offers, world)
    states = [policy.init(next(keys), world.data, offer, prior)]
    data, offers, choices = [], [], []
    for _ in range(batches):
        states.append(policy.refit(next(keys), states[-1], world.data, offer))
        for _ in range(picks):
            choices.append(policy.choose(next(keys), states[-1], world.data, offer))
            data.append(world.data)
            offers.append(offer)
            world, outcome, step = made.answer(seed.noise, world, offer, choices[-1])
            assert step.valid
            offer = made.offer(seed.offers, world)
            states.append(policy.absorb(next(keys), states[-1], world.data, outcome, offer))
    return states, data, offers, choices


def inside(choice, offer):
    """Whether the choice is open in the offer, by plain indexing; true of an empty offer."""
    columns = np.arange(COLUMNS) if offer.columns is None else np.asarray(offer.columns)
    at = np.flatnonzero(columns == int(choice.column))
    is_open = np.asarray(offer.open)
    return not is_open.any() or (at.size == 1 and is_open[int(choice.row), at[0]])


def test_policies_conform(title):
    """States keep their shapes, choices are open, and nothing is traced twice."""
    _, policy, traces = compiled(title)
    traces.clear()
    for beta, once in RULES:
        states, _, offers, choices = play(policy, beta=beta, once=once)
        chex.assert_trees_all_equal_shapes_and_dtypes(*states)
        for offer, choice in zip(offers, choices, strict=True):
            assert isinstance(choice, Choice)
            chex.assert_shape(list(choice), ())
            assert all(jnp.issubdtype(index.dtype, jnp.integer) for index in choice)
            assert inside(choice, offer)
        diagnostics = policy.diagnose(states[-1])
        chex.assert_shape(list(diagnostics), ())
        assert diagnostics.finite
    *_, again = play(policy, beta=beta, once=once)
    assert again == choices  # a function of the key
    assert set(traces.values()) <= {0, 1}


def test_policies_choose_inside_offers_that_change_at_every_step(title):
    _, policy, _ = compiled(title)
    states, _, offers, choices = play(policy, kind="changing", picks=5)
    chex.assert_trees_all_equal_shapes_and_dtypes(*states)
    for offer, choice in zip(offers, choices, strict=True):
        assert inside(choice, offer)
    assert policy.diagnose(states[-1]).finite
    assert len({np.asarray(offer.open).tobytes() for offer in offers}) > 5
    assert any(np.asarray(offer.open).any() for offer in offers)


# One policy for every way to keep a state; the others are a long study.
KEEPING = ("ids", "greedy", "thompson", "icf", "particle", "optspace", "random")
AVAILABLE = [
    pytest.param(title, kind, marks=() if title in KEEPING else pytest.mark.slow)
    for title in ALL
    for kind in ("budgets", "available")
]


@pytest.mark.parametrize(("title", "kind"), AVAILABLE)
def test_policies_choose_inside_what_is_available(title, kind):
    """Arrivals by activity, stock, a calendar, budgets that are used up, and costs."""
    _, policy, _ = compiled(title)
    states, _, offers, choices = play(policy, kind=kind, picks=5)
    chex.assert_trees_all_equal_shapes_and_dtypes(*states)
    for offer, choice in zip(offers, choices, strict=True):
        assert inside(choice, offer)
    closed = [ROWS * offer.open.shape[1] - int(offer.open.sum()) for offer in offers]
    assert max(closed) > closed[0] + len(closed) or kind != "budgets"  # more than was chosen
    assert policy.diagnose(states[-1]).finite


def test_nothing_is_chosen_that_closed_after_the_refit(title):
    """Columns, rows and single entries close behind the back of a standing offer."""
    _, policy, _ = compiled(title)
    states, data, offers, _ = play(policy, beta=0.5, once=False)
    rng = np.random.default_rng(0)
    masks = [rng.uniform(size=(ROWS, COLUMNS)) < 0.3 for _ in range(3)]
    masks += [np.eye(ROWS, dtype=bool)[[d]].T & np.ones(COLUMNS, bool) for d in (0, ROWS - 1)]
    masks += [np.eye(COLUMNS, dtype=bool)[n] & np.ones((ROWS, 1), bool) for n in (0, 3)]
    masks += list(np.eye(ROWS * COLUMNS, dtype=bool).reshape(-1, ROWS, COLUMNS)[::9])
    for number, mask in enumerate(masks):
        offer = offers[-1]._replace(open=jnp.asarray(mask))
        choice = policy.choose(jax.random.key(number), states[-1], data[-1], offer)
        assert mask[int(choice.row), int(choice.column)]


def test_an_offer_that_names_all_columns_is_chosen_from_as_the_standing_one(title):
    """Right after a refit what was kept is what is found anew."""
    _, policy, _ = compiled(title)
    states, data, offers, _ = play(policy, beta=0.5, once=False)
    refitted = policy.refit(jax.random.key(5), states[-1], data[-1], offers[-1])
    for key in jax.random.split(jax.random.key(6), 3):
        kept = policy.choose(key, refitted, data[-1], offers[-1])
        assert policy.choose(key, refitted, data[-1], offers[-1].everyone()) == kept


def test_a_small_offer_costs_what_its_columns_cost(title):
    """Operations of a choice among three columns, of few and of eight times as many columns."""
    policy = make(title)

    def operations(columns):
        data = synthetic(rows=ROWS, columns=columns, true_rank=2)
        made = wrappers.arrivals(environment.make_environment(data, initial=30), number=3)

        def begun():
            keys = environment.seed_keys(jnp.uint32(0))
            world = made.reset(keys, jnp.uint32(0))
            offer = made.offer(keys.offers, world)
            prior = None if policy.told is None else REVEALED[policy.told](world.problem)
            return keys.policy, policy.init(keys.init, world.data, offer, prior), world.data, offer

        lowered = jax.jit(policy.choose).lower(*jax.eval_shape(begun))  # shapes are enough
        return lowered.compile().cost_analysis()["flops"]

    assert operations(160) <= 1.05 * operations(20)


def test_choices_are_the_same_without_jit(title):
    plain, policy, _ = compiled(title)
    states, data, offers, _ = play(policy, beta=0.5, once=False)
    for key in jax.random.split(jax.random.key(4), 3):
        fast = policy.choose(key, states[-2], data[-1], offers[-1])
        assert plain.choose(key, states[-2], data[-1], offers[-1]) == fast


def test_policies_that_fit_a_model_predict(title):
    _, policy, _ = compiled(title)
    states, data, *_ = play(policy)
    rows, columns = jnp.asarray([0, 3, 3]), jnp.asarray([1, 1, 4])
    if policy.predict is None:
        assert title in ("optspace", "random")
        with pytest.raises(ValueError, match=r"^policy: it fits no model"):
            predict(jax.random.key(0), policy, states[-1], data[-1], rows, columns)
        return
    found = predict(jax.random.key(0), policy, states[-1], data[-1], rows, columns, draws=8)
    chex.assert_shape([found.mean, found.sd], (3,))
    assert (np.diff(found.quantiles, axis=0) > 0).all()
    assert (found.sd > 0).all()


def test_a_score_that_is_not_a_number_is_no_choice():
    offer = Offer(None, jnp.asarray([[True, True], [False, True]]), jnp.ones((2, 2)))
    reward = jnp.asarray([[1.0, 3.0], [9.0, 2.0]])
    assert best_open(reward, offer) == (0, 1)
    assert best_open(reward.at[0, 0].set(jnp.nan), offer) == (-1, -1)
    named = offer._replace(columns=jnp.asarray([7, 4]))
    assert best_open(reward, named) == (0, 4)


def test_ties_go_to_the_first_row_and_then_to_the_first_column():
    score = jnp.asarray([[1.0, 3.0, 0.0], [3.0, 2.0, 3.0]])
    available = jnp.asarray([[True, False, True], [True, True, True]])
    columns = jax.vmap(Best.of_column, in_axes=1)
    assert columns(score, jnp.ones((2, 3), bool)).choice() == (0, 1)
    assert columns(score, available).choice() == (1, 0)
    assert columns(score.at[0, 1].set(jnp.nan), available).choice() == (-1, -1)


NOISY = ["thompson fresh", "thompson pool", "empirical", "oracle"]


@pytest.mark.parametrize(
    "noisy", [*NOISY, *(pytest.param(x, marks=pytest.mark.slow) for x in ("particle", "icf"))]
)
def test_draws_have_the_noise_of_an_entry_where_it_is_asked_for(noisy):
    made, seed, world = world_of(0.0, True)
    offer = made.offer(seed.offers, world)

    def choices(**settings):
        policy = make(noisy, **settings)
        prior = None if policy.told is None else REVEALED[policy.told](world.problem)

        @jax.jit
        def choice(key):
            init_key, refit_key, choose_key = jax.random.split(key, 3)
            state = policy.init(init_key, world.data, offer, prior)
            state = policy.refit(refit_key, state, world.data, offer)
            return policy.choose(choose_key, state, world.data, offer)

        return [tuple(map(int, choice(jax.random.key(number)))) for number in range(12)]

    without = choices(entry_noise=True, noisy=False)
    assert without == choices(entry_noise=False, noisy=True)
    assert without != choices(entry_noise=True, noisy=True)


@pytest.mark.parametrize("name", [pytest.param("particle", marks=pytest.mark.slow), "icf"])
def test_standardised_models_choose_alike_in_any_units(name):
    """The first choices on values 20 + 8 y are those on y, though the models have fixed scales."""

    def choices(centre, scale):
        policy = PRESET._replace(standardise=True).policy(name, **SMALL[name])
        entries = centre + scale * np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
        problem = environment.Problem(
            jnp.asarray(entries), jnp.zeros(()), jnp.ones(entries.shape, bool), None
        )
        made = environment.make_environment(lambda key, seed: problem, initial=12)
        seed = environment.seed_keys(jnp.uint32(1))
        world = made.reset(seed, jnp.uint32(1))
        offer = made.offer(seed.offers, world)
        state = policy.init(jax.random.key(4), world.data, offer)
        state = policy.refit(jax.random.key(3), state, world.data, offer)
        chosen = []
        for number in range(4):
            key = jax.random.fold_in(jax.random.key(5), number)
            choice = policy.choose(key, state, world.data, offer)
            chosen.append(tuple(map(int, choice)))
            world, outcome, _ = made.answer(seed.noise, world, offer, choice)
            offer = made.offer(seed.offers, world)
            state = policy.absorb(key, state, world.data, outcome, offer)
        return chosen

    assert choices(20.0, 8.0) == choices(0.0, 1.0)


def test_a_policy_is_told_the_truth_only_if_it_is_an_oracle():
    told = {title: make(title).told for title in ALL if make(title).told}
    assert {title for title, what in told.items() if what != "nothing"} == set(ORACLES)
    assert {title for title, what in told.items() if what == "nothing"} == {"ids_without_history"}


@pytest.mark.parametrize("kind", ["standing", "changing"])
def test_where_nothing_is_answered_nothing_is_learned(title, kind):
    """As where an offer is empty: the row is beyond the last, and the value says nothing."""
    _, policy, _ = compiled(title)
    states, data, offers, _ = play(policy, kind=kind, picks=5 if kind == "changing" else 3)
    row, column = jnp.asarray(ROWS), jnp.asarray(0)
    nothing = Outcome(row, column, jnp.zeros(()), jnp.asarray(False))
    after = policy.absorb(jax.random.key(0), states[-1], data[-1], nothing, offers[-1])
    if hasattr(after, "used"):  # how many of its matrices have chosen
        after = after._replace(used=states[-1].used)
    if kind == "standing":  # the offer of an earlier pick: summaries may differ
        after, states[-1] = (getattr(x, "ensemble", x) for x in (after, states[-1]))
    chex.assert_trees_all_equal(after, states[-1])


def test_a_rule_may_keep_an_array():
    rule = Rule(
        summarise=lambda column: column.prediction.mean.mean(0),
        choose=lambda key, summary, shared, offer: best_open(offer.factor * summary, offer),
        every_entry=True,
    )
    policy = ensemble_policy(PRESET.belief(), rule, draws=2)
    states, _, offers, choices = play(policy)
    assert all(inside(choice, offer) for choice, offer in zip(choices, offers, strict=True))
    assert policy.diagnose(states[-1]).finite


def offer_of(mask):
    return Offer(None, jnp.asarray(mask), jnp.ones(mask.shape))


def test_optspace_chooses_the_best_entry_of_the_completion_until_the_refit():
    rng = np.random.default_rng(0)
    matrix = np.outer(rng.uniform(1, 2, 12), rng.normal(size=15))
    seen = rng.uniform(size=matrix.shape) < 0.5
    data, offer, key = Observations.from_matrix(matrix, seen), offer_of(~seen), jax.random.key(0)
    policy = make("optspace", rank=1, steps=50)
    state = policy.refit(key, policy.init(key, data, offer), data, offer)
    np.testing.assert_allclose(state.matrix, matrix, atol=1e-3)
    order = np.argsort(np.where(seen, np.inf, -matrix), axis=None)
    for expected in order[:3]:
        choice = policy.choose(key, state, data, offer)
        assert tuple(map(int, choice)) == divmod(int(expected), 15)
        offer = offer._replace(open=offer.open.at[choice.row, choice.column].set(False))
        outcome = Outcome(*choice, jnp.asarray(-99.0), jnp.asarray(True))
        state = policy.absorb(key, state, data, outcome, offer)


def test_optspace_completes_what_deviates_from_the_row_means():
    rng = np.random.default_rng(1)
    means = np.arange(10.0)[:, None]
    table = means + 3.0 * np.outer(rng.choice([-1, 1], 10), rng.choice([-1, 1], 300))
    data = Observations.from_matrix(jnp.asarray(table), rng.random(table.shape) < 0.5)
    offer, key = offer_of(np.ones(table.shape, bool)), jax.random.key(0)
    policy = make("optspace", rank=1, steps=50, centred=True)
    state = policy.refit(key, policy.init(key, data, offer), data, offer)
    np.testing.assert_allclose(state.matrix, table, atol=0.6)  # the means are estimates
