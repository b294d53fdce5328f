"""Thompson Sampling on a belief that is one point: many matrices drawn at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import assert_gaussian, make_problem

from smc_jax.beliefs.pairwise import pairwise
from smc_jax.model import gaussian
from smc_jax.observations import Observations
from smc_jax.policies.thompson import point_sampling, thompson
from smc_jax.types import Offer, Outcome


def everything(data):
    shape = (data.rows, data.columns)
    return Offer(None, jnp.ones(shape, bool), jnp.ones(shape))


def refitted(policy, data, offer):
    state = policy.init(jax.random.key(0), data, offer)
    return policy.refit(jax.random.key(1), state, data, offer)


@pytest.mark.parametrize("seen", ["nothing", "one entry", "all alike"])
def test_choices_from_almost_nothing(seen):
    mask = {"nothing": jnp.zeros((4, 5)), "all alike": jnp.ones((4, 5))}.get(seen)
    mask = jnp.zeros((4, 5)).at[1, 2].set(1.0) if mask is None else mask
    data = Observations.from_matrix(mask, mask)
    offer = everything(data)
    policy = thompson(pairwise(), entry_noise=True)
    state = refitted(policy, data, offer)
    assert policy.diagnose(state).finite
    choice = policy.choose(jax.random.key(2), state, data, offer)
    assert 0 <= choice.row < 4
    assert 0 <= choice.column < 5


@pytest.mark.parametrize("entry_noise", [True, False])
def test_conditioning_on_each_pick_equals_solving_anew(entry_noise):
    """Four columns of at most 27 moments at |z| < 5: fails by chance with probability 6e-5."""
    data = make_problem(2, rows=6, columns=4, repeats=False).observations
    offer = everything(data)
    belief = pairwise(strength=2.0, floor=0.5, centred=True)
    policy = point_sampling(belief, entry_noise=entry_noise, matrices=20_000)
    state = refitted(policy, data, offer)
    for row, column, value, answered in [(1, 0, 1.5, True), (4, 0, -0.5, True), (2, 3, 9.0, False)]:
        outcome = Outcome(*map(jnp.asarray, (row, column, value, answered)))
        data = data.add(row, column, value, outcome.weight)
        state = jax.jit(policy.absorb)(jax.random.key(row), state, data, outcome, offer)
    anew = gaussian.latent_posterior(state.parameters, data)
    np.testing.assert_allclose(state.covariance, anew.covariance, rtol=1e-3, atol=1e-4)
    w, noise = np.asarray(state.parameters.loadings), float(state.parameters.sigma) ** 2
    b, seen = np.asarray(state.parameters.intercepts), np.asarray(data.seen())
    assert (~seen).any(0).sum() >= 3
    for n in range(4):
        drawn, free = np.asarray(state.matrices[n]), ~seen[:, n] | (not entry_noise)
        mean = b + w @ anew.mean[n]
        spread = w @ anew.covariance[n] @ w.T + (noise * np.eye(6) if entry_noise else 0.0)
        compared = np.flatnonzero(free)
        if not entry_noise:  # W W' lacks the least eigenvalue: the last row follows from the others
            compared = compared[:-1]
        block = spread[np.ix_(compared, compared)]
        if compared.size:
            assert np.linalg.matrix_rank(block) == compared.size
            assert_gaussian(drawn[:, compared], mean[compared], block)
        if entry_noise:
            known = np.asarray(data.average())[~free, n]
            np.testing.assert_allclose(
                drawn[:, ~free], np.broadcast_to(known, (20_000, known.size)), atol=1e-4
            )
