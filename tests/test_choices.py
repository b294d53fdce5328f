"""The choices of thompson, greedy and ids against dense float64 references."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import dense_entries, make_problem
from scipy import stats

from smc_jax import beliefs, environment, information
from smc_jax.policies import POLICIES, Setting
from smc_jax.policies.base import Best
from smc_jax.policies.ids import GAINS, SCOPES, SELECTIONS, Champions, information_directed
from smc_jax.policies.oracle import truth
from smc_jax.policies.thompson import point_sampling
from smc_jax.types import Outcome, View

KNOWN = beliefs.known(truth)


def told(problem):
    """What an oracle may look at: here the parameters alone."""
    return environment.Problem(entries=None, noise=None, available=None, truth=problem.parameters)


def seen_problem(rows=4, columns=3, intercepts=True):
    """Known parameters, a few looks, and the view that goes with them."""
    problem = make_problem(
        3, rows=rows, columns=columns, rank=2, intercepts=intercepts, repeats=False
    )
    mask = np.asarray(problem.observations.count) == 0
    mask[0, 1] = True  # a repeat
    discount = np.where(mask & (np.asarray(problem.observations.count) > 0), 0.5, 1.0)
    view = View(problem.observations, jnp.asarray(mask), jnp.asarray(discount, float))
    return problem, view


@pytest.mark.parametrize("entry_noise", [True, False])
@pytest.mark.parametrize("kind", ["oracle", "redrawn", "thompson"])
def test_thompson_chooses_an_entry_as_often_as_it_is_best(kind, entry_noise):
    """From draws that were conditioned on the last look, or drawn anew after it."""
    problem, view = seen_problem(intercepts=False)
    policy = {
        "oracle": POLICIES["oracle"](Setting(KNOWN, entry_noise)),
        "redrawn": point_sampling(KNOWN, entry_noise=entry_noise, at_once=1),
        "thompson": POLICIES["thompson"](Setting(KNOWN, True), noisy=entry_noise),
    }[kind]
    last = Outcome(*map(jnp.asarray, (2, 1)), problem.observations.total[2, 1], jnp.ones(()))
    before = view._replace(observations=view.observations.add(*last._replace(weight=-last.weight)))
    state = policy.init(jax.random.key(0), before, told(problem))

    def choice(key):
        refit_key, absorb_key, choose_key = jax.random.split(key, 3)
        refitted = policy.refit(refit_key, state, before)
        absorbed = policy.absorb(absorb_key, refitted, view, last)
        return policy.choose(choose_key, absorbed, view)

    choices = jax.jit(jax.vmap(choice))(jax.random.split(jax.random.key(1), 5000))

    rng = np.random.default_rng(2)
    count = np.asarray(problem.observations.count)
    matrix = np.zeros((400_000, *count.shape))
    for n, (rows, values) in enumerate(problem.looks):
        mean, covariance = dense_entries(problem.parameters, rows, values)
        matrix[:, :, n] = rng.multivariate_normal(mean, covariance, 400_000)
    if entry_noise:
        matrix += problem.parameters.sigma.item() * rng.normal(size=matrix.shape)
        matrix = np.where(count > 0, np.asarray(problem.observations.total), matrix)
    reward = np.where(view.available, np.asarray(view.discount) * matrix, -np.inf)
    best = reward.reshape(len(reward), -1).argmax(1)
    probability = np.bincount(best, minlength=count.size) / len(best)
    frequency = np.bincount(choices, minlength=count.size)
    assert (frequency[~np.asarray(view.available).ravel()] == 0).all()
    common = probability > 0.01
    assert common.sum() >= 4
    cells = np.append(probability[common], probability[~common].sum())
    counts = np.append(frequency[common], frequency[~common].sum())
    # Chi-square at 0.001: fails for about 0.1 % of the seeds.
    assert stats.chisquare(counts[cells > 0], 5000 * cells[cells > 0]).pvalue > 1e-3


LOOKS = [(1, 0, 1.3), (2, 2, -0.4), (3, 0, 0.9), (0, 0, 2.0), (1, 0, 0.7)]


def absorb_all(policy, problem, view):
    """Refits, then absorbs LOOKS, each a first or repeated look; returns the state and view."""
    state = policy.init(jax.random.key(0), view, told(problem))
    state = policy.refit(jax.random.key(1), state, view)
    absorb = jax.jit(policy.absorb)
    looks = [(list(rows), list(values)) for rows, values in problem.looks]
    for number, (row, column, value) in enumerate(LOOKS):
        looks[column][0].append(row)
        looks[column][1].append(value)
        view = View(
            view.observations.add(row, column, value, 1.0),
            view.available.at[row, column].set(number % 2 == 0),
            view.discount.at[row, column].multiply(0.5),
        )
        outcome = Outcome(*map(jnp.asarray, (row, column, value, 1.0)))
        state = absorb(jax.random.fold_in(jax.random.key(2), number), state, view, outcome)
    return state, view, [(np.array(rows, int), np.array(values)) for rows, values in looks]


def dense_moments(parameters, looks):
    """Means and variances [D, N] of all entries, without noise."""
    moments = [dense_entries(parameters, rows, values) for rows, values in looks]
    return (
        np.stack([mean for mean, _ in moments], axis=1),
        np.stack([np.diag(covariance) for _, covariance in moments], axis=1),
    )


def jittered(scale):
    """Draws around the truth; the known belief where the scale is 0."""

    def draw(key, truth):
        factor = jnp.exp(scale * jax.random.normal(key, truth.loadings.shape))
        sigma = truth.sigma * jnp.exp(scale * jax.random.normal(key))
        return truth._replace(loadings=truth.loadings * factor, sigma=sigma)

    return KNOWN._replace(draw=draw)


def test_greedy_chooses_the_best_posterior_mean():
    problem, view = seen_problem()
    policy = POLICIES["greedy"](Setting(KNOWN, True), draws=2)
    state, view, looks = absorb_all(policy, problem, view)
    mean, _ = dense_moments(problem.parameters, looks)
    reward = np.where(view.available, np.asarray(view.discount) * mean, -np.inf)
    np.testing.assert_allclose(state.summary.score, reward.max(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(state.summary.row, reward.argmax(0))
    assert policy.choose(jax.random.key(3), state, view) == reward.argmax()


def samples_of(members):
    """Each draw's matrix [S, D, N]."""
    samples = np.einsum("sdk,snk->sdn", members.parameters.loadings, members.column.sample)
    return samples + np.asarray(members.parameters.intercepts)[:, :, None]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_scores_after_several_looks_are_those_from_scratch(scope, scale):
    problem, view = seen_problem()
    policy = information_directed(jittered(scale), draws=5, scope=scope)
    state, view, looks = absorb_all(policy, problem, view)
    members = state.ensemble
    each = [jax.tree.map(lambda x, s=s: x[s], members.parameters) for s in range(5)]
    moments = [dense_moments(parameters, looks) for parameters in each]
    mean, variance = (np.stack(moment) for moment in zip(*moments, strict=True))
    noise = np.asarray(members.parameters.sigma, np.float64)[:, None, None] ** 2
    left = noise + 0 * variance if scope == "matrix" else noise + variance
    total = (variance + noise).mean(0) + mean.var(0)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)
    gain = 0.5 * np.log(np.maximum(total, left.min()) / np.exp(np.log(left).mean(0)))
    gain = np.maximum(gain, 0.0)
    # The mixture of two actions keeps the scores of all entries.
    mixing = information_directed(jittered(scale), draws=5, scope=scope, selection="two_action")
    scores = absorb_all(mixing, *seen_problem())[0].summary
    close(scores.mean, mean.mean(0))
    close(scores.gain, gain)

    available = np.asarray(view.available)
    expected = np.where(available, np.asarray(view.discount) * mean.mean(0), -np.inf)
    directed, greedy = state.summary
    close(greedy.score, expected.max(0))
    np.testing.assert_array_equal(greedy.row, expected.argmax(0))
    regret = max(float(state.fixed), expected.max()) - expected
    # Draws that are all alike leave nothing to learn of the covariance: the least regret then.
    if scope == "covariance" and scale == 0.0:
        target = regret
        assert np.isneginf(directed.score).all()
    else:
        target = np.where(available, regret**2 / gain, np.inf)
        assert state.fixed > expected.max()
        np.testing.assert_allclose(directed.score, -target.min(0), rtol=1e-3)
        np.testing.assert_array_equal(directed.row, target.argmin(0))
    choice = policy.choose(jax.random.key(3), state, view)
    assert choice == np.where(available, target, np.inf).argmin()


