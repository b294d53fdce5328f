"""A belief that holds a fit which was made elsewhere."""

import chex
import jax
import pytest
from problems import low_rank_data

from smc_jax import presets
from smc_jax.beliefs.base import parameter_draws
from smc_jax.beliefs.held import held, held_draws


def test_it_is_the_fit_that_was_handed_over_whatever_comes():
    belief = presets.fitted_belief(rank=2, first_steps=10, steps=10, window=5)
    data, more = (low_rank_data(seed, rows=5, columns=6, rank=2) for seed in (0, 1))
    key = jax.random.key(0)
    fit = belief.refit(key, belief.init(key, data), data)
    kept = held(belief)
    state = kept.refit(key, kept.init(key, more, fit), more)
    chex.assert_trees_all_equal(state, fit)
    chex.assert_trees_all_equal(kept.draw(key, state), belief.draw(key, fit))
    chex.assert_trees_all_equal(kept.diagnose(state), belief.diagnose(fit))


def test_it_must_be_handed_a_fit():
    belief = held(presets.fitted_belief(rank=2))
    with pytest.raises(ValueError, match=r"^prior: a held belief needs the state"):
        belief.init(jax.random.key(0), low_rank_data(0, rows=5, columns=6, rank=2))


def test_draws_that_were_handed_over_are_each_taken_once():
    fitted = presets.fitted_belief(rank=2, first_steps=10, steps=10, window=5)
    data = low_rank_data(0, rows=5, columns=6, rank=2)
    key = jax.random.key(0)
    draws = parameter_draws(key, fitted, fitted.init(key, data), 6)
    belief = held_draws()
    state = belief.refit(key, belief.init(key, data, draws), data)
    chex.assert_trees_all_equal(state, draws)
    taken = parameter_draws(jax.random.key(1), belief, state, 6)
    assert sorted(taken.sigma.tolist()) == sorted(draws.sigma.tolist())
    assert len(set(draws.sigma.tolist())) == 6
    assert float(belief.draw(key, state).sigma) in draws.sigma.tolist()
    assert bool(belief.diagnose(state).finite)
