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
from smc_jax.policies import ensemble, ensemble_policy
from smc_jax.policies.base import Best, best_open
from smc_jax.policies.ensemble_policy import Rule
from smc_jax.policies.greedy import greedy
from smc_jax.policies.heeding import heeding_silence
from smc_jax.policies.ids import ids
from smc_jax.policies.thompson import Pooled, take_draw, thompson
from smc_jax.policies.ucb import ucb
from smc_jax.predictions import predict
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


def draw_of(parameters, s):
    """One draw in float64."""
    return jax.tree.map(lambda x: np.asarray(x[s], np.float64), parameters)


def answering(one, mean, variance):
    """P(answer) and what is collected [D, N] of values with these moments in one draw."""
    told = one.answers
    known = told.refused.T > 0  # values that the draw has are known to it
    m, v = np.where(known, told.values.T, mean), np.where(known, 0.0, variance)
    h = told.slope / told.scale
    spread = np.sqrt(1.0 + h**2 * v)
    probit = told.response.columns + told.response.rows[:, None] - h * told.centre
    t = (probit + h * m) / spread
    return stats.norm.cdf(t), m * stats.norm.cdf(t) + h * v / spread * stats.norm.pdf(t)


def dense(parameters, data):
    """Means, variances with the noise, P(answer) and what is collected [S, D, N] in float64."""
    found = []
    for s in range(DRAWS):
        one = draw_of(parameters, s)
        w, b, noise, told = one.loadings, one.intercepts, one.noise(), one.answers
        mean, variance = np.zeros((2, ROWS, COLUMNS))
        for n in range(COLUMNS):
            seen = np.asarray(data.seen())[:, n]
            count = np.where(seen, np.asarray(data.times_seen(), float)[:, n], told.refused[n])
            y = np.where(seen, np.asarray(data.average(), float)[:, n], told.values[n])
            c = np.linalg.inv(np.eye(w.shape[1]) + w.T @ np.diag(count) @ w / noise**2)
            m = c @ w.T @ (count * (y - b)) / noise**2
            mean[:, n], variance[:, n] = b + w @ m, np.einsum("dk,kl,dl->d", w, c, w)
        variance += noise**2
        found.append((mean, variance, *answering(one, mean, variance)))
    return (np.array(x) for x in zip(*found, strict=True))


def refitted(policy, data, offer):
    """The state after the first refit."""
    key = jax.random.key(0)
    return jax.jit(lambda: policy.refit(key, policy.init(key, data, offer), data, offer))()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("refused_alone", [False, True])
def test_scores_are_what_is_collected_also_of_refused_entries_that_stay_open(refused_alone):
    """Greedy and ucb score entries as in NumPy; a refused entry has the values of the draws."""
    parameters, data, belief, offer = world()
    refused = np.asarray(parameters.answers.refused[0].T) > 0
    is_open = refused if refused_alone else np.asarray(offer.open) | refused
    offer = offer._replace(open=jnp.asarray(is_open))
    _, variance, chance, collected = dense(parameters, data)
    left = variance - np.asarray(parameters.noise(), float)[:, None, None] ** 2
    spread = np.where(refused, 0.0, np.sqrt(left))
    for policy, bonus in (
        (greedy(belief, draws=DRAWS), 0.0),
        (ucb(belief, draws=DRAWS, exploration=0.0), 0.0),
        (ucb(belief, draws=DRAWS, exploration=1.3), 1.3 * chance * spread),
    ):
        expected = np.where(is_open, (collected + bonus).mean(0), -np.inf)
        summary = refitted(policy, data, offer).summary
        np.testing.assert_allclose(summary.score, expected.max(0), rtol=1e-6)
        there = is_open.any(0)
        np.testing.assert_array_equal(summary.row[there], expected.argmax(0)[there])


