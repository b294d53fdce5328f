"""What an oracle was told is what it believes."""

import chex
import jax
import pytest
from problems import make_problem

from smc_jax import priors
from smc_jax.beliefs.told import told
from smc_jax.model.answers import Answers

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


def test_who_answers_is_neither_told_nor_saved(tmp_path):
    parameters, observations, _ = make_problem(0)
    known = parameters._replace(answers=Answers.start(observations))
    for refused in (
        lambda: BELIEF.init(jax.random.key(0), observations, known),
        lambda: priors.save(tmp_path / "prior.npz", known),
    ):
        with pytest.raises(ValueError, match=r"^prior: [^\n]*prior._replace\(answers=None\)$"):
            refused()
    assert not (tmp_path / "prior.npz").exists()
    without = known._replace(answers=None)
    BELIEF.init(jax.random.key(0), observations, without)
    priors.save(tmp_path / "prior.npz", without)
