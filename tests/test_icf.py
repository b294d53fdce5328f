"""The upper confidence rule against dense float64 algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import dense_entries, make_problem

from smc_jax.policies.base import Setting
from smc_jax.policies.icf import icf
from smc_jax.types import Outcome, View

SETTING = Setting(None, entry_noise=True)


def test_linucb_chooses_the_highest_bound():
    problem = make_problem(3, rows=4, columns=3, rank=2, intercepts=False)
    view = View(problem.observations, jnp.ones((4, 3), bool), jnp.ones((4, 3)))
    policy = icf(
        SETTING,
        rule="linucb",
        rank=2,
        noise_variance=0.4,
        factor_variance=0.9,
        draws=3,
        first_sweeps=20,
        exploration=1.7,
    )
    state = policy.init(jax.random.key(0), view, None)
    state = jax.jit(policy.refit)(jax.random.key(1), state, view)
    outcome = Outcome(*map(jnp.asarray, (2, 1, 0.8, 1.0)))
    view = View(
        view.observations.add(*outcome),
        view.available.at[2, 1].set(False),
        view.discount.at[0, 2].set(0.5),
    )
    state = jax.jit(policy.absorb)(jax.random.key(2), state, view, outcome)

    looks = [(rows, values) for rows, values in problem.looks]
    looks[1] = (np.append(looks[1][0], 2), np.append(looks[1][1], 0.8))
    bound = np.zeros((4, 3))
    for s in range(3):
        draw = jax.tree.map(lambda x, s=s: x[s], state.ensemble.parameters)
        np.testing.assert_allclose(draw.sigma**2, 0.4, rtol=1e-6)
        for n, (rows, values) in enumerate(looks):
            mean, covariance = dense_entries(draw, rows, values)
            bound[:, n] += (mean + 1.7 * np.sqrt(np.diag(covariance))) / 3
    reward = np.where(view.available, np.asarray(view.discount) * bound, -np.inf)
    np.testing.assert_allclose(state.summary.score, reward.max(0), rtol=1e-4, atol=1e-5)
    assert policy.choose(jax.random.key(3), state, view) == reward.argmax()


def test_unknown_settings_are_named():
    with pytest.raises(ValueError, match=r"^icf\.rule: unknown 'nonsense'; choose from"):
        icf(SETTING, rule="nonsense")