@pytest.mark.usefixtures("x64")
def test_blocks_of_columns_have_the_answers_of_their_own_columns(monkeypatch):
    _, data, belief, offer = world()
    policy = ids(belief, draws=DRAWS, selection="two_action")
    whole = refitted(policy, data, offer).summary.told
    some = offer._replace(columns=jnp.asarray([4, 0, 2, 1, 3]))
    for width in (1, 2):
        monkeypatch.setattr(ensemble_policy, "PREDICTED", width * DRAWS * ROWS)
        found = refitted(policy, data, offer).summary.told
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, whole)
    state = refitted(policy, data, some)
    focused, _ = ensemble_policy._focus(
        Rule(lambda column: column.answers.chance(0.0).mean(0), best_open), state, data, some
    )
    one = belief.store(state.belief).answers
    chance = jax.vmap(lambda each: each.answering().chance(0.0))(one).mean(0)
    np.testing.assert_allclose(focused.summary, chance[:, some.columns], rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("scope", ["covariance", "matrix"])
def test_ratios_of_ids_are_made_of_what_is_collected_and_of_gains_that_may_come(scope):
    """The largest ratio of each column in NumPy, and R*, for either meaning of theta."""
    _, data, belief, offer = world()
    state = refitted(ids(belief, draws=DRAWS, scope=scope), data, offer)
    parameters = state.ensemble.parameters  # in the order of the samples
    mean, variance, chance, collected = dense(parameters, data)
    known, left = mean, variance
    if scope == "matrix":
        w, b, noise = parameters.loadings, parameters.intercepts, np.asarray(parameters.noise())
        x = state.ensemble.column.sample
        known = np.asarray(b)[..., None] + np.einsum("sdk,snk->sdn", w, x)
        left = np.broadcast_to(noise[:, None, None] ** 2, known.shape)
    is_open = np.asarray(offer.open)
    each = [
        answering(draw_of(parameters, s), known[s], left[s])[1][is_open].max() for s in range(DRAWS)
    ]
    np.testing.assert_allclose(state.shared, np.mean(each), rtol=1e-6)
    total = variance.mean(0) + mean.var(0)
    gain = 0.5 * np.log(total / np.exp(np.log(left).mean(0))) * chance.mean(0)
    regret = np.maximum(np.mean(each) - collected.mean(0), 0.0)
    ratio = np.where(is_open, -(regret**2) / gain, -np.inf)
    np.testing.assert_allclose(state.summary.directed.score, ratio.max(0), rtol=1e-5)
    expected = np.where(is_open, collected.mean(0), -np.inf).max(0)
    np.testing.assert_allclose(state.summary.greedy.score, expected, rtol=1e-6)


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
def test_a_chance_in_the_offer_is_not_counted_beside_that_of_the_draws(name):
    _, data, belief, offer = world()
    policy, key = RULES[name](belief), jax.random.key(3)
    chance = jnp.asarray(np.random.default_rng(0).uniform(0.1, 1.0, (ROWS, COLUMNS)))
    told, untold = (refitted(policy, data, offer._replace(chance=one)) for one in (chance, None))
    kept = [getattr(one, "summary", ()) for one in (told, untold)]
    jax.tree.map(np.testing.assert_array_equal, *kept)
    choices = [policy.choose(key, told, data, offer._replace(chance=one)) for one in (chance, None)]
    jax.tree.map(np.testing.assert_array_equal, *choices)


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


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("noise", [False, True])
def test_predictions_of_refused_entries_are_the_values_of_the_draws(noise):
    """Also their quantiles, of S values without a spread; a later answer replaces them."""
    parameters, data, belief, offer = world()
    policy = greedy(belief, draws=DRAWS)
    state, key = refitted(policy, data, offer), jax.random.key(4)
    rows, columns = jnp.array([0, 1, 3]), jnp.array([0, 0, 0])

    def told(data):
        asked = key, policy, state, data, rows, columns
        return predict(*asked, draws=DRAWS, noise=noise, quantiles=(0.1, 0.6, 0.9))

    values = np.sort(np.asarray(parameters.answers.values[:, 0, :2]), axis=0)
    found, after = told(data), told(data.add(1, 0, 2.5, 1.0))
    np.testing.assert_allclose(found.mean[:2], values.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.sd[:2], values.std(0), rtol=1e-9)
    np.testing.assert_allclose(found.quantiles[:, :2], values[[0, 2, 3]], rtol=1e-9)
    mean, variance, _, _ = dense(parameters, data)
    np.testing.assert_allclose(found.mean[2], mean[:, 3, 0].mean(), rtol=1e-6)
    if noise:
        expected = np.sqrt(variance[:, 3, 0].mean() + mean[:, 3, 0].var())
        np.testing.assert_allclose(found.sd[2], expected, rtol=1e-6)
    mean, _, _, _ = dense(parameters, data.add(1, 0, 2.5, 1.0))
    np.testing.assert_allclose(after.mean[1], mean[:, 1, 0].mean(), rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_a_pending_entry_that_the_draws_have_as_data_changes_nothing():
    parameters, data, _, _ = world()
    members = ensemble.start(jax.random.key(1), parameters, data)
    for row, known in ((1, True), (3, False)):
        pending = jnp.zeros((ROWS, COLUMNS), bool).at[row, 0].set(True)
        one, _ = ensemble.expect(members, jnp.asarray(row), jnp.asarray(0))
        every = ensemble.expect_all(members, data, pending)
        np.testing.assert_allclose(one.column.block, every.column.block, atol=1e-10)
        moved = np.abs(one.column.block - members.column.block)[:, 0].max()
        assert moved < 1e-10 if known else moved > 1e-3


ASKED = 3, 2  # row and column of an entry that is open


def outcomes(value):
    """Two refusals of an entry, and then an answer."""
    no = Outcome(*map(jnp.asarray, (*ASKED, value, False, True)))
    yes = no._replace(answered=jnp.asarray(True), refused=jnp.asarray(False))
    return no, no, yes


def weights_of(parameters, data, value):
    """The weights [S] of the draws in the column after these outcomes, in float64."""
    chance = list(dense(parameters, data))[2][:, *ASKED]
    told = parameters.answers
    slope = np.asarray(told.slope / told.scale)
    probit = told.response.rows[:, ASKED[0]] + told.response.columns[:, ASKED[1]]
    answered = stats.norm.cdf(np.asarray(probit) + slope * (value - np.asarray(told.centre)))
    weights = (1.0 - chance) ** 2 * answered
    return weights / weights.sum()


@pytest.mark.usefixtures("x64")
def test_refusals_and_answers_weigh_the_draws_of_their_column_until_the_refit():
    """By P(answer) or P(refusal) that each draw of a column makes of the entry that was asked."""
    parameters, data, belief, offer = world()
    policy = ids(belief, draws=DRAWS, selection="two_action")
    key, value = jax.random.key(0), 1.7
    after_data = data.add(*ASKED, value, 1.0)
    shown = offer._replace(open=offer.open.at[ASKED].set(False))

    @jax.jit
    def absorbed():
        state = policy.refit(key, policy.init(key, data, offer), data, offer)
        after = state
        for outcome in outcomes(value):
            after = policy.absorb(key, after, data, outcome, offer)
        unasked = outcomes(value)[0]._replace(refused=jnp.asarray(False))
        same = policy.absorb(key, state, data, unasked, offer)
        again = policy.refit(key, after, after_data, shown)
        return [one.summary.told for one in (state, after, same, again)]

    before, after, same, again = absorbed()
    _, _, chance, collected = dense(parameters, after_data)
    weights = np.full((DRAWS, COLUMNS), 1.0 / DRAWS)
    np.testing.assert_allclose(again.collected, collected.mean(0), rtol=1e-6)
    weights[:, ASKED[1]] = weights_of(parameters, data, value)
    assert np.ptp(weights[:, ASKED[1]]) > 0.05
    for found, each in ((after.chance, chance), (after.collected, collected)):
        np.testing.assert_allclose(found, np.einsum("sn,sdn->dn", weights, each), rtol=1e-6)
    np.testing.assert_allclose(same.collected, before.collected, rtol=1e-9)


@pytest.mark.parametrize("name", ["ids", "ids two_action", "ucb", "thompson", "greedy"])
def test_an_entry_that_keeps_refusing_is_not_asked_for_a_whole_batch(name):
    """The draws differ in who answers: half of them take the best column for a silent one."""
    parameters, data, _, offer = world()
    answers = parameters.answers
    columns = jnp.zeros((DRAWS, COLUMNS)).at[:, 2].set(jnp.array([2.0, 2.0, -4.0, -4.0]))
    told = answers._replace(response=answers.response._replace(columns=columns))
    told = told._replace(slope=0.02 * told.slope)
    parameters = parameters._replace(
        answers=told,
        intercepts=jnp.full((DRAWS, ROWS), 1.0),
        loadings=0.01 * parameters.loadings,
        prediction_weight=jnp.ones(DRAWS),
        prediction=jnp.zeros((DRAWS, COLUMNS, ROWS)).at[:, 2].set(3.0),
    )
    rules = RULES | {"greedy": lambda belief: greedy(belief, draws=DRAWS)}
    policy, key = rules[name](believing(parameters)), jax.random.key(2)
    offer = offer._replace(open=jnp.ones((ROWS, COLUMNS), bool))

    @jax.jit
    def step(state, key):
        choice = policy.choose(key, state, data, offer)
        named = policy.choose(key, state, data, offer.everyone())
        outcome = Outcome(*choice, jnp.asarray(0.0), jnp.asarray(False), jnp.asarray(True))
        return policy.absorb(key, state, data, outcome, offer), (choice.column, named.column)

    state = jax.jit(policy.refit)(key, policy.init(key, data, offer), data, offer)
    chosen = []
    for one in jax.random.split(key, 12):
        state, pair = step(state, one)
        chosen.append(pair)
    standing, named = np.array(chosen).T
    assert 2 in standing[:4]
    for found in (standing, named):
        assert not (found[-4:] == 2).any()


def test_a_column_takes_its_draw_by_the_weights_that_it_has():
    """Frequencies of 4000 draws within 0.04, five standard deviations; alike columns agree."""
    weights = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.0, 0.0, 0.5, 0.5]]).T
    best = Best(jnp.zeros((4, 4)), jnp.broadcast_to(jnp.arange(4)[:, None], (4, 4)))
    summary = Pooled(best, jnp.log(jnp.asarray(weights) + 1e-12))
    keys = jax.random.split(jax.random.key(0), 4000)
    taken = np.asarray(jax.vmap(lambda key: take_draw(key, summary, 4))(keys).row)
    for n in range(4):
        found = np.bincount(taken[:, n], minlength=4) / len(taken)
        np.testing.assert_allclose(found, weights[:, n], atol=0.04)
    np.testing.assert_array_equal(taken[:, 0], taken[:, 2])
