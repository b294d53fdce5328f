"""The loop of matrices that are nowhere written down, against the same picks on dense arrays."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax import presets
from smc_jax.looks import Looks
from smc_jax.observations import Observations
from smc_jax.policies.greedy import greedy
from smc_jax.policies.ids import ids
from smc_jax.policies.random import random
from smc_jax.simulation import large
from smc_jax.types import Offer, Outcome

ROWS, COLUMNS, PICKS, BATCHES = 14, 40, 25, 3
# The spectral start of lists is another one than that of a dense matrix.
BELIEF = presets.fitted_belief(rank=3, start="random", first_steps=100, steps=30)


def problem(seed=0, number=120):
    rng = np.random.default_rng(seed)
    matrix = large.Factored(
        jnp.asarray(rng.normal(size=ROWS), float),
        jnp.asarray(rng.uniform(size=(ROWS, 2)), float),
        jnp.asarray(rng.normal(size=(COLUMNS, 2)), float),
        jnp.asarray(0.3, float),
    )
    entries = rng.permutation(ROWS * COLUMNS)[:number]
    row, column = np.divmod(entries, COLUMNS)
    value = np.asarray(matrix.at(row, column)) + 0.3 * rng.normal(size=number)
    return matrix, large.Lists(row, column, value)


def dense(lists):
    values, mask = np.zeros((ROWS, COLUMNS)), np.zeros((ROWS, COLUMNS), bool)
    values[lists.row, lists.column], mask[lists.row, lists.column] = lists.value, True
    return Observations.from_matrix(values, mask)


def picks_of_dense(key, matrix, lists, policy):
    """What `large.run` does, pick by pick on whole matrices; rows and columns of the picks."""
    init_key, noise_key, key = jax.random.split(key, 3)
    data = dense(lists)

    def offer(data):
        return Offer(None, ~data.seen(), jnp.ones((ROWS, COLUMNS)))

    state, found = policy.init(init_key, data, offer(data)), []
    refit, choose, absorb = map(jax.jit, (policy.refit, policy.choose, policy.absorb))
    for number in range(BATCHES):
        refit_key, pick_key = jax.random.split(jax.random.fold_in(key, number))
        state = refit(refit_key, state, data, offer(data))
        for one in jax.random.split(pick_key, PICKS):
            choose_key, absorb_key = jax.random.split(one)
            choice = choose(choose_key, state, data, offer(data))
            value = matrix.answer(noise_key, *choice)
            data = data.add(*choice, value, 1.0)
            outcome = Outcome(*choice, value, jnp.ones((), bool))
            state = absorb(absorb_key, state, data, outcome, offer(data))
            found.append([int(x) for x in choice])
    return np.array(found).T


@pytest.mark.usefixtures("x64")  # a fit would make differences of float32's rounding larger
@pytest.mark.parametrize("rule", [ids, greedy])
def test_picks_are_those_of_the_dense_matrix_that_keeps_all_columns(rule):
    matrix, lists = problem()
    key, settings = jax.random.key(1000), {"best_of": 5} if rule is ids else {}
    few = rule(BELIEF, draws=6, kept=7, **settings)
    filled = large.looks_of(ROWS, COLUMNS, groups=4, width=4)
    run = large.run(key, matrix, lists, few, picks=PICKS, batches=BATCHES, filled=filled)
    steps = [batch.steps for batch in run]
    row, column = (np.concatenate([step[i] for step in steps]) for i in (0, 1))
    expected = picks_of_dense(key, matrix, lists, rule(BELIEF, draws=6, **settings))
    np.testing.assert_array_equal([row, column], expected)
    assert len({*zip(row, column, strict=True)}) == PICKS * BATCHES
    assert not {*zip(row, column, strict=True)} & {*zip(lists.row, lists.column, strict=True)}


def test_refits_and_picks_of_all_batches_are_compiled_once(caplog):
    matrix, lists = problem()
    policy = greedy(BELIEF, draws=3, kept=7)
    with jax.log_compiles():
        run = large.run(jax.random.key(0), matrix, lists, policy, picks=5, batches=3)
        assert len(list(run)) == 3
    compiled = [one.getMessage() for one in caplog.records if "Finished XLA" in one.getMessage()]
    for name in ("jit(refit)", "jit(choose)"):
        assert sum(name in text for text in compiled) == 1


@pytest.mark.parametrize("policy", [greedy(BELIEF), random()])
def test_policies_that_need_the_whole_matrix_are_refused_with_the_remedy(policy):
    matrix, lists = problem()
    with pytest.raises(ValueError, match=r"^policy: [^\n]* give ids, greedy or ucb `kept`"):
        next(large.run(jax.random.key(0), matrix, lists, policy, picks=1))


@pytest.mark.parametrize("horizon", [1, 17, 60])
def test_the_best_sequence_is_that_of_a_sort(horizon, monkeypatch):
    monkeypatch.setattr(large, "BLOCK", 3 * ROWS)
    matrix, lists = problem(1)
    looks = large.looks_of(ROWS, COLUMNS)(lists, None)
    assert looks.groups == -(-COLUMNS // 3)
    entries = np.array(matrix.of(jnp.arange(COLUMNS)), float)
    entries[lists.row, lists.column] = -np.inf
    found = large.best_rewards(matrix, looks, horizon)
    np.testing.assert_allclose(found, np.sort(entries.ravel())[::-1][:horizon], rtol=1e-6)


def test_more_picks_than_there_are_entries_are_worth_nothing():
    matrix, lists = problem(2, number=ROWS * COLUMNS - 3)
    looks = large.looks_of(ROWS, COLUMNS)(lists, None)
    found = np.asarray(large.best_rewards(matrix, looks, 5))
    assert np.isfinite(found).tolist() == [True] * 3 + [False] * 2


def test_a_sequence_that_nobody_can_sort_is_refused(monkeypatch):
    monkeypatch.setattr(large, "MOST", 10 * ROWS)
    matrix, lists = problem()
    looks = large.looks_of(ROWS, COLUMNS)(lists, None)
    with pytest.raises(ValueError, match=r"^horizon: [^\n]* take at most 10$"):
        large.best_rewards(matrix, looks, 11)


def test_looks_at_some_columns_are_the_same_group_by_group_and_at_once():
    _, lists = problem(3)
    looks = large.looks_of(ROWS, COLUMNS, groups=6, width=4)(lists, None)
    whole = dense(lists)
    for columns in ([7], [3, 39, 3, 0], list(range(20))):  # fewer than groups, and more
        index = jnp.asarray(columns)
        found, expected = looks.at_columns(index), whole.at_columns(index)
        chex.assert_trees_all_close(found, expected, atol=1e-6)
    assert isinstance(looks, Looks)
