"""Policies that keep some columns against the same ones that keep all."""

import jax
import numpy as np
import pytest

from smc_jax import presets
from smc_jax.data.synthetic import synthetic
from smc_jax.policies import bounds
from smc_jax.policies.greedy import greedy
from smc_jax.policies.ids import ids
from smc_jax.policies.ucb import ucb
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.sweep import make_sweep

BELIEF = presets.fitted_belief(rank=3, first_steps=100, steps=30)
RULES = {"ids": ids, "greedy": greedy, "ucb": ucb}
# Rows in chunks of 5, of which the last overlaps, and columns in blocks of 8 of 30.
SMALL = {"ROWS": 5, "BOUNDED": 5 * 8 * 8}


def curves(policy, *, seeds=(1000, 1001)):
    environment = make_environment(synthetic(rows=12, columns=30, true_rank=2), initial=40)
    loop = make_loop(environment, policy, horizon=120, refits=4)
    sweep = make_sweep(loop, devices=jax.devices()[:1])
    *_, last = sweep.resume(sweep.start(seeds))
    return last.steps


@pytest.mark.parametrize(("name", "kept"), [("ids", 2), ("ids", 30), ("greedy", 7), ("ucb", 7)])
def test_choices_are_those_of_all_columns(name, kept, monkeypatch):
    for constant, value in SMALL.items():
        monkeypatch.setattr(bounds, constant, value)
    more = {"best_of": 8} if name == "ids" else {}
    whole = curves(RULES[name](BELIEF, draws=8, **more))
    some = curves(RULES[name](BELIEF, draws=8, kept=kept, **more))
    assert np.asarray(some.valid).all()
    np.testing.assert_array_equal(some.row, whole.row)
    np.testing.assert_array_equal(some.column, whole.column)
