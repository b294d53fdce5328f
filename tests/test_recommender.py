"""Ask and tell beside the loop, and what pending entries change: against dense float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import ALL, COLUMNS, ROWS, make
from problems import dense_latents, draws_of, in_column, make_problem, with_column_noise

from smc_jax.beliefs.told import told
from smc_jax.data.synthetic import synthetic
from smc_jax.policies import ensemble
from smc_jax.policies.equalised import equalised
from smc_jax.policies.ids import ids
from smc_jax.recommender import recommender
from smc_jax.simulation import environment
from smc_jax.simulation import offers as wrappers
from smc_jax.simulation.loop import make_loop
from smc_jax.types import Choice, Offer, Outcome

# One policy of each kind: the others share all of their code but the belief.
KINDS = ["ids", "thompson pool", "empirical", "random"]
ASKED = [title for title in ALL if not make(title).told]
TITLES = [pytest.param(title, marks=() if title in KINDS else pytest.mark.slow) for title in ASKED]
KEY = jax.random.key(0)
NUMBER = 5  # how many entries are asked for, and told, at once: one number, so that one program


class Programs:
    """The compiled programs of a recommender, which all tests of a policy share."""

    def __init__(self, policy):
        asked, self.policy = recommender(policy), policy
        self.traced = []  # the number and the offered columns of each ask that was traced

        def ask(key, state, offer, number):
            self.traced.append((number, None if offer.columns is None else offer.columns.size))
            return asked.ask(key, state, offer, number)

        self.init, self.refit = jax.jit(asked.init), jax.jit(asked.refit)
        self.ask, self.tell = jax.jit(ask, static_argnums=3), jax.jit(asked.tell)

    @functools.cached_property
    def begun(self):
        """The state after a first fit, and the offer of what is left."""
        data, offer = observed()
        state = self.init(jax.random.key(0), data, offer)
        return self.refit(jax.random.key(1), state, offer), offer


@pytest.fixture(scope="module", params=TITLES)
def title(request):
    """One policy after another; what was compiled for it is then dropped."""
    return request.param


@pytest.fixture(scope="module")
def programs(title):
    return Programs(make(title))


def setting(kind="standing"):
    made = environment.make_environment(
        synthetic(rows=ROWS, columns=COLUMNS, true_rank=2), initial=8
    )
    return wrappers.arrivals(made, number=3) if kind == "arrivals" else made


def test_told_one_by_one_it_asks_for_what_the_loop_chooses(programs):
    same_picks_as_the_loop(programs, "standing")


# Of arrivals no policy keeps a summary; the belief that is fitted soonest does.
@pytest.mark.parametrize("name", ["ids_pairwise", "empirical"])
def test_told_one_by_one_it_asks_for_what_the_loop_chooses_of_arrivals(name):
    same_picks_as_the_loop(Programs(make(name)), "arrivals")


def same_picks_as_the_loop(asked, kind):
    """The same keys, the answers of the same matrix, refits at the same times."""
    made, horizon, batches = setting(kind), 6, 2
    loop = make_loop(made, asked.policy, horizon=horizon, refits=batches)
    begun = jax.jit(loop.reset)(jnp.uint32(3))
    carry = begun.carry(jax.jit(loop.init)(begun))
    _, _, steps = jax.jit(loop.advance, static_argnums=1)(carry, batches)

    offer_of, answer = jax.jit(made.offer), jax.jit(made.answer)
    world, offers, key = carry.world, carry.offer_key, carry.key
    state = asked.init(begun.keys.init, world.data, offer_of(offers, world))
    chosen = []
    for _ in range(batches):
        key, refit_key, pick_key, _ = jax.random.split(key, 4)
        state = asked.refit(refit_key, state, offer_of(offers, world))
        for pick in jax.random.split(pick_key, horizon // batches):
            choose_key, absorb_key = jax.random.split(pick)
            offer = offer_of(offers, world)
            state, choice = asked.ask(choose_key, state, offer, 1)
            assert state.pending.sum() == 1
            world, outcome, _ = answer(
                carry.noise_key, world, offer, Choice(*(x[0] for x in choice))
            )
            outcomes = jax.tree.map(lambda x: x[None], outcome)
            state = asked.tell(absorb_key, state, outcomes, offer_of(offers, world))
            chosen.append((int(choice.row[0]), int(choice.column[0])))
    assert chosen == list(zip(steps.row.tolist(), steps.column.tolist(), strict=True))
    chex.assert_trees_all_equal(state.data, world.data)
    assert not state.pending.any()


@functools.cache
def observed():
    """What an initial design has shown, and the offer of what is left."""
    assert not jax.config.jax_enable_x64
    made = setting()
    keys = environment.seed_keys(jnp.uint32(1))
    world = made.reset(keys, jnp.uint32(1))
    return world.data, made.offer(keys.offers, world)


def entries(choice):
    return list(zip(choice.row.tolist(), choice.column.tolist(), strict=True))


def test_asked_for_several_it_gives_distinct_open_entries(programs):
    state, offer = programs.begun
    left = int(offer.open.sum())
    now, some = programs.ask(jax.random.key(2), state, offer, NUMBER)
    few = jnp.asarray([4, 1, 2, 0])
    named = Offer(few, offer.open[:, few], offer.factor[:, few])
    now, visitors = programs.ask(jax.random.key(3), now, named, NUMBER)
    assert {column for _, column in entries(visitors)} <= {0, 1, 2, 4}
    chosen = entries(some) + entries(visitors)
    while len(chosen) + NUMBER <= left:
        now, others = programs.ask(jax.random.key(len(chosen)), now, offer, NUMBER)
        chosen += entries(others)
        assert len(set(chosen)) == len(chosen)
        assert all(offer.open[row, column] for row, column in chosen)
        assert now.pending.sum() == len(chosen)
        assert all(now.pending[row, column] for row, column in chosen)
    chex.assert_trees_all_equal(now.policy, state.policy)  # an ask leaves no trace in it
    # Of what is left there is no more: the rest of an ask stands for no entry.
    more = left - len(chosen)
    assert 0 < more < NUMBER
    last, rest = programs.ask(jax.random.key(5), now, offer, NUMBER)
    assert len(set(entries(rest))) == more + 1
    assert (np.asarray(rest.row[more:]) == -1).all()
    assert (last.pending == offer.open).all()


def test_a_named_offer_of_all_columns_is_asked_from_as_the_standing_one(programs):
    """Right after a refit, with entries pending: both find the same batch."""
    state, offer = programs.begun
    rows, columns = np.nonzero(np.asarray(offer.open))
    pending = state.pending.at[rows[::4], columns[::4]].set(True)
    left = offer._replace(open=offer.open & ~pending)  # R* is of what can be chosen
    state = programs.refit(jax.random.key(5), state._replace(pending=pending), left)
    kept, anew = (
        programs.ask(jax.random.key(6), state, one, NUMBER)[1] for one in (left, left.everyone())
    )
    assert entries(kept) == entries(anew)


def outcomes_of(chosen, values, answered=True, room=0):
    """Outcomes, and rows of -1 up to the room that there is."""
    rows, columns = (np.asarray(x) for x in zip(*chosen, strict=True))
    more = (0, max(room - len(chosen), 0))
    rows, columns = (np.pad(x, more, constant_values=-1) for x in (rows, columns))
    values = np.pad(np.asarray(values, float), more)
    return Outcome(*map(jnp.asarray, (rows, columns, values, np.full(rows.shape, answered))))


def test_answers_come_in_any_order_and_failures_teach_nothing(programs):
    state, offer = programs.begun
    state, choice = programs.ask(jax.random.key(2), state, offer, NUMBER)
    chosen, values = entries(choice), np.asarray([0.3, -1.0, 2.0, 0.5, 0.1])
    key = jax.random.key(7)
    there = programs.tell(key, state, outcomes_of(chosen, values), offer)
    back = programs.tell(key, state, outcomes_of(chosen[::-1], values[::-1]), offer)
    chex.assert_trees_all_close(there.data, back.data)
    assert not there.pending.any()
    few = outcomes_of(chosen[:2], values[:2], answered=False, room=NUMBER)
    failed = programs.tell(key, state, few, offer)
    chex.assert_trees_all_equal(failed.data, state.data)
    assert failed.pending.sum() == NUMBER - 2
    # Rows of -1 are room that is not used.
    nothing = jnp.full(NUMBER, -1)
    padded = Outcome(nothing, nothing, jnp.zeros(NUMBER), jnp.ones(NUMBER, bool))
    same = programs.tell(key, state, padded, offer)
    chex.assert_trees_all_equal((same.data, same.pending), (state.data, state.pending))


def test_asking_is_traced_once(programs):
    """Whatever is pending; other tests may have asked before."""
    state, offer = programs.begun
    for number in range(3):
        pending = state.pending.at[number, number].set(offer.open[number, number])
        programs.ask(jax.random.key(number), state._replace(pending=pending), offer, NUMBER)
    assert programs.traced.count((NUMBER, None)) == 1


@pytest.mark.parametrize("title", ["ids"], indirect=True)
def test_ids_does_not_count_twice_what_a_pending_entry_will_teach(programs):
    """Each pick of a batch is the one of the least ratio once the others are expected."""
    state, offer = programs.begun
    _, choice = programs.ask(jax.random.key(2), state, offer, NUMBER)
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
    parameters, data, _ = make_problem(4)

    def draw(key, state):
        return jax.tree.map(lambda x: x * jnp.exp(0.3 * jax.random.normal(key)), state)

    asked = Programs(ids(told()._replace(draw=draw, point=False), draws=4))
    offer = Offer(None, ~data.seen(), jnp.ones(data.seen().shape))
    state = asked.refit(KEY, asked.init(KEY, data, offer, parameters), offer)
    waiting, choice = asked.ask(jax.random.key(2), state, offer, NUMBER)
    chosen, values = entries(choice), np.asarray([0.3, -1.0, 2.0, 0.5, 0.1])
    after = asked.tell(jax.random.key(3), waiting, outcomes_of(chosen[::-1], values[::-1]), offer)
    members = after.policy.ensemble
    again = ensemble.start(jax.random.key(0), members.parameters, after.data)
    chex.assert_trees_all_close(members.column.mean, again.column.mean, atol=1e-10)
    chex.assert_trees_all_close(members.column.covariance, again.column.covariance, atol=1e-10)
    before = state.policy.ensemble.column
    assert not np.allclose(members.column.mean, before.mean, atol=1e-3)


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
    asked = Programs(equalised(make("greedy_pairwise")))
    state, offer = asked.begun
    _, choice = asked.ask(jax.random.key(2), state, offer, NUMBER)
    assert len(set(entries(choice))) == NUMBER


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
