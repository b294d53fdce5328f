"""Rules where the draws say that answers depend on values: choices against dense float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import draws_of
from scipy import stats

from smc_jax.beliefs.base import Diagnostics, stored_belief
from smc_jax.model import gaussian
from smc_jax.model.answers import Answers
from smc_jax.model.response import Response
from smc_jax.policies import ensemble
from smc_jax.policies.greedy import greedy
from smc_jax.policies.heeding import heeding_silence
from smc_jax.policies.ids import ids
from smc_jax.policies.thompson import thompson
from smc_jax.policies.ucb import ucb
from smc_jax.types import Offer, Outcome

DRAWS, ROWS, COLUMNS = 4, 6, 5


def with_answers(parameters, data, seed=1):
    """Draws that say who answers, with two entries refused that were not seen."""
    rng = np.random.default_rng(seed)
    refused = np.zeros((COLUMNS, ROWS))
    refused[0, :2] = 1.0
    assert not np.asarray(data.seen()).T[refused > 0].any()

    def one(_):
        some = Response.start(ROWS, COLUMNS)._replace(
            rows=jnp.asarray(0.5 * rng.normal(size=ROWS)),
            columns=jnp.asarray(0.5 * rng.normal(size=COLUMNS)),
        )
        scalars = (jnp.asarray(x) for x in (1.0 + 0.3 * rng.normal(), 0.4, 1.5))
        values = jnp.asarray(refused * rng.normal(size=refused.shape))
        return Answers(some, *scalars, values, jnp.asarray(refused))

    answers = jax.tree.map(lambda *x: jnp.stack(x), *map(one, range(DRAWS)))
    return parameters._replace(answers=answers)


def believing(parameters):
    """A belief that has these draws and stays as it is."""
    belief = stored_belief(
        lambda key, data, prior=None: parameters,
        lambda key, state, data: state,
        Diagnostics.of_draws,
        store=lambda state: state,
    )
    return belief._replace(learns_answers=True)


def world(seed=3):
    parameters, data = draws_of(seed, DRAWS)
    parameters = with_answers(parameters, data)
    refusals = parameters.answers.refused[0].T
    is_open = jnp.asarray(~np.asarray(data.seen()) & (np.asarray(refusals) == 0))
    offer = Offer(None, is_open, jnp.ones((ROWS, COLUMNS)))
    return parameters, data, believing(parameters), offer


def dense(parameters, data):
    """Means, variances with the noise, P(answer) and what is collected [S, D, N] in float64."""
    found = []
    for s in range(DRAWS):
        one = jax.tree.map(lambda x, s=s: np.asarray(x[s], np.float64), parameters)
        w, b, noise, told = one.loadings, one.intercepts, one.noise(), one.answers
        mean, variance = np.zeros((2, ROWS, COLUMNS))
        for n in range(COLUMNS):
            count = np.asarray(data.times_seen(), float)[:, n] + told.refused[n]
            seen = np.asarray(data.seen())[:, n]
            y = np.where(seen, np.asarray(data.average(), float)[:, n], told.values[n])
            c = np.linalg.inv(np.eye(w.shape[1]) + w.T @ np.diag(count) @ w / noise**2)
            m = c @ w.T @ (count * (y - b)) / noise**2
            mean[:, n], variance[:, n] = b + w @ m, np.einsum("dk,kl,dl->d", w, c, w)
        variance += noise**2
        h = told.slope / told.scale
        spread = np.sqrt(1.0 + h**2 * variance)
        probit = told.response.columns + told.response.rows[:, None] - h * told.centre
        t = (probit + h * mean) / spread
        chance = stats.norm.cdf(t)
        collected = mean * chance + h * variance / spread * stats.norm.pdf(t)
        found.append((mean, variance, chance, collected))
    return (np.array(x) for x in zip(*found, strict=True))


@pytest.mark.usefixtures("x64")
def test_greedy_takes_what_collects_most_and_refusals_inform_the_columns():
    parameters, data, belief, offer = world()
    policy, key = greedy(belief, draws=DRAWS), jax.random.key(0)

    @jax.jit
    def chosen(factor):
        one = offer._replace(factor=factor)
        state = policy.refit(key, policy.init(key, data, one), data, one)
        some = Offer(jnp.asarray([4, 2, 0]), one.open[:, [4, 2, 0]], one.factor[:, [4, 2, 0]])
        return policy.choose(key, state, data, one), policy.choose(key, state, data, some)

    collected = list(dense(parameters, data))[3].mean(0)
    for seed in range(4):
        factor = np.random.default_rng(seed).uniform(0.2, 1.0, (ROWS, COLUMNS))
        score = np.where(offer.open, factor * collected, -np.inf)
        standing, named = chosen(jnp.asarray(factor))
        assert (standing.row, standing.column) == np.unravel_index(score.argmax(), score.shape)
        score[:, [1, 3]] = -np.inf
        assert (named.row, named.column) == np.unravel_index(score.argmax(), score.shape)


@pytest.mark.usefixtures("x64")
def test_ids_weighs_gain_by_the_chance_of_an_answer():
    """The ratio of every entry in NumPy; R* is the mean over draws of each one's best entry."""
    parameters, data, belief, offer = world()
    policy, key = ids(belief, draws=DRAWS, scope="covariance"), jax.random.key(0)

    @jax.jit
    def chosen():
        state = policy.refit(key, policy.init(key, data, offer), data, offer)
        return policy.choose(key, state, data, offer), state.shared

    mean, variance, chance, collected = dense(parameters, data)
    is_open = np.asarray(offer.open)
    optimum = np.mean([one[is_open].max() for one in collected])
    total = variance.mean(0) + mean.var(0)
    gain = 0.5 * np.log(total / np.exp(np.log(variance).mean(0))) * chance.mean(0)
    regret = optimum - collected.mean(0)
    ratio = np.where(regret <= 0.0, 0.0, regret**2 / gain)
    best = np.where(is_open, ratio, np.inf).argmin()
    choice, found = chosen()
    np.testing.assert_allclose(found, optimum, rtol=1e-6)
    assert (regret > 0.0)[is_open].all()
    assert (int(choice.row), int(choice.column)) == np.unravel_index(best, (ROWS, COLUMNS))


