"""What is told of suggestions: against the dense joint Gaussian in float64, and Monte Carlo."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from engines import COLUMNS, KEY, ROWS, TOLD, dense, described, engine_on, open_entries, spread_out
from problems import make_problem, one_by_one, with_column_noise

from smc_jax.algebra.extremes import number_th_largest
from smc_jax.beliefs.base import parameter_draws
from smc_jax.campaign import engine
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies import ensemble, ensemble_policy
from smc_jax.policies.base import Setting
from smc_jax.policies.ensemble_policy import Rule
from smc_jax.policies.ids import Gain, ids
from smc_jax.policies.registry import POLICIES, make_policy
from smc_jax.recommender import choose_several, recommender
from smc_jax.types import Offer, Outcome


@pytest.mark.usefixtures("x64")
def test_means_deviations_quantiles_and_bits_are_those_of_the_mixture_of_dense_gaussians():
    parameters, data, looks = make_problem(3)
    belief = spread_out(parameters)
    is_open, entries = open_entries(data)
    found = described(belief, parameters, data, is_open, entries)
    draws = parameter_draws(jax.random.split(KEY)[0], belief, parameters, engine.DRAWS)
    each = [
        [dense(jax.tree.map(lambda x, s=s: x[s], draws), looks, n) for n in range(COLUMNS)]
        for s in range(engine.DRAWS)
    ]
    mean = np.array([[one[n][0][d] for d, n in entries] for one in each])
    variance = np.array([[one[n][1][d, d] for d, n in entries] for one in each])
    noise = np.array([[one[n][2] for _, n in entries] for one in each])
    total = variance + noise**2
    sd = np.sqrt(total.mean(0) + mean.var(0))
    np.testing.assert_allclose(found.predicted.mean, mean.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.predicted.sd, sd, rtol=1e-9)
    for level, quantile in zip(engine.LEVELS, found.predicted.quantiles, strict=True):
        below = scipy.stats.norm.cdf(quantile, mean, np.sqrt(total)).mean(0)
        np.testing.assert_allclose(below, level, atol=1e-9)
    bits = 0.5 * np.log2(sd**2) - np.log2(noise).mean(0)
    np.testing.assert_allclose(found.gain[0], bits[0], rtol=1e-9)
    np.testing.assert_allclose(found.best_mean, mean.mean(0).max(), rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("column_noise", [False, True])
def test_the_bits_of_a_batch_sum_up_to_its_joint_information(column_noise):
    """1/2 log2 det(I + covariance / s2) of the batch, once the pending entries are known too."""
    parameters, data, looks = make_problem(4)
    if column_noise:
        parameters = with_column_noise(parameters, COLUMNS)
    is_open, entries = open_entries(data)
    pending = np.zeros(is_open.shape, bool)
    waiting, batch = entries[::4], [entry for i, entry in enumerate(entries) if i % 4]
    pending[tuple(zip(*waiting, strict=True))] = True
    found = described(TOLD, parameters, data, is_open & ~pending, batch, pending=pending)
    bits = 0.0
    for n in range(COLUMNS):
        rows = [d for d, column in batch if column == n]
        known = [d for d, column in waiting if column == n]
        _, covariance, noise = dense(parameters, looks, n)
        joint, before = (
            np.linalg.slogdet(np.eye(len(some)) + covariance[np.ix_(some, some)] / noise**2)[1]
            for some in (rows + known, known)
        )
        bits += 0.5 * (joint - before) / np.log(2.0)
    np.testing.assert_allclose(found.gain.sum(), bits, rtol=1e-9)
    assert bits > 1.0
    # The order does not matter, and what is pending leaves less to be told.
    back = described(TOLD, parameters, data, is_open & ~pending, batch[::-1], pending=pending)
    np.testing.assert_allclose(back.gain.sum(), bits, rtol=1e-9)
    alone = described(TOLD, parameters, data, is_open, batch)
    assert alone.gain.sum() > bits + 0.01


@pytest.mark.usefixtures("x64")
def test_the_bits_of_a_few_entries_need_nothing_but_their_columns(monkeypatch):
    """Three entries of two of the five columns, and the same with all others after them.

    Nothing is pending, or all of the others.
    """
    parameters, data, _ = make_problem(4)
    parameters = with_column_noise(parameters, COLUMNS)
    belief = spread_out(parameters)
    is_open, entries = open_entries(data)
    pending = np.zeros(is_open.shape, bool)
    fullest = int(is_open.sum(0).argmax())
    own = [one for one in entries if one[1] == fullest]
    others = [one for one in entries if one[1] != fullest]
    few, rest = [own[0], others[0], own[1]], own[2:] + others[1:]
    pending[tuple(zip(*rest, strict=True))] = True
    looked_at, expect_all = [], ensemble.expect_all

    def recorded(members, data, pending):
        looked_at.append(data.columns)
        return expect_all(members, data, pending)

    @jax.jit
    def bits(pending):
        members = ensemble.start(KEY, parameter_draws(KEY, belief, parameters, 7), data)
        return [
            engine._gains(members, data, pending, *jnp.asarray(some).T)
            for some in (few, [*few, *rest])
        ]

    monkeypatch.setattr(ensemble, "expect_all", recorded)
    alone = {}
    for waiting in (False, True):
        alone[waiting], everything = bits(jnp.asarray(pending & waiting))
        np.testing.assert_allclose(alone[waiting], everything[:3], rtol=1e-9)
    assert alone[True].sum() < alone[False].sum() - 0.01
    assert set(looked_at) == {3, COLUMNS}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("wanted", [1, 4])
def test_the_probability_to_be_among_the_best_is_that_of_the_joint_gaussian(monkeypatch, wanted):
    """2000 draws against 10^5 dense ones; of 17 entries one is off by chance once in 10^4 runs.

    A draw and its mirror image together vary no more than one draw: the standard error is at most
    sqrt(p (1 - p) / 2000), and at 4.5 of them each fails with probability 7e-6.
    """
    parameters, data, looks = make_problem(5)
    is_open, entries = open_entries(data)
    monkeypatch.setattr(engine, "DRAWS", 2000)
    found = described(TOLD, parameters, data, is_open, entries, wanted=wanted)
    rng, samples = np.random.default_rng(0), np.empty((100_000, ROWS, COLUMNS))
    for n in range(COLUMNS):
        mean, covariance, _ = dense(parameters, looks, n)
        samples[:, :, n] = rng.multivariate_normal(mean, covariance, len(samples), method="eigh")
    of_open = samples[:, is_open]
    ordered = np.sort(of_open, axis=1)[:, ::-1]
    expected = (of_open >= ordered[:, wanted - 1 : wanted]).mean(0)
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-3) * (1 / 2000 + 1e-5))
    assert (np.abs(found.probability - expected) < 4.5 * error).all()
    np.testing.assert_allclose(found.probability.sum(), wanted, rtol=1e-6)
    best = ordered[:, :wanted].mean(1)
    error = best.std() * np.sqrt(1 / 2000 + 1e-5)
    assert abs(found.optimum - best.mean()) < 4.5 * error
    assert expected.max() > 0.3


@pytest.mark.usefixtures("x64")
def test_an_entry_that_is_surely_the_best_is_so_with_probability_one():
    """It is compared with the others, not with itself; columns move as a whole."""
    loadings, intercepts = jnp.ones((4, 1)), jnp.asarray([0.5, 0.0, -1.0, 0.2])
    parameters = Parameters.plain(loadings, jnp.asarray(0.3), intercepts)
    data = Observations.empty(4, 1)
    entries = [(d, 0) for d in range(4)]
    everything = np.ones((4, 1), bool)
    one = described(TOLD, parameters, data, everything, entries, wanted=1)
    np.testing.assert_array_equal(one.probability, [1.0, 0.0, 0.0, 0.0])
    two = described(TOLD, parameters, data, everything, entries, wanted=2)
    np.testing.assert_array_equal(two.probability, [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(two.hopeful, [True, False, False, True])


@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_as_many_entries_are_hopeful_as_are_wanted(wanted):
    """In float32 too: the last of the best is one of them."""
    parameters, data, looks = make_problem(6)
    is_open, entries = open_entries(data)
    found = described(TOLD, parameters, data, is_open, entries, wanted=wanted)
    mean = np.array([dense(parameters, looks, n)[0][d] for d, n in entries])
    np.testing.assert_array_equal(found.hopeful, mean >= np.sort(mean)[-wanted])


@pytest.mark.usefixtures("x64")
def test_asked_of_some_columns_it_tells_what_it_would_of_these_columns_alone(monkeypatch):
    """Greedy picks of offered columns, each with a noise of its own, by their dense forecasts."""
    parameters, data, looks = make_problem(8)
    parameters = with_column_noise(parameters, COLUMNS, seed=1)
    programs = engine_on(monkeypatch, TOLD, "greedy")
    offered = np.array([4, 0, 2])
    is_open = ~np.asarray(data.seen())
    pending = np.zeros_like(is_open)
    pending[1, 0] = pending[5, 0] = True
    left = (is_open & ~pending)[:, offered]
    found = programs.ask(
        KEY,
        KEY,
        parameters,
        data,
        jnp.asarray(offered),
        jnp.asarray(left),
        jnp.asarray(pending[:, offered]),
        jnp.asarray(4),
        8,
        4,
    )
    forecasts = {int(n): dense(parameters, looks, n) for n in offered}
    means = np.stack([forecasts[int(n)][0] for n in offered], 1)
    order = np.argsort(-np.where(left, means, -np.inf), axis=None)[:4]
    picks = [divmod(int(place), 3) for place in order]
    chosen = list(zip(found.choice.row.tolist(), found.choice.column.tolist(), strict=True))
    assert chosen == picks
    for i, (row, position) in enumerate(picks):
        mean, covariance, noise = forecasts[int(offered[position])]
        np.testing.assert_allclose(found.predicted.mean[i], mean[row], rtol=1e-9)
        sd = np.sqrt(covariance[row, row] + noise**2)
        np.testing.assert_allclose(found.predicted.sd[i], sd, rtol=1e-9)
    assert found.hopeful.all()


class ByIds(NamedTuple):
    """A model, what it was told, the engine on it, and the policy `ids` on the same model."""

    parameters: Parameters
    data: Observations
    programs: engine.Engine
    choose: Callable  # (open, pending) -> eight choices, as the policy of that name makes them


@pytest.fixture(scope="module")
def by_ids():
    parameters, data, _ = make_problem(8)
    belief, columns = spread_out(parameters), jnp.arange(COLUMNS)
    focused = engine._focused(belief)
    policy = make_policy("ids", Setting(focused, entry_noise=False), best_of=2)

    def choose(left, pending):
        refit_key, choose_key = jax.random.split(KEY)
        offer = Offer(None, left, jnp.ones(left.shape))
        begun = policy.init(refit_key, data, offer, engine.Focused(parameters, columns))
        fitted = policy.refit(refit_key, begun, data, offer)
        return choose_several(choose_key, policy, fitted, data, offer, pending, 8)

    with pytest.MonkeyPatch.context() as patch:
        programs = engine_on(patch, belief, "ids")
    return ByIds(parameters, data, programs, jax.jit(choose))


def ask_by_ids(by_ids, is_open, pending, wanted):
    """Eight entries that the engine asks for."""
    arrays = (jnp.arange(COLUMNS), jnp.asarray(is_open), jnp.asarray(pending), jnp.asarray(wanted))
    return by_ids.programs.ask(KEY, KEY, by_ids.parameters, by_ids.data, *arrays, 2, 8)


@pytest.mark.parametrize("waiting", [False, True], ids=["nothing pending", "pending"])
def test_ids_chooses_what_the_policy_of_that_name_does(by_ids, waiting):
    """A campaign finds R* in another way, and names the columns; its choices are the same."""
    is_open, entries = open_entries(by_ids.data)
    pending = np.zeros_like(is_open)
    pending[tuple(zip(*entries[::3], strict=True))] = waiting
    found = ask_by_ids(by_ids, is_open & ~pending, pending, 4).choice
    np.testing.assert_array_equal(found, by_ids.choose(is_open & ~pending, pending))


def test_what_has_no_room_is_told_apart(by_ids):
    """Two open entries, asked for eight: the other choices are -1."""
    is_open = np.zeros((ROWS, COLUMNS), bool)
    is_open[2, 0] = is_open[3, 0] = True
    found = ask_by_ids(by_ids, is_open, np.zeros((ROWS, COLUMNS), bool), 2)
    assert sorted(found.choice.row[:2].tolist()) == [2, 3]
    assert (np.asarray(found.choice.row[2:]) == -1).all()
    assert np.isfinite(found.gain[:2]).all()
    np.testing.assert_allclose(found.probability[:2], 1.0)


def test_ids_has_the_settings_of_the_registry(monkeypatch):
    """A default that changes there changes here."""
    entry, made = POLICIES["ids"], []
    changed = entry._replace(settings={**entry.settings, "draws": 3, "scope": "covariance"})
    monkeypatch.setitem(POLICIES, "ids", changed)
    monkeypatch.setattr(
        engine, "champion_rule", lambda gain, _: made.append(gain) or Rule(None, None)
    )
    monkeypatch.setattr(engine, "ensemble_policy", lambda *_, draws: made.append(draws))
    engine._policy("ids", TOLD, 2)
    assert made == [
        Gain("covariance", "gaussian", entry.settings["bins"], entry.settings["chunk"]),
        3,
    ]


def test_the_columns_of_an_offer_are_summarised_once(monkeypatch):
    """Also where entries are pending, which change what is known of their columns."""
    parameters, data, _ = make_problem(8)
    programs, summaries, made = engine_on(monkeypatch, TOLD), ensemble_policy.summaries, []

    def counted(*arguments):
        made.append(arguments)
        return summaries(*arguments)

    monkeypatch.setattr(ensemble_policy, "summaries", counted)
    is_open = jnp.ones((ROWS, COLUMNS), bool)
    programs.ask.lower(
        KEY, KEY, parameters, data, jnp.arange(COLUMNS), is_open, ~is_open, jnp.asarray(3), 8, 8
    )
    assert len(made) == 1


@pytest.mark.parametrize("number", [1, 2, 7, 30, 100])
def test_the_number_th_largest_is_that_of_a_sort(number):
    rng = np.random.default_rng(number)
    values = rng.normal(size=(5, 9))
    values[rng.random(values.shape) < 0.3] = -np.inf
    finite = np.sort(values[np.isfinite(values)])[::-1]
    expected = finite[min(number, finite.size) - 1]
    found = float(number_th_largest(jnp.asarray(values), number))
    assert -1e-6 <= found - expected <= 2.0**-19 * np.ptp(finite)


@functools.cache
def asked_programs():
    """A recommender by IDS on told parameters, compiled, and what it knows at first."""
    parameters, data, _ = make_problem(8)
    asked = recommender(ids(TOLD._replace(point=False), draws=4))
    is_open, entries = open_entries(data)
    offer = Offer(None, jnp.asarray(is_open), jnp.ones(is_open.shape))
    state = asked.init(KEY, data, offer, parameters)
    return jax.jit(asked.refit), jax.jit(asked.tell), state, offer, entries


def test_a_failure_without_a_value_teaches_nothing():
    """A recommender is told NaN, which is no value, of a measurement that failed."""
    refit, tell, state, offer, _ = asked_programs()
    state = refit(KEY, state, offer)
    outcome = Outcome(*(jnp.asarray([x]) for x in (2, 0, np.nan, False)))
    after = tell(KEY, state, outcome, offer)
    for before, now in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        np.testing.assert_allclose(before, now, rtol=1e-6)


def test_regret_is_measured_from_what_is_not_pending():
    """R*, found at a refit, is of the entries that can still be chosen."""
    refit, _, state, offer, entries = asked_programs()
    pending = state.pending.at[tuple(np.transpose(entries[::2]))].set(True)
    waiting = state._replace(pending=pending)
    left = offer._replace(open=offer.open & ~pending)
    heedless, heeding = (refit(KEY, waiting, one).policy.shared for one in (offer, left))
    assert heedless == heeding < refit(KEY, state, offer).policy.shared


def test_one_row_and_one_column_are_matrices_too(monkeypatch):
    """D = 1: every column is one entry, and the bits are those of independent entries."""
    parameters = Parameters.plain(jnp.ones((1, 1)), jnp.asarray(0.5))
    data = one_by_one(1, 6, np.zeros(3, int), np.arange(3), np.array([1.0, 2.0, 3.0]))
    programs = engine_on(monkeypatch, TOLD, "ids")
    is_open = ~np.asarray(data.seen())
    nothing = jnp.zeros(is_open.shape, bool)
    found = programs.ask(
        KEY, KEY, parameters, data, jnp.arange(6), jnp.asarray(is_open), nothing, 3, 8, 8
    )
    assert sorted(found.choice.column[:3].tolist()) == [3, 4, 5]
    np.testing.assert_allclose(found.gain[:3], 0.5 * np.log2(1.0 + 4.0), rtol=1e-5)
    single = described(
        TOLD, parameters, Observations.empty(1, 1), np.ones((1, 1), bool), [(0, 0)], wanted=1
    )
    np.testing.assert_allclose(single.probability, 1.0)
