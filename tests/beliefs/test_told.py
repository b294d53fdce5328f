"""What an oracle was told is what it believes."""

import chex
import jax
import pytest
from problems import make_problem

from smc_jax.beliefs.told import told

BELIEF = told()


def test_no_data_change_what_was_told():
    parameters, observations, _ = make_problem(0)
    state = BELIEF.init(jax.random.key(0), observations, parameters)
    state = BELIEF.refit(jax.random.key(1), state, make_problem(1).observations)
    chex.assert_trees_all_equal(BELIEF.draw(jax.random.key(2), state), parameters)
    assert BELIEF.point
    assert BELIEF.diagnose(state).finite


@pytest.mark.parametrize("prior", [None, 1.0, ()])
def test_an_oracle_must_be_told_parameters(prior):
    observations = make_problem(0).observations
    with pytest.raises(ValueError, match=r"^prior: an oracle must be told .*; give a Parameters"):
        BELIEF.init(jax.random.key(0), observations, prior)