def test_a_refused_entry_that_is_answered_after_all_counts_once():
    """Conditioned on the answer, columns have the means of a fit to data that hold it."""
    parameters, data, _, _ = world()
    members = ensemble.start(jax.random.key(1), parameters, data)
    outcome = Outcome(*map(jnp.asarray, (1, 0, 2.5, True, False)))
    moved, _ = jax.jit(ensemble.condition)(jax.random.key(2), members, outcome)
    after = data.add(1, 0, 2.5, 1.0)
    expected = jax.vmap(lambda one: gaussian.latent_posterior(one, after))(parameters)
    np.testing.assert_allclose(moved.column.mean, expected.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved.column.covariance, expected.covariance, rtol=1e-4, atol=1e-5)
    shift = np.asarray(moved.column.sample - members.column.sample)
    np.testing.assert_allclose(
        shift, np.asarray(moved.column.mean - members.column.mean), atol=1e-5
    )
    # A refusal, or the answer of another entry, moves it as ever.
    refusal = outcome._replace(answered=jnp.asarray(False), refused=jnp.asarray(True))
    same, _ = jax.jit(ensemble.condition)(jax.random.key(2), members, refusal)
    np.testing.assert_allclose(same.column.block, members.column.block, atol=1e-6)
    other = outcome._replace(row=jnp.asarray(3))
    moved, _ = jax.jit(ensemble.condition)(jax.random.key(2), members, other)
    expected = jax.vmap(lambda one: gaussian.latent_posterior(one, data.add(3, 0, 2.5, 1.0)))
    np.testing.assert_allclose(moved.column.mean, expected(parameters).mean, rtol=1e-4, atol=1e-5)


RULES = {
    "ids": lambda belief: ids(belief, draws=DRAWS),
    "ids histogram": lambda belief: ids(belief, draws=DRAWS, gain="histogram", bins=4),
    "ids two_action": lambda belief: ids(belief, draws=DRAWS, selection="two_action"),
    "ids frozen": lambda belief: ids(belief, draws=DRAWS, conditioned=False),
    "ucb": lambda belief: ucb(belief, draws=DRAWS),
    "thompson": lambda belief: thompson(belief, entry_noise=True, pool=DRAWS),
    "thompson noiseless": lambda belief: thompson(belief, entry_noise=False, pool=DRAWS),
    "thompson fresh": lambda belief: thompson(belief, entry_noise=True, pool=0),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_ask_who_answers_in_the_draws(name):
    """Where one column alone answers, and values are positive, it is chosen; inside the offer."""
    parameters, data, _, offer = world()
    answers = parameters.answers
    columns = jnp.full((DRAWS, COLUMNS), -9.0).at[:, 3].set(2.0)
    told = answers._replace(response=answers.response._replace(columns=columns))
    told = told._replace(slope=0.1 * told.slope)
    parameters = parameters._replace(answers=told, intercepts=parameters.intercepts + 9.0)
    offer = offer._replace(open=jnp.ones((ROWS, COLUMNS), bool))
    policy = RULES[name](believing(parameters))
    assert heeding_silence(policy) is policy
    key = jax.random.key(2)

    @jax.jit
    def choices():
        state = policy.refit(key, policy.init(key, data, offer), data, offer)
        some = Offer(jnp.asarray([4, 3, 0]), offer.open[:, :3], offer.factor[:, :3])
        outcome = Outcome(*map(jnp.asarray, (1, 0, 2.5, True, False)))
        after = policy.absorb(key, state, data, outcome, offer)
        return [
            policy.choose(key, state, data, offer),
            policy.choose(key, state, data, some),
            policy.choose(key, after, data, offer),
        ]

    for choice in choices():
        assert int(choice.column) == 3
        assert 0 <= int(choice.row) < ROWS
