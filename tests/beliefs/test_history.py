"""History: a belief that knows other columns is the belief fitted to one joined table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from problems import low_rank_data, make_problem

from smc_jax.beliefs import starts
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.history import History, Joined, with_history
from smc_jax.beliefs.pairwise import pairs, pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.units import standardised
from smc_jax.beliefs.variational import adam, svi, variational
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations
from smc_jax.policies.completion import completion
from smc_jax.policies.equalised import equalised
from smc_jax.policies.greedy import greedy
from smc_jax.policies.random import random
from smc_jax.presets import fitted_belief
from smc_jax.recommender import recommender
from smc_jax.types import Offer, Outcome

D, N, M = 6, 5, 4
KEY = jax.random.key(0)
OWN = low_rank_data(0, rows=D, columns=N, rank=1)
PAST = low_rank_data(1, rows=D, columns=M, rank=1)


def fitted(method, features=None, **settings):
    model = gamma_process(rank=2, **settings)
    begin = starts.spectral(model)
    if method == "signed_gibbs":
        known = Features() if features is None else Features(columns=features)
        return signed_gibbs(model, begin, known, draws=4, sweeps=1, first_sweeps=2)
    inference = svi(model=model, optimiser=adam(), window=5)
    if method == "svi":
        return variational(model, begin, inference, first_steps=10)
    short = {"first_transitions": 2, "transitions": 1, "leapfrogs": 2, "draws": 4}
    return hamiltonian(model, begin, inference, first_steps=5, **short)


SIGNED = {"loadings": "signed", "intercepts": True, "common": 10.0, "offsets": True}
BELIEFS = {
    "svi": lambda: fitted("svi", noise_spread=0.25),
    "hmc": lambda: fitted("hmc", noise_spread=0.25),
    "signed_gibbs": lambda: fitted("signed_gibbs", noise_spread=0.25, **SIGNED),
    "gibbs": lambda: gibbs(rank=2, draws=3, first_sweeps=3, sweeps=1),
    "pairwise": lambda: pairwise(centred=True),
    "particles": lambda: particles(particles=5, rank=2),
}


def refitted(belief, data, prior=None):
    return belief.refit(KEY, belief.init(KEY, data, prior), data)


def assert_alike(found, wanted):
    for name in found._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), name)


SLOW = pytest.param("hmc", marks=pytest.mark.slow)  # a program more than the others


@pytest.mark.parametrize("name", [SLOW if name == "hmc" else name for name in BELIEFS])
def test_with_history_it_is_the_fit_to_the_joined_table(name):
    belief = standardised(BELIEFS[name]())
    state = refitted(belief, OWN, History.of(PAST))
    whole = OWN.beside(PAST)
    joined = refitted(belief, whole)
    assert whole.columns == N + M
    assert_alike(belief.draw(KEY, state), belief.draw(KEY, joined).at_columns(jnp.arange(N)))
    assert belief.diagnose(state).finite
    if belief.store is not None:
        assert belief.store(state).noise_scales.shape[1:] in ((), (N,))
    if name not in ("gibbs", "pairwise", "particles"):
        return
    wrapped = with_history(belief, PAST)
    assert_alike(wrapped.draw(KEY, refitted(wrapped, OWN)), belief.draw(KEY, state))
    # A state goes on, and moves with an outcome as that of the joined table does.
    again = state if name == "pairwise" else belief.init(KEY, OWN, state)
    assert isinstance(again, Joined)
    outcome = Outcome(*map(jnp.asarray, (1, 2, 0.7, True)))
    more = OWN.add(1, 2, 0.7, 1.0)
    moved = belief.absorb(KEY, again, more, outcome)
    other = belief.absorb(KEY, joined, more.beside(PAST), outcome)
    assert_alike(belief.draw(KEY, moved), belief.draw(KEY, other).at_columns(jnp.arange(N)))


@pytest.mark.parametrize("known", [True, False])
def test_features_of_columns_are_of_one_table(known):
    """Without features the columns of history are average ones."""
    rng = np.random.default_rng(0)
    table = coordinates(rng.normal(size=(N + M, 2)))
    if not known:
        table = np.concatenate([coordinates(rng.normal(size=(N, 2))), np.zeros((M, 2))])
    own, more = jnp.asarray(table[:N]), jnp.asarray(table[N:])
    belief = fitted("signed_gibbs", own, loadings="signed")
    state = refitted(belief, OWN, History.of(PAST, features=more if known else None))
    joined = refitted(fitted("signed_gibbs", table, loadings="signed"), OWN.beside(PAST))
    found = belief.store(state)
    np.testing.assert_array_equal(found.latent_means, joined.draws.latent_means[:, :N])
    np.testing.assert_array_equal(found.loadings, joined.draws.loadings)


@pytest.mark.parametrize("loadings", ["signed", "gamma"])
@pytest.mark.parametrize("method", ["svi", "mcmc"])
def test_every_method_takes_history_beside_features_and_a_prediction(method, loadings):
    rng = np.random.default_rng(0)
    table = jnp.asarray(coordinates(rng.normal(size=(N + M, 2))))
    known = Features(columns=table[:N], entries=rng.normal(size=(D, N)))
    belief = fitted_belief(
        rank=2, method=method, model={"loadings": loadings}, features=known, standardise=True
    )

    drawn = jax.eval_shape(
        lambda: belief.draw(KEY, refitted(belief, OWN, History.of(PAST, features=table[N:])))
    )
    assert drawn.prediction.shape == (N, D)
    assert drawn.latent_means.shape == (N, 2)
    assert drawn.column_weights is None or drawn.column_weights.shape == (2, 2)


def test_what_does_not_go_together_is_refused():
    belief = fitted("signed_gibbs", loadings="signed")
    with pytest.raises(ValueError, match=r"^features: the belief knows no features of columns$"):
        belief.init(KEY, OWN, History.of(PAST, features=jnp.ones((M, 1))))
    with pytest.raises(ValueError, match=r"^features: 3 lines, but history has 4 columns$"):
        History.of(PAST, features=jnp.ones((3, 1)))
    with pytest.raises(ValueError, match=r"^history: it has 5 rows, but the data have 6; "):
        belief.init(KEY, OWN, History.of(low_rank_data(1, rows=5, columns=M, rank=1)))
    for temper in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"^temper: must be above 0 and at most 1, got "):
            History.of(PAST, temper=temper)
    with pytest.raises(ValueError, match=r"^prior: a belief with history takes an earlier state"):
        with_history(belief, PAST).init(KEY, OWN, 3)


def power_likelihood(problem, weights):
    """log of the integral over x_n of N(x; 0, I) times the product of N(y; b + w'x, s2)^weight.

    N(y; m, s2)^t is N(y; m, s2 / t) times (2 pi s2)^(-t/2) (2 pi s2 / t)^(1/2).
    """
    p = problem.parameters
    w, b = np.asarray(p.loadings, float), np.asarray(p.intercepts, float)
    s2 = float(p.sigma) ** 2
    total = 0.0
    for (seen, values), t in zip(problem.looks, weights, strict=True):
        if len(seen):
            covariance = w[seen] @ w[seen].T + s2 / t * np.eye(len(seen))
            total += scipy.stats.multivariate_normal.logpdf(values, b[seen], covariance)
            log_rest = 0.5 * np.log(2 * np.pi * s2 / t) - 0.5 * t * np.log(2 * np.pi * s2)
            total += len(seen) * log_rest
    return total


@pytest.mark.parametrize("temper", [0.5, 0.3])
def test_tempered_observations_have_the_power_likelihood(temper):
    """Value and gradient, repeats included, beside columns that count fully."""
    with jax.enable_x64(True):
        own, past = make_problem(0, rows=D, columns=N), make_problem(1, rows=D, columns=M)
        past = past._replace(parameters=own.parameters)
        data = own.observations.beside(past.observations.tempered(temper))
        model = gamma_process(rank=3, intercepts=True)
        found = model.log_likelihood(own.parameters, data)
        wanted = power_likelihood(own, [1.0] * N) + power_likelihood(past, [temper] * M)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)

        def at(shift):
            moved = own.parameters._replace(sigma=own.parameters.sigma + shift)
            return model.log_likelihood(moved, data)

        def dense(shift):
            moved = own.parameters._replace(sigma=own.parameters.sigma + shift)
            first, second = (one._replace(parameters=moved) for one in (own, past))
            return power_likelihood(first, [1.0] * N) + power_likelihood(second, [temper] * M)

        slope = (dense(1e-5) - dense(-1e-5)) / 2e-5
        np.testing.assert_allclose(jax.grad(at)(0.0), slope, rtol=1e-6)


def test_fractions_of_observations_change_weights_and_no_values():
    table = PAST.tempered(0.5)
    np.testing.assert_allclose(table.average(), PAST.average(), rtol=1e-6)
    np.testing.assert_allclose(table.mean(), PAST.mean(), rtol=1e-5)
    np.testing.assert_allclose(table.variance(), PAST.variance(), rtol=1e-5)
    np.testing.assert_array_equal(table.seen(), PAST.seen())
    row, column = np.argwhere(np.asarray(PAST.seen()))[0]
    entry = table.entry(row, column)
    np.testing.assert_allclose((entry.count, entry.mean), (0.5, PAST.average()[row, column]))
    w, b, x = jnp.ones((D, 2)), jnp.zeros(D), jnp.full((2, M), 0.3)
    found, wanted = (one.misfit(w, b, x) for one in (table, PAST))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 0.5 * b, rtol=1e-5), found, wanted)
    found, wanted = (pairs(one, b) for one in (table, PAST))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 0.5 * b, rtol=1e-5), found, wanted)
    # Half an observation and another half are one.
    half = Observations.empty(D, M).add(0, 0, 2.0, 0.5).add(0, 0, 3.0, 0.5)
    np.testing.assert_allclose(half.entry(0, 0), (1.0, 2.5))
    np.testing.assert_allclose(half.squared_error(2.5)[0, 0], 0.25)


@pytest.mark.parametrize(
    "make",
    [
        lambda: greedy(BELIEFS["gibbs"](), draws=3),
        lambda: equalised(greedy(BELIEFS["gibbs"](), draws=3)),
        lambda: completion(steps=3),
        random,
    ],
)
def test_policies_take_history_and_choose_inside_their_offer(make):
    policy = recommender(make())
    is_open = ~OWN.seen()
    offer = Offer(None, is_open, jnp.ones((D, N)))
    state = policy.init(KEY, OWN, offer, History.of(PAST, temper=0.5))
    state, choice = policy.ask(KEY, policy.refit(KEY, state, offer), offer, 3)
    assert np.asarray(is_open)[choice.row, choice.column].all()
    told = Outcome(choice.row, choice.column, jnp.ones(3), jnp.ones(3, bool))
    assert policy.tell(KEY, state, told, offer).data.columns == N