def test_the_best_of_the_columns_is_the_choice_over_all_entries():
    """Small numbers, so that ties, entries without regret and nothing to learn are common."""

    @jax.jit
    def by_columns(reward, gain, available, optimum):
        champions = jax.vmap(Champions.of_column, in_axes=(1, 1, 1, None))
        return champions(reward, gain, available, optimum).choice(optimum)

    @jax.jit
    def over_all(reward, gain, available, optimum):
        attainable = jnp.where(available, reward, -jnp.inf).max()
        regret = jnp.maximum(optimum, attainable) - reward
        return information.deterministic_choice(*(x.ravel() for x in (regret, gain, available)))

    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(500):
        reward = rng.integers(-2, 3, (4, 5)).astype(np.float32)
        gain = np.maximum(rng.integers(-3, 3, (4, 5)), 0) * np.float32(rng.integers(0, 2))
        available = rng.random((4, 5)) < rng.choice([0.1, 0.4, 1.0])
        available[:, rng.integers(5)] = False
        available[rng.integers(4), 0] = True
        optimum = np.float32(rng.integers(-2, 5))
        choice = by_columns(reward, gain, available, optimum)
        assert choice == over_all(reward, gain, available, optimum)
        without_regret = optimum <= reward[available].max()
        kinds.add((bool(without_regret), bool((gain[available] > 0).any())))
    assert len(kinds) == 4
    for broken in ((np.nan * reward, gain, optimum), (reward, np.nan * gain, optimum)):
        assert by_columns(broken[0], broken[1], available, broken[2]) == -1
    assert by_columns(reward, 0 * gain, available, np.float32(np.nan)) == -1


