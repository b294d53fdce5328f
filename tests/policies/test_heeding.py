"""Policies that learn who answers: what they are told of offers, and what rules make of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import make
from scipy import stats

from smc_jax.model import response
from smc_jax.observations import Observations
from smc_jax.policies.base import Policy, best_open
from smc_jax.policies.heeding import heeding_silence
from smc_jax.policies.random import random
from smc_jax.policies.registry import POLICIES, named
from smc_jax.policies.rewards import expected_gain, expected_reward
from smc_jax.types import Offer, Outcome


def asked_data(rows=6, columns=5):
    """Column 0 refused everything, column 1 answered everything, the rest was hardly asked."""
    answered, refused = np.zeros((2, rows, columns))
    answered[:4, 1] = refused[:4, 0] = 1.0
    values = np.random.default_rng(0).normal(size=(rows, columns)) + 2.0
    data = Observations.from_matrix(values, answered > 0).with_refusals(refused)
    is_open = jnp.asarray(answered + refused == 0)
    return data, Offer(None, is_open, jnp.ones((rows, columns)))


def chooser():
    """Takes the likeliest answer, and keeps the chances that it is told of at the last refit."""
    base = random()
    return Policy(
        base.init,
        refit=lambda key, state, data, offer: offer.chance,
        choose=lambda key, state, data, offer: best_open(offer.chance, offer),
        absorb=lambda key, state, data, outcome, offer: state,
        diagnose=base.diagnose,
    )


def test_chances_follow_what_was_answered_and_move_with_every_outcome():
    policy = heeding_silence(chooser(), draws=32)
    data, offer = asked_data()
    key = jax.random.key(0)
    # Weak types would compile the bandit loop twice.
    shapes = jax.tree.leaves(jax.eval_shape(policy.init, key, data, offer))
    assert not any(shape.weak_type for shape in shapes)
    state = jax.jit(policy.init)(key, data, offer)
    state = jax.jit(policy.refit)(key, state, data, offer)
    chance = np.asarray(state.chance)
    np.testing.assert_array_equal(state.inner, chance)
    assert (chance[:, 0] < chance[:, 2:].min()).all()
    assert (chance[:, 1] > chance[:, 2:].max()).all()
    assert int(policy.choose(key, state, data, offer).column) == 1
    named_offer = Offer(jnp.asarray([3, 0]), offer.open[:, :2], offer.factor[:, :2])
    assert int(policy.choose(key, state, data, named_offer).column) == 3
    absorb = jax.jit(policy.absorb)
    no = Outcome(*map(jnp.asarray, (2, 3, 0.0, False, True)))
    yes = no._replace(answered=jnp.asarray(True), refused=jnp.asarray(False))
    nothing = no._replace(refused=jnp.asarray(False))
    for outcome, sign in ((no, -1), (yes, 1), (nothing, 0)):
        moved = np.asarray(absorb(key, state, data, outcome, offer).chance) - chance
        assert (np.sign(np.round(moved[:, 3], 6)) == sign).all()
        np.testing.assert_array_equal(np.delete(moved, 3, axis=1), 0.0)


def test_weights_are_those_of_bayes():
    policy = heeding_silence(chooser(), draws=8)
    data, offer = asked_data()
    key = jax.random.key(1)

    @jax.jit
    def after():
        state = policy.refit(key, policy.init(key, data, offer), data, offer)
        for refused in (True, True, False):
            told = Outcome(*map(jnp.asarray, (1, 4, 0.0, not refused, refused)))
            state = policy.absorb(key, state, data, told, offer)
        return state

    state = after()
    columns, rows = (np.asarray(x, float) for x in (state.draws.columns, state.draws.rows))
    probit = columns[:, 4] + rows[:, 1]
    weights = stats.norm.cdf(-probit) ** 2 * stats.norm.cdf(probit)
    expected = weights @ stats.norm.cdf(columns[:, [4]] + rows) / weights.sum()
    np.testing.assert_allclose(state.chance[:, 4], expected, rtol=1e-4)


def test_rewards_and_gains_are_in_parts_of_the_chance():
    rng = np.random.default_rng(3)
    chance, mean = rng.uniform(0.2, 0.9, (3, 2)), 10.0 + rng.normal(size=(3, 2))
    certain = Offer(None, jnp.ones((3, 2), bool), jnp.full((3, 2), 0.5))
    np.testing.assert_allclose(expected_reward(certain, mean), 0.5 * mean, rtol=1e-6)
    np.testing.assert_array_equal(expected_gain(certain, mean), mean)
    offer = certain._replace(chance=jnp.asarray(chance))
    np.testing.assert_allclose(expected_reward(offer, mean), 0.5 * chance * mean, rtol=1e-6)
    np.testing.assert_allclose(expected_gain(offer, mean), chance * mean, rtol=1e-6)


TITLES = ["ids", "ids histogram", "ucb", "thompson", "thompson fresh"]


@pytest.mark.parametrize("title", TITLES)
def test_rules_ask_who_answers(title):
    """Where one column alone answers, and values are positive, it is chosen; inside the offer."""
    policy = make(title)
    rng = np.random.default_rng(1)
    seen = rng.random((5, 6)) < 0.5
    data = Observations.from_matrix(3.0 + rng.normal(size=(5, 6)), seen)
    chance = jnp.full((5, 6), 1e-4).at[:, 4].set(0.9)
    offer = Offer(None, jnp.ones((5, 6), bool), jnp.ones((5, 6)), chance)
    key = jax.random.key(2)

    @jax.jit
    def choices(key):
        state = policy.refit(key, policy.init(key, data, offer), data, offer)
        some = offer._replace(columns=jnp.asarray([5, 4, 3, 2, 1, 0]))
        some = some._replace(chance=chance[:, ::-1])
        return policy.choose(key, state, data, offer), policy.choose(key, state, data, some)

    for choice in choices(key):
        assert int(choice.column) == 4
        assert 0 <= int(choice.row) < 5


def test_a_policy_that_ignores_silence_has_the_settings_of_the_one_that_heeds_it():
    for name in ("ids", "thompson", "ids_gibbs"):
        assert named(name).heeds
        ignoring = named(f"{name}_ignoring")
        assert not ignoring.heeds
        assert ignoring.settings == POLICIES[name].settings
        assert ignoring.groups[0] == name
    with pytest.raises(ValueError, match="unknown policy 'nobody_ignoring'"):
        named("nobody_ignoring")


def test_certain_answers_leave_the_chances_high():
    data = Observations.from_matrix(np.ones((8, 9)), np.ones((8, 9), bool))
    start = response.Response.start(8, 9)
    settings = {"draws": 8, "sweeps": 2, "first": 100}
    asks = response.Asks.of(data)
    draws = jax.jit(lambda key: response.sample_response(key, start, asks, **settings))(
        jax.random.key(0)
    )
    assert (response.mean_chance(draws, jnp.zeros((8, 9))) > 0.85).all()
