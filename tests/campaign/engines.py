"""Engines on beliefs that a test makes up, and the dense Gaussians beside them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from problems import dense_entries, in_column

from smc_jax.beliefs.told import told
from smc_jax.campaign import engine
from smc_jax.campaign.matrix import Matrix
from smc_jax.types import Choice

ROWS, COLUMNS = 6, 5
KEY = jax.random.key(7)
TOLD = told()


def engine_on(monkeypatch, belief, rule="ids", draws=None):
    """The engine of a campaign whose model is a belief of ours."""
    monkeypatch.setattr(engine, "held_draws", lambda: belief)
    if draws is not None:
        monkeypatch.setattr(engine, "DRAWS", draws)
    return engine.engine.__wrapped__(rank=3, fixed_noise=None, rule=rule)


def spread_out(parameters):
    """A belief of ever other intercepts, loadings and noises around these parameters."""

    def draw(key, state):
        shift, size = jax.random.normal(key, (ROWS,)), jnp.exp(0.3 * jax.random.normal(key))
        return state._replace(
            intercepts=state.intercepts + 0.4 * shift,
            loadings=size * state.loadings,
            sigma=size * state.sigma,
        )

    return told()._replace(init=lambda key, data, prior=None: parameters, draw=draw, point=False)


def dense(parameters, looks, n):
    """Mean [D] and covariance [D, D] of column n without noise, and its noise."""
    own = in_column(parameters, n) if parameters.noise_scales.ndim else parameters
    return *dense_entries(own, *looks[n]), float(own.sigma)


def described(belief, state, data, is_open, entries, *, pending=None, wanted=3):
    """What the engine tells of entries of the whole matrix."""
    pending = np.zeros(is_open.shape, bool) if pending is None else pending
    # Room for all entries: one program serves any number of them.
    row, column = np.resize(np.asarray(entries), (is_open.size, 2)).T
    found = describe(belief, engine.DRAWS)(
        KEY,
        engine.Focused(state, jnp.arange(data.columns)),
        data,
        jnp.asarray(is_open),
        jnp.asarray(pending),
        jnp.asarray(wanted),
        Choice(jnp.asarray(row), jnp.asarray(column)),
    )
    return jax.tree.map(lambda x: np.asarray(x)[..., : len(entries)] if x.ndim else x, found)


@functools.cache
def describe(belief, draws):
    """The program that describes entries, for a belief and a number of draws."""
    assert draws == engine.DRAWS

    def described(key, *arguments):
        return engine._describe(key, engine._focused(belief), *arguments)

    return jax.jit(described)


def open_entries(data):
    is_open = ~np.asarray(data.seen())
    return is_open, [tuple(map(int, entry)) for entry in np.argwhere(is_open)]


def matrix_in(units, data, transposed=False):
    seen = np.asarray(data.seen())
    return Matrix(data, seen, ~seen & False, ~seen & False, 1.0, units, transposed)
