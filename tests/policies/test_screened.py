"""Policies that keep some columns against the same ones that keep all."""

import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import make_problem

from smc_jax import presets
from smc_jax.data.synthetic import synthetic
from smc_jax.policies import bounds, ensemble
from smc_jax.policies.ensemble_policy import summaries
from smc_jax.policies.greedy import greedy
from smc_jax.policies.ids import ids
from smc_jax.policies.ucb import ucb
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.sweep import make_sweep
from smc_jax.types import Offer

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


def told_problem(seed):
    """Draws that differ, some entries seen, and offers with factors."""
    problem = make_problem(seed, rows=9, columns=20, rank=3, intercepts=True, repeats=True)
    keys = jax.random.split(jax.random.key(seed), 5)

    def perturbed(key):
        noise = 0.4 * jax.random.normal(key, problem.parameters.loadings.shape)
        return problem.parameters._replace(loadings=problem.parameters.loadings + noise)

    factor = jax.random.uniform(keys[0], (9, 20)) * (jax.random.uniform(keys[1], (9, 20)) < 0.8)
    is_open = jax.random.uniform(keys[2], (9, 20)) < 0.7
    return jax.vmap(perturbed)(keys), problem.observations, Offer(None, is_open, factor)


@pytest.mark.parametrize("name", [*RULES])
def test_no_score_is_above_its_bound(name, monkeypatch):
    monkeypatch.setattr(bounds, "BOUNDED", 5 * 4 * 6)
    monkeypatch.setattr(bounds, "ROWS", 4)
    rules = []
    own = importlib.import_module(f"smc_jax.policies.{name}")
    monkeypatch.setattr(own, "on_ensemble", lambda belief, rule, **settings: rules.append(rule))
    RULES[name](None)
    for seed in range(5):
        draws, data, offer = told_problem(seed)
        members = ensemble.start(jax.random.key(9), draws, data)
        for shared in (0.5, 3.0) if name == "ids" else ((),):  # R*
            shared = jnp.asarray(shared) if name == "ids" else shared
            exact = summaries(rules[0], members, data, offer, shared)
            found = bounds.bounds(rules[0], draws, data, offer, shared)
            pairs = zip(jax.tree.leaves(exact), jax.tree.leaves(found), strict=True)
            for one, bound in itertools.islice(pairs, 0, None, 2):  # scores, not rows
                one, bound = np.asarray(one), np.asarray(bound)
                finite = np.isfinite(one)
                assert finite.any()
                slack = 1e-5 * np.abs(one[finite])
                assert (bound[finite] >= one[finite] - slack).all()
                np.testing.assert_array_equal(np.isneginf(one), np.isneginf(bound))


def test_several_choices_before_an_outcome_are_different_entries():
    environment = make_environment(synthetic(rows=12, columns=30, true_rank=2), initial=40)
    for how in ({"asked": 4}, {"told": "at_refits"}):
        policy = greedy(BELIEF, draws=8, kept=7)
        loop = make_loop(environment, policy, horizon=40, refits=2, **how)
        sweep = make_sweep(loop, devices=jax.devices()[:1])
        *_, last = sweep.resume(sweep.start([1000]))
        entries = list(zip(last.steps.row[0], last.steps.column[0], strict=True))
        assert np.asarray(last.steps.valid).all()
        assert len(set(entries)) == len(entries) == 40


@pytest.mark.parametrize(
    "settings", [{"scope": "covariance"}, {"gain": "variance"}, {"conditioned": False}]
)
def test_rules_whose_scores_may_fall_with_the_variance_are_refused(settings):
    with pytest.raises(ValueError, match=r"^kept: this rule needs the state of every column"):
        ids(BELIEF, kept=7, **settings)
