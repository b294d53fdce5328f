"""What a belief knows beforehand: an earlier state goes on, and anything else is refused."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import pytest
from factorisation import NOISE, VARIANCE, assert_means, exact_entries
from problems import low_rank_data

from smc_jax.beliefs import starts
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.told import told
from smc_jax.beliefs.units import standardised
from smc_jax.beliefs.variational import adam, svi, variational
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies.completion import completion
from smc_jax.types import Outcome


def fitted(rank=2, **settings):
    model = gamma_process(rank=rank, **settings)
    inference = svi(model=model, optimiser=adam(), window=5)
    return variational(model, starts.spectral(model), inference, first_steps=20, steps=5)


def chained(method, rank, **settings):
    loadings = "signed" if method is signed_gibbs else "gamma"
    model = gamma_process(rank=rank, loadings=loadings)
    start = starts.spectral(model)
    if method is signed_gibbs:
        return method(model, start, sweeps=1, first_sweeps=2, **settings)
    inference = svi(model=model, optimiser=adam(), window=5)
    return method(model, start, inference, first_steps=10, leapfrogs=2, **settings)


BELIEFS = {
    "variational": fitted,
    "gibbs": lambda rank=2, draws=3: gibbs(rank=rank, draws=draws, first_sweeps=5, sweeps=2),
    "hmc": lambda rank=2, draws=4: chained(hamiltonian, rank, draws=draws, first_transitions=2),
    "signed_gibbs": lambda rank=2, draws=4: chained(signed_gibbs, rank, draws=draws),
    "particles": lambda rank=2, number=20: particles(particles=number, rank=rank),
}
FIRST, SECOND = (low_rank_data(seed, rows=6, columns=5, rank=1) for seed in (0, 1))


@functools.cache
def begun(name):
    """The first state of a belief, of which many are refused."""
    return BELIEFS[name]().init(jax.random.key(0), FIRST)


@pytest.mark.parametrize("name", BELIEFS)
@pytest.mark.parametrize("units", [False, True])
def test_an_earlier_state_goes_on(name, units):
    """Given as the prior, it is the state itself, and its next refit is not a first one.

    A filter is never refitted: it has absorbed the data, and moves with the next outcome.
    """
    belief = standardised(BELIEFS[name]()) if units else BELIEFS[name]()
    earlier = belief.refit(jax.random.key(1), belief.init(jax.random.key(0), FIRST), FIRST)
    state = belief.init(jax.random.key(2), SECOND, earlier)
    chex.assert_trees_all_equal(state, earlier)  # its units too: draws mean what they meant
    chex.assert_trees_all_equal(
        belief.draw(jax.random.key(4), state), belief.draw(jax.random.key(4), earlier)
    )
    after = belief.refit(jax.random.key(3), state, SECOND)
    if units:
        after, earlier = after.inner, earlier.inner
    if name == "variational":
        assert after.steps == earlier.steps + 5
    elif name in ("gibbs", "hmc", "signed_gibbs"):
        assert after.refits == 2
    else:
        chex.assert_trees_all_equal(after, earlier)


def test_earlier_particles_without_new_data_stay_as_they_are():
    belief = BELIEFS["particles"]()
    earlier = belief.init(jax.random.key(0), FIRST)
    nothing = Observations.empty(6, 5)
    chex.assert_trees_all_equal(belief.init(jax.random.key(2), nothing, earlier), earlier)


def test_earlier_particles_move_on_to_the_posterior_given_the_next_outcome_as_well():
    """One item, two users: 32 filters of 2000 particles against quadrature."""
    belief = particles(particles=2000, rank=1, noise_variance=NOISE, factor_variance=VARIANCE)
    first = Observations.empty(1, 2)
    for column, value in ((0, 1.5), (0, 1.2), (0, 1.8), (1, 1.0)):
        first = first.add(0, column, value, 1.0)
    outcome = Outcome(*map(jnp.asarray, (0, 0, 1.4, True)))
    both = first.add(0, 0, 1.4, 1.0)

    @jax.jit
    @jax.vmap
    def moments(key):
        first_key, second_key, absorb_key = jax.random.split(key, 3)
        state = belief.init(second_key, first, belief.init(first_key, first))
        state = belief.absorb(absorb_key, state, both, outcome)
        entries = jnp.einsum("pdk,pnk->pdn", state.items, state.users)
        return jnp.stack([entries.mean(0), (entries**2).mean(0)])

    exact = exact_entries(
        both,
        noise=NOISE,
        item_variance=VARIANCE,
        user_variances=[VARIANCE],
        weights=[1.0],
        span=5.0,
        points=401,
    )
    assert_means(moments(jax.random.split(jax.random.key(0), 32)), exact)


def refused(belief, prior, message):
    """In one line; a belief with units of its own refuses whatever has none."""
    with pytest.raises(ValueError, match=message):
        belief.init(jax.random.key(0), FIRST, prior)
    with pytest.raises(ValueError, match=r"^prior: a belief on standardised values takes an earl"):
        standardised(belief).init(jax.random.key(0), FIRST, prior)


@pytest.mark.parametrize("name", BELIEFS)
@pytest.mark.parametrize("prior", [3.0, (1, 2), "anything"])
def test_anything_else_is_refused(name, prior):
    message = rf"^prior: [^\n]*takes (an )?earlier [^\n]*, got {type(prior).__name__}$"
    refused(BELIEFS[name](), prior, message)


@pytest.mark.parametrize(("name", "other"), [*itertools.permutations(BELIEFS, 2)])
def test_the_state_of_another_belief_is_refused(name, other):
    state = begun(other)
    refused(BELIEFS[name](), state, rf"^prior: [^\n]*, got {type(state).__name__}$")


SHAPES = r"^prior: its arrays have the shapes [^\n]*, but [^\n]* are needed$"


@pytest.mark.parametrize("size", [(7, 5), (6, 4), (5, 6)])
@pytest.mark.parametrize("name", ["gibbs", "particles"])
def test_a_state_of_another_matrix_is_refused(name, size):
    rows, columns = size
    other = low_rank_data(0, rows=rows, columns=columns, rank=1)
    refused(BELIEFS[name](), BELIEFS[name]().init(jax.random.key(0), other), SHAPES)


@pytest.mark.parametrize("size", [(7, 5), (5, 6)])
def test_a_fit_to_other_rows_is_refused(size):
    """It has no latents: without a noise of every column, their number does not matter."""
    rows, columns = size
    other = low_rank_data(0, rows=rows, columns=columns, rank=1)
    refused(fitted(), fitted().init(jax.random.key(0), other), SHAPES)
    wider = fitted().init(jax.random.key(0), low_rank_data(0, rows=6, columns=9, rank=1))
    chex.assert_trees_all_equal(fitted().init(jax.random.key(1), FIRST, wider), wider)


def test_a_fit_to_other_columns_is_refused_where_each_has_a_noise():
    belief = fitted(noise_spread=0.25)
    other = low_rank_data(0, rows=6, columns=9, rank=1)
    refused(belief, belief.init(jax.random.key(0), other), SHAPES)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("variational", {"rank": 3}),
        ("variational", {"intercepts": True}),
        ("variational", {"loadings": "signed"}),
        ("gibbs", {"rank": 1}),
        ("gibbs", {"draws": 4}),
        ("particles", {"rank": 3}),
        ("particles", {"number": 19}),
    ],
)
def test_a_state_under_other_settings_is_refused(name, settings):
    earlier = BELIEFS[name](**settings).init(jax.random.key(0), FIRST)
    refused(BELIEFS[name](), earlier, SHAPES)


def test_a_state_of_another_matrix_is_refused_while_it_is_traced():
    belief = BELIEFS["gibbs"]()
    other = belief.init(jax.random.key(0), low_rank_data(0, rows=7, columns=5, rank=1))
    with pytest.raises(ValueError, match=SHAPES.removesuffix("$")):  # JAX adds a note
        jax.jit(belief.init)(jax.random.key(0), FIRST, other)


PARAMETERS = Parameters.plain(jnp.ones((6, 2)), jnp.ones(()))


@pytest.mark.parametrize("prior", [1.0, (1, 2), "anything", PARAMETERS])
def test_a_belief_without_a_prior_takes_none(prior):
    kind = type(prior).__name__
    refused(pairwise(), prior, rf"^prior: the belief 'pairwise' takes none, got {kind}$")
    with pytest.raises(
        ValueError, match=rf"^prior: the belief 'completion' takes none, got {kind}$"
    ):
        completion().init(jax.random.key(0), FIRST, None, prior)


@pytest.mark.parametrize("name", BELIEFS)
def test_an_oracle_takes_no_state_of_another_belief(name):
    state = begun(name)
    kind = type(state).__name__
    refused(
        told(), state, rf"^prior: an oracle must be told [^\n]*; give a Parameters, got {kind}$"
    )


def test_an_oracle_takes_no_parameters_of_other_rows():
    assert told().init(jax.random.key(0), FIRST, PARAMETERS) is PARAMETERS
    other = Parameters.plain(jnp.ones((7, 2)), jnp.ones(()))
    refused(told(), other, r"^prior: [^\n]+$")
