"""Ask and tell beside the loop, and what pending entries change: against dense float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import ALL, COLUMNS, ROWS, make
from problems import dense_latents, draws_of, in_column, make_problem, with_column_noise

from smc_jax.data.synthetic import synthetic
from smc_jax.policies import ensemble
from smc_jax.policies.equalised import equalised
from smc_jax.recommender import State, choose_several, recommender
from smc_jax.simulation import environment, wrappers
from smc_jax.simulation.loop import make_loop
from smc_jax.types import Choice, Offer, Outcome

# One policy of each kind: the others share all of their code but the belief.
KINDS = ["ids", "thompson pool", "empirical", "random"]
ASKED = [title for title in ALL if not make(title).told]
TITLES = [pytest.param(title, marks=() if title in KINDS else pytest.mark.slow) for title in ASKED]


@pytest.fixture(scope="module", params=TITLES)
def title(request):
    """One policy after another; what was compiled for it is then dropped."""
    yield request.param
    jax.clear_caches()


def setting(kind="standing"):
    made = environment.make_environment(
        synthetic(rows=ROWS, columns=COLUMNS, true_rank=2), initial=8
    )
    return wrappers.arrivals(made, number=3) if kind == "arrivals" else made


def test_told_one_by_one_it_asks_for_what_the_loop_chooses(title):
    same_picks_as_the_loop(title, "standing")


@pytest.mark.parametrize("title", ["ids", "empirical"])
def test_told_one_by_one_it_asks_for_what_the_loop_chooses_of_arrivals(title):
    same_picks_as_the_loop(title, "arrivals")


def same_picks_as_the_loop(title, kind):
    """The same keys, the answers of the same matrix, refits at the same times."""
    made, policy, horizon, batches = setting(kind), make(title), 6, 2
    loop = make_loop(made, policy, horizon=horizon, refits=batches)
    begun = jax.jit(loop.reset)(jnp.uint32(3))
    carry = begun.carry(jax.jit(loop.init)(begun))
    _, _, steps = jax.jit(loop.advance, static_argnums=1)(carry, batches)

    asked = recommender(policy)
    refit, ask, tell = (
        jax.jit(asked.refit),
        jax.jit(asked.ask, static_argnums=3),
        jax.jit(asked.tell),
    )
    offer_of, answer = jax.jit(made.offer), jax.jit(made.answer)
    world, offers, key = carry.world, carry.offer_key, carry.key
    state = jax.jit(asked.init)(begun.keys.init, world.data, offer_of(offers, world))
    chosen = []
    for _ in range(batches):
        key, refit_key, pick_key, _ = jax.random.split(key, 4)
        state = refit(refit_key, state, offer_of(offers, world))
        for pick in jax.random.split(pick_key, horizon // batches):
            choose_key, absorb_key = jax.random.split(pick)
            offer = offer_of(offers, world)
            state, choice = ask(choose_key, state, offer, 1)
            assert state.pending.sum() == 1
            world, outcome, _ = answer(
                carry.noise_key, world, offer, Choice(*(x[0] for x in choice))
            )
            outcomes = jax.tree.map(lambda x: x[None], outcome)
            state = tell(absorb_key, state, outcomes, offer_of(offers, world))
            chosen.append((int(choice.row[0]), int(choice.column[0])))
    assert chosen == list(zip(steps.row.tolist(), steps.column.tolist(), strict=True))
    chex.assert_trees_all_equal(state.data, world.data)
    assert not state.pending.any()


@functools.cache
def observed(precise):
    """What an initial design has shown, and the offer of what is left."""
    assert precise == jax.config.jax_enable_x64
    made = setting()
    keys = environment.seed_keys(jnp.uint32(1))
    world = made.reset(keys, jnp.uint32(1))
    return world.data, made.offer(keys.offers, world)


def begin(asked):
    data, offer = observed(jax.config.jax_enable_x64)
    state = jax.jit(asked.init)(jax.random.key(0), data, offer)
    return jax.jit(asked.refit)(jax.random.key(1), state, offer), offer


def entries(choice):
    return list(zip(choice.row.tolist(), choice.column.tolist(), strict=True))


def test_asked_for_several_it_gives_distinct_open_entries(title):
    asked = recommender(make(title))
    state, offer = begin(asked)
    ask = jax.jit(asked.ask, static_argnums=3)
    left = int(offer.open.sum())
    first, some = ask(jax.random.key(2), state, offer, 5)
    second, others = ask(jax.random.key(3), first, offer, 4)
    few = jnp.asarray([4, 1, 2, 0])
    named = Offer(few, offer.open[:, few], offer.factor[:, few])
    third, visitors = ask(jax.random.key(4), second, named, 2)
    chosen = entries(some) + entries(others) + entries(visitors)
    assert len(set(chosen)) == 11
    assert all(offer.open[row, column] for row, column in chosen)
    assert {column for _, column in entries(visitors)} <= {0, 1, 2, 4}
    assert third.pending.sum() == 11
    assert all(third.pending[row, column] for row, column in chosen)
    chex.assert_trees_all_equal(third.policy, state.policy)  # an ask leaves no trace in it
    # Of what is left there is no more: the rest of a large ask stands for no entry.
    last, rest = ask(jax.random.key(5), third, offer, left)
    assert len(set(entries(rest))) == left - 11 + 1
    assert (np.asarray(rest.row[left - 11 :]) == -1).all()
    assert (last.pending == offer.open).all()


def test_a_named_offer_of_all_columns_is_asked_from_as_the_standing_one(title):
    """Right after a refit, with entries pending: both find the same batch."""
    asked = recommender(make(title))
    state, offer = begin(asked)
    rows, columns = np.nonzero(np.asarray(offer.open))
    pending = state.pending.at[rows[::4], columns[::4]].set(True)
    left = offer._replace(open=offer.open & ~pending)  # R* is of what can be chosen
    state = jax.jit(asked.refit)(jax.random.key(5), state._replace(pending=pending), left)
    ask = jax.jit(asked.ask, static_argnums=3)
    kept, anew = (ask(jax.random.key(6), state, one, 4)[1] for one in (left, left.everyone()))
    assert entries(kept) == entries(anew)


def outcomes_of(chosen, values, answered=True):
    rows, columns = (jnp.asarray(x) for x in zip(*chosen, strict=True))
    return Outcome(rows, columns, jnp.asarray(values), jnp.full(rows.shape, answered))


def test_answers_come_in_any_order_and_failures_teach_nothing(title):
    asked = recommender(make(title))
    state, offer = begin(asked)
    tell = jax.jit(asked.tell)
    state, choice = jax.jit(asked.ask, static_argnums=3)(jax.random.key(2), state, offer, 4)
    chosen, values = entries(choice), np.asarray([0.3, -1.0, 2.0, 0.5])
    key = jax.random.key(7)
    there = tell(key, state, outcomes_of(chosen, values), offer)
    back = tell(key, state, outcomes_of(chosen[::-1], values[::-1]), offer)
    chex.assert_trees_all_close(there.data, back.data)
    assert not there.pending.any()
    failed = tell(key, state, outcomes_of(chosen[:2], values[:2], answered=False), offer)
    chex.assert_trees_all_equal(failed.data, state.data)
    assert failed.pending.sum() == 2
    # Rows of -1 are room that is not used.
    padded = Outcome(jnp.full(4, -1), jnp.full(4, -1), jnp.zeros(4), jnp.ones(4, bool))
    same = tell(key, state, padded, offer)
    chex.assert_trees_all_equal((same.data, same.pending), (state.data, state.pending))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("column_noise", [False, True])
def test_a_pending_entry_takes_the_step_of_the_covariance_alone(column_noise):
    """Against the dense joint Gaussian of the column, in which the pending entry is observed."""
    parameters, observations, looks = make_problem(4)
    if column_noise:
        parameters = with_column_noise(parameters, len(looks))
    draws = jax.tree.map(lambda x: x[None], parameters)
    members = ensemble.start(jax.random.key(0), draws, observations)
    after, predicted = members, None
    for row, column in ((3, 2), (5, 2), (0, 4)):
        after, predicted = ensemble.expect(after, jnp.asarray(row), jnp.asarray(column))
    for n, more in ((2, [3, 5]), (4, [0]), (1, [])):
        seen = np.concatenate([looks[n][0], more]).astype(int)
        own = in_column(parameters, n) if column_noise else parameters
        _, covariance = dense_latents(own, seen, np.zeros(len(seen)))
        np.testing.assert_allclose(after.column.covariance[0, n], covariance, atol=1e-12)
    chex.assert_trees_all_equal(after.column.mean, members.column.mean)
    chex.assert_trees_all_equal(after.column.sample, members.column.sample)
    chex.assert_trees_all_close(predicted, ensemble.predict_column(after, jnp.asarray(4)))
    pending = jnp.zeros((observations.rows, observations.columns), bool)
    at_once = ensemble.expect_all(
        members, observations, pending.at[jnp.asarray([3, 5, 0]), jnp.asarray([2, 2, 4])].set(True)
    )
    chex.assert_trees_all_close(at_once, after, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_an_answer_that_was_waited_for_teaches_what_it_would_have_taught_at_once():
    """Asked five at once and told: means and covariances are those of the answers alone."""
    asked = recommender(make("ids"))
    state, offer = begin(asked)
    waiting, choice = asked.ask(jax.random.key(2), state, offer, 5)
    chosen, values = entries(choice), np.asarray([0.3, -1.0, 2.0, 0.5, 0.1])
    told = asked.tell(jax.random.key(3), waiting, outcomes_of(chosen[::-1], values[::-1]), offer)
    members = told.policy.ensemble
    again = ensemble.start(jax.random.key(0), members.parameters, told.data)
    chex.assert_trees_all_close(members.column.mean, again.column.mean, atol=1e-10)
    chex.assert_trees_all_close(members.column.covariance, again.column.covariance, atol=1e-10)


def test_ids_does_not_count_twice_what_a_pending_entry_will_teach():
    """Each pick of a batch is the one of the least ratio once the others are expected."""
    policy = make("ids", best_of=2)
    asked = recommender(policy)
    state, offer = begin(asked)
    _, choice = asked.ask(jax.random.key(2), state, offer, 6)
    members, is_open = state.policy.ensemble, np.asarray(offer.open).copy()
    optimum = float(state.policy.shared)
    for row, column in entries(choice):
        mean, variance, _ = (np.asarray(x, float) for x in ensemble.predict(members))
        noise = np.asarray(ensemble.noise(members), float)[:, None]
        total = (variance + noise**2).mean(0) + mean.var(0)
        gained = 0.5 * np.log(total / np.exp(np.log(noise**2).mean(0)))
        reward = mean.mean(0)
        ratio = np.where(is_open, (optimum - reward) ** 2 / gained, np.inf)
        best = np.where(is_open, reward, -np.inf)
        expected = best if best.max() >= optimum else -ratio
        assert expected[row, column] >= expected.max() - 1e-5 * abs(expected.max())
        is_open[row, column] = False
        members, _ = ensemble.expect(members, jnp.asarray(row), jnp.asarray(column))


def test_a_pending_entry_leaves_less_to_learn_of_its_column():
    """The column of the entry just asked has less left to tell, and the same means."""
    parameters, data, _ = make_problem(5, rows=8, columns=6)
    draws = jax.tree.map(lambda x: jnp.stack([x, 0.9 * x]), parameters)
    members = ensemble.start(jax.random.key(0), draws, data)
    _, predicted = ensemble.expect(members, jnp.asarray(0), jnp.asarray(0))
    before = ensemble.predict_column(members, jnp.asarray(0))
    assert (predicted.variance < 0.999 * before.variance).all()
    chex.assert_trees_all_equal(predicted.mean, before.mean)


def test_an_equalised_policy_is_asked_for_several_too():
    asked = recommender(equalised(make("greedy")))
    state, offer = begin(asked)
    _, choice = jax.jit(asked.ask, static_argnums=3)(jax.random.key(2), state, offer, 5)
    assert len(set(entries(choice))) == 5


@pytest.mark.parametrize("title", ["ids", "thompson pool", "random", "empirical"])
def test_asking_is_traced_once(title):
    policy, traces = make(title), []

    def ask(key, state, offer):
        traces.append(title)
        return choose_several(key, policy, state.policy, state.data, offer, state.pending, 3)

    state, offer = begin(recommender(policy))
    jitted = jax.jit(ask)
    for number in range(3):
        pending = state.pending.at[number, number].set(offer.open[number, number])
        jitted(jax.random.key(number), State(state.data, state.policy, pending), offer)
    assert traces == [title]


def test_to_expect_an_entry_moves_the_covariance_as_to_absorb_it():
    """The gain of `expect` is that of `absorb`: both leave the same covariance."""
    draws, observations = draws_of(9, 3)
    members = ensemble.start(jax.random.key(0), draws, observations)
    outcome = Outcome(*(jnp.asarray(x) for x in (2, 3, 0.7, True)))
    absorbed, _ = ensemble.condition(jax.random.key(1), members, outcome)
    expected, _ = ensemble.expect(members, jnp.asarray(2), jnp.asarray(3))
    chex.assert_trees_all_close(
        absorbed.column.covariance, expected.column.covariance, rtol=1e-5, atol=1e-6
    )