def test_ties_go_to_the_first_entry_and_nan_is_reported():
    score = jnp.asarray([[1.0, 3.0, 0.0], [3.0, 2.0, 3.0]])
    available = jnp.asarray([[True, False, True], [True, True, True]])
    columns = jax.vmap(Best.of_column, in_axes=1)
    assert columns(score, jnp.ones((2, 3), bool)).choice() == 1
    assert columns(score, available).choice() == 3
    assert columns(score.at[0, 1].set(jnp.nan), available).choice() == -1


@pytest.mark.parametrize(("best_of", "spread"), [(1, 2.0), (5, 2.0), (10_000, 0.1)])
def test_regret_is_measured_from_the_average_of_the_best(best_of, spread):
    """R* is found at the refit, over what is available, and the choice follows from it."""
    problem, view = seen_problem(rows=6, columns=5)
    available = np.asarray(view.available)
    assert 5 < available.sum() < 10_000

    def refitted(**settings):
        policy = information_directed(jittered(spread), draws=8, best_of=best_of, **settings)
        state = policy.init(jax.random.key(0), view, told(problem))
        state = policy.refit(jax.random.key(1), state, view)
        return state, policy.choose(jax.random.key(3), state, view)

    state, choice = refitted()
    reward = np.where(available, np.asarray(view.discount) * samples_of(state.ensemble), -np.inf)
    best = np.sort(reward.reshape(8, -1), axis=1)[:, -min(best_of, available.sum()) :]
    np.testing.assert_allclose(state.fixed, best.mean(), rtol=1e-4)
    scores = refitted(selection="two_action")[0].summary
    expected = np.where(available, np.asarray(view.discount) * scores.mean, -np.inf)
    if best_of > 5:  # the average of all entries is below what can be had: greedy
        assert best.mean() < expected.max()
        assert choice == expected.argmax()
    else:
        assert best.mean() > expected.max()
        ratio = np.where(available, (best.mean() - expected) ** 2 / scores.gain, np.inf)
        assert choice == ratio.argmin() != expected.argmax()


@pytest.mark.parametrize("gain", ["histogram", "variance"])
@pytest.mark.parametrize("scope", SCOPES)
def test_gains_are_pruned_without_another_choice(scope, gain):
    """Frozen ratios are those of all entries; conditioned ones are made where they can be least."""
    problem, view = seen_problem(rows=6, columns=5)
    choices = []
    for conditioned in (True, False):
        policy = information_directed(
            jittered(2.0), draws=16, scope=scope, gain=gain, conditioned=conditioned
        )

        @jax.jit
        def choice(key, policy=policy):
            state = policy.init(key, view, told(problem))
            return policy.choose(key, policy.refit(key, state, view), view)

        choices.append([int(choice(jax.random.key(number))) for number in range(15)])
    assert choices[0] == choices[1]
    assert len(set(choices[0])) > 1


