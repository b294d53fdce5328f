"""Conformance of every policy, and what only some of them do."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax import beliefs, environment, inference, start
from smc_jax.data.synthetic import synthetic
from smc_jax.model import gamma_process
from smc_jax.policies import POLICIES, Policy, Setting
from smc_jax.policies.base import best_available
from smc_jax.types import Observations, Outcome, View

ROWS, COLUMNS = 5, 6
SMALL = {
    "ids": {"draws": 4},
    "greedy": {"draws": 4},
    "optspace": {"rank": 2, "steps": 5},
    "particle": {"particles": 4, "rank": 2},
    "icf": {"rank": 2, "draws": 3, "sweeps": 1, "first_sweeps": 3},
}
RULES = [(0.0, True), (0.0, False), (0.5, True), (0.5, False), (1.0, True), (1.0, False)]


def fitted_setting():
    model = gamma_process(rank=2)
    svi = inference.svi(model=model, optimiser=inference.adam(), window=5)
    belief = beliefs.variational(model, start.spectral(model), svi, first_steps=10, steps=5)
    return Setting(belief, entry_noise=True)


@functools.cache
def compiled(name):
    """The policy, the policy with every function under jit, and how often each was traced."""
    policy = POLICIES[name](fitted_setting(), **SMALL.get(name, {}))
    traces = collections.Counter()

    def counted(field):
        def function(*arguments):
            traces[field] += 1
            return getattr(policy, field)(*arguments)

        return jax.jit(function)

    return policy, Policy(*map(counted, Policy._fields)), traces


look = jax.jit(environment.look, static_argnames=("beta", "once"))


@functools.cache
def begin(beta, once):
    problem = synthetic(rows=ROWS, columns=COLUMNS, true_rank=2)(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1))
    return problem, environment.initial_design(*keys, problem, size=8, beta=beta, once=once)


def play(policy, *, beta, once, batches=2, picks=3):
    """A short run: the states after each call, and the views and choices."""
    problem, world = begin(beta, once)
    keys = iter(jax.random.split(jax.random.key(2), 1 + batches * (1 + 2 * picks)))
    states = [policy.init(next(keys), world.view, problem)]
    views, choices = [], []
    for _ in range(batches):
        states.append(policy.refit(next(keys), states[-1], world.view))
        for _ in range(picks):
            choices.append(policy.choose(next(keys), states[-1], world.view))
            views.append(world.view)
            world, outcome, *_ = look(
                jax.random.key(3), problem, world, choices[-1], beta=beta, once=once
            )
            states.append(policy.absorb(next(keys), states[-1], world.view, outcome))
    return states, views, choices


@pytest.mark.parametrize("name", POLICIES)
def test_policies_conform(name):
    """States keep their shapes, choices are available, and nothing is traced twice."""
    _, policy, traces = compiled(name)
    for beta, once in RULES:
        states, views, choices = play(policy, beta=beta, once=once)
        chex.assert_trees_all_equal_shapes_and_dtypes(*states)
        for now, choice in zip(views, choices, strict=True):
            assert choice.shape == ()
            assert jnp.issubdtype(choice.dtype, jnp.integer)
            assert now.available.ravel()[choice]
        diagnostics = policy.diagnose(states[-1])
        chex.assert_shape(list(diagnostics), ())
        assert diagnostics.finite
        _, _, again = play(policy, beta=beta, once=once)
        assert again == choices  # a function of the key
    assert set(traces.values()) == {1}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_keep_to_what_is_available(name):
    _, policy, _ = compiled(name)
    states, views, _ = play(policy, beta=0.5, once=False)
    rng = np.random.default_rng(0)
    masks = [rng.uniform(size=(ROWS, COLUMNS)) < 0.3 for _ in range(4)]
    masks += list(np.eye(ROWS * COLUMNS, dtype=bool).reshape(-1, ROWS, COLUMNS)[::7])
    for number, mask in enumerate(masks):
        now = views[-1]._replace(available=jnp.asarray(mask))
        key = jax.random.key(number)
        refitted = policy.refit(key, states[-1], now)
        # Live policies keep the best of each column: another view is another refit.
        for state in (refitted,) if name in ("ids", "greedy") else (states[-1], refitted):
            assert mask.ravel()[policy.choose(key, state, now)]


@pytest.mark.parametrize("name", POLICIES)
def test_choices_are_the_same_without_jit(name):
    plain, policy, _ = compiled(name)
    states, views, _ = play(policy, beta=0.5, once=False)
    for key in jax.random.split(jax.random.key(4), 3):
        fast = policy.choose(key, states[-2], views[-1])
        assert plain.choose(key, states[-2], views[-1]) == fast


def test_optspace_chooses_the_best_entry_of_the_completion_until_the_refit():
    rng = np.random.default_rng(0)
    matrix = np.outer(rng.uniform(1, 2, 12), rng.normal(size=15))
    seen = rng.uniform(size=matrix.shape) < 0.5
    mask = jnp.asarray(seen)
    view = View(Observations.from_matrix(matrix, mask), ~mask, jnp.ones(matrix.shape))
    policy = POLICIES["optspace"](fitted_setting(), rank=1)
    state = policy.refit(jax.random.key(0), policy.init(jax.random.key(1), view, None), view)
    np.testing.assert_allclose(state.matrix, matrix, atol=1e-3)
    order = np.argsort(np.where(seen, np.inf, -matrix), axis=None)
    for expected in order[:3]:
        choice = policy.choose(jax.random.key(2), state, view)
        assert choice == expected
        row, column = divmod(int(choice), 15)
        view = view._replace(available=view.available.at[row, column].set(False))
        outcome = Outcome(*map(jnp.asarray, (row, column, -99.0, 1.0)))
        state = policy.absorb(jax.random.key(3), state, view, outcome)


def test_a_score_that_is_not_a_number_is_no_choice():
    available = jnp.asarray([[True, True], [False, True]])
    reward = jnp.asarray([[1.0, 3.0], [9.0, 2.0]])
    assert best_available(reward, available) == 1
    assert best_available(reward.at[0, 0].set(jnp.nan), available) == -1


@pytest.mark.parametrize(
    "name",
    [
        "thompson",
        "empirical",
        "oracle",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("particle", "icf")),
    ],
)
def test_draws_have_the_noise_of_an_entry_where_it_is_asked_for(name):
    problem, world = begin(0.0, True)

    def choices(*, entry_noise, noisy):
        setting = fitted_setting()._replace(entry_noise=entry_noise)
        policy = POLICIES[name](setting, noisy=noisy, **SMALL.get(name, {}))

        @jax.jit
        def choice(key):
            init_key, refit_key, choose_key = jax.random.split(key, 3)
            state = policy.init(init_key, world.view, problem)
            return policy.choose(choose_key, policy.refit(refit_key, state, world.view), world.view)

        return [int(choice(jax.random.key(number))) for number in range(12)]

    without = choices(entry_noise=True, noisy=False)
    assert without == choices(entry_noise=False, noisy=True)
    assert without != choices(entry_noise=True, noisy=True)


@pytest.mark.parametrize("name", [pytest.param("particle", marks=pytest.mark.slow), "icf"])
def test_standardised_models_choose_alike_in_any_units(name):
    """The first choices on values 20 + 8 y are those on y, though the models have fixed scales."""

    def choices(centre, scale):
        policy = POLICIES[name](fitted_setting()._replace(standardise=True), **SMALL[name])
        entries = centre + scale * np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
        made = environment.Problem(
            jnp.asarray(entries), jnp.zeros(()), jnp.ones(entries.shape, bool), None
        )
        world = environment.initial_design(
            jax.random.key(1), jax.random.key(2), made, size=12, beta=0.0, once=True
        )
        now = world.view
        state = policy.refit(jax.random.key(3), policy.init(jax.random.key(4), now, made), now)
        chosen = []
        for number in range(4):
            key = jax.random.fold_in(jax.random.key(5), number)
            chosen.append(int(policy.choose(key, state, world.view)))
            world, outcome, *_ = look(
                jax.random.key(2), made, world, chosen[-1], beta=0.0, once=True
            )
            state = policy.absorb(key, state, world.view, outcome)
        return chosen

    assert choices(20.0, 8.0) == choices(0.0, 1.0)


def test_optspace_completes_what_deviates_from_the_row_means():
    rng = np.random.default_rng(1)
    means = np.arange(10.0)[:, None]
    table = means + 3.0 * np.outer(rng.choice([-1, 1], 10), rng.choice([-1, 1], 300))
    view = View(
        Observations.from_matrix(jnp.asarray(table), jnp.asarray(rng.random(table.shape) < 0.5)),
        jnp.ones(table.shape, bool),
        jnp.ones(table.shape),
    )
    policy = POLICIES["optspace"](fitted_setting(), rank=1, centred=True)
    state = policy.refit(jax.random.key(0), policy.init(jax.random.key(0), view, None), view)
    np.testing.assert_allclose(state.matrix, table, atol=0.6)  # the means are estimates


@pytest.mark.parametrize("field", ["scope", "gain", "selection"])
def test_unknown_settings_are_named(field):
    with pytest.raises(ValueError, match=rf"ids\.{field}.*nonsense"):
        POLICIES["ids"](fitted_setting(), **{field: "nonsense"})