@pytest.mark.parametrize("gain", ["histogram", "variance"])
@pytest.mark.parametrize("scope", SCOPES)
def test_every_pick_is_that_of_all_gains_anew(scope, gain):
    """Bounds and each draw's best entries are kept column by column: none must be out of date."""
    problem, view = seen_problem(rows=6, columns=5)
    policy = information_directed(jittered(2.0), draws=16, scope=scope, gain=gain)
    choose, absorb = jax.jit(policy.choose), jax.jit(policy.absorb)
    state = policy.init(jax.random.key(0), view, told(problem))
    state = policy.refit(jax.random.key(1), state, view)
    for key in jax.random.split(jax.random.key(2), 12):
        mean, variance = jax.tree.map(lambda x: x.reshape(16, -1), state.summary.given_theta)
        available, discount = view.available.ravel(), view.discount.ravel()
        best = jnp.where(available, discount * mean, -jnp.inf).argmax(1)
        if gain == "variance":
            gained = information.variance_gain(mean, best)
        else:
            gained = information.histogram_gain(mean, jnp.sqrt(variance), best)
        assert (gained <= 1.001 * state.summary.gain.ravel() + 1e-5).all()
        reward = discount * state.summary.mean.ravel()
        regret = jnp.maximum(state.fixed, jnp.where(available, reward, -jnp.inf).max()) - reward
        choice = choose(key, state, view)
        assert choice == information.deterministic_choice(regret, gained, available)
        row, column = jnp.divmod(choice, 5)
        again = view.discount[row, column] > 0.5  # once more, for half of it
        view = view._replace(
            available=view.available.at[row, column].set(again),
            discount=view.discount.at[row, column].multiply(0.5),
        )
        outcome = Outcome(row, column, jnp.ones(()), jnp.ones(()))
        state = absorb(key, state, view, outcome)


def test_frozen_ratios_stay_until_the_refit():
    problem, view = seen_problem(rows=6, columns=5)
    policy = information_directed(jittered(0.3), draws=32, conditioned=False)
    view = view._replace(available=jnp.ones((6, 5), bool), discount=jnp.ones((6, 5)))
    state = policy.init(jax.random.key(0), view, told(problem))
    before = policy.refit(jax.random.key(1), state, view)
    scores = before.summary
    assert before.fixed > scores.mean.max()
    order = np.argsort(((before.fixed - scores.mean) ** 2 / scores.gain).ravel())
    choose = jax.jit(policy.choose)
    after = before
    for expected in order[:6]:
        choice = choose(jax.random.key(2), after, view)
        assert choice == expected
        row, column = divmod(int(choice), 5)
        view = view._replace(available=view.available.at[row, column].set(False))
        outcome = Outcome(*map(jnp.asarray, (row, column, 9.0, 1.0)))
        after = policy.absorb(jax.random.key(3), after, view, outcome)
    chex.assert_trees_all_equal(before, after)


KINDS = list(itertools.product(SCOPES, GAINS, SELECTIONS))


@pytest.mark.parametrize(("scope", "gain", "selection"), KINDS)
def test_every_kind_of_ids_chooses_available_entries(scope, gain, selection):
    problem, view = seen_problem()
    policy = information_directed(
        jittered(0.3), draws=6, scope=scope, gain=gain, selection=selection, bins=8, chunk=5
    )

    @jax.jit
    def two_picks(key, view):
        state = policy.init(key, view, told(problem))
        state = policy.refit(key, state, view)
        first = policy.choose(key, state, view)
        row, column = jnp.divmod(first, view.available.shape[1])
        after = view._replace(available=view.available.at[row, column].set(False))
        outcome = Outcome(row, column, jnp.asarray(1.0), jnp.asarray(1.0))
        state = policy.absorb(key, state, after, outcome)
        return first, policy.choose(key, state, after)

    for key in jax.random.split(jax.random.key(0), 5):
        first, second = two_picks(key, view)
        assert view.available.ravel()[first]
        assert view.available.ravel()[second]
        assert first != second


def test_the_oracle_needs_the_truth():
    problem, view = seen_problem()
    policy = POLICIES["oracle"](Setting(KNOWN, entry_noise=True))
    with pytest.raises(ValueError, match=r"oracle\.covariance"):
        policy.init(jax.random.key(0), view, told(problem)._replace(truth=None))
