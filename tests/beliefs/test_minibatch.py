"""Some columns at random in place of all: steps of SVI on a large matrix."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from problems import low_rank_data

from smc_jax.algebra.columns import AXIS
from smc_jax.beliefs import minibatch
from smc_jax.beliefs import variational as inference
from smc_jax.beliefs.starts import STARTS
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations


@pytest.mark.parametrize(
    ("width", "columns", "devices"),
    [(1, 7, 1), (3, 7, 1), (7, 7, 1), (9, 7, 1), (2, 8, 2), (4, 8, 2), (5, 8, 2), (1, 8, 2)],
)
@pytest.mark.parametrize("noise_spread", [0.0, 0.3])
@pytest.mark.usefixtures("x64")
def test_columns_at_random_leave_the_gradient_unbiased(width, columns, devices, noise_spread):
    """The average over all windows is the whole likelihood, and so are the gradients."""
    model = gamma_process(rank=2, intercepts=True, noise_spread=noise_spread)
    observations = low_rank_data(0, rows=4, columns=columns, rank=1)
    parameters = model.sample_prior(jax.random.key(3), 4, columns)

    def average(parameters):
        def one(start):
            ring = minibatch.ring(jax.random.key(7), observations, width)
            taken, seen, factor = minibatch.columns_from(start, ring, parameters)
            each = min(max(width // devices, 1), columns // devices)
            assert (seen.rows, seen.columns) == (4, each * devices)
            return factor * model.log_likelihood(taken, seen)

        return jax.vmap(one)(jnp.arange(columns)).mean()

    def whole(parameters):
        return model.log_likelihood(parameters, observations)

    mesh = Mesh(np.asarray(jax.devices()[:devices]), (AXIS,), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh):
        found = jax.jit(jax.value_and_grad(average))(parameters)
    expected = jax.jit(jax.value_and_grad(whole))(parameters)
    chex.assert_trees_all_close(found, expected, rtol=1e-9)


@pytest.mark.parametrize("noise_spread", [0.0, 0.3])
def test_the_elbo_of_some_columns_is_that_of_all_on_average(noise_spread):
    """|z| < 4 over 4000 keys: fails by chance with probability 6e-5."""
    model = gamma_process(rank=2, noise_spread=noise_spread)
    observations = low_rank_data(0, rows=4, columns=7, rank=1)
    keys = jax.random.split(jax.random.key(5), 4000)
    q = inference.centred_at(model.unconstrain(model.sample_prior(keys[0], 4, 7)), 0.1)

    def estimates(columns):
        one = functools.partial(inference.elbo, model=model, columns=columns)
        return jax.jit(jax.vmap(one, in_axes=(0, None, None)))(keys, q, observations)

    # The same normals in both: what differs is the columns alone.
    difference = np.asarray(estimates(3) - estimates(None), np.float64)
    assert difference.std() > 0.1
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(len(keys))


def test_columns_taken_together_are_a_random_sample():
    """However they are sorted: the estimate's variance is that of sampling without replacement.

    Of 4000 estimates it has a standard error of about 2 %: 10 % is passed by chance with
    probability 1e-5. Neighbours in the order given would have more than four times the variance.
    """
    model, columns, width = gamma_process(rank=2), 24, 6
    parameters = model.sample_prior(jax.random.key(0), 3, columns)
    value = jnp.broadcast_to(jnp.linspace(0.0, 3.0, columns), (3, columns))
    observations = Observations.from_matrix(value, jnp.ones_like(value))

    def likelihood(observations):
        return model.log_likelihood(parameters, observations)

    @jax.jit
    @jax.vmap
    def estimate(key):
        order_key, start_key = jax.random.split(key)
        start = jax.random.randint(start_key, (), 0, columns)
        ring = minibatch.ring(order_key, observations, width)
        _, seen, factor = minibatch.columns_from(start, ring, parameters)
        return factor * likelihood(seen)

    alone = [likelihood(observations.column(n)) for n in range(columns)]
    expected = columns**2 / width * (1 - width / columns) * np.var(alone, ddof=1)
    found = estimate(jax.random.split(jax.random.key(1), 4000)).var()
    assert abs(found / expected - 1) < 0.1


def test_every_run_has_an_order_of_its_own(monkeypatch):
    """Drawn with a key that is none of the steps'."""
    given = []

    def ring(key, *others):
        given.append(tuple(jax.random.key_data(key).tolist()))
        return original(key, *others)

    original = inference.ring
    monkeypatch.setattr(inference, "ring", ring)
    observations = low_rank_data(1, rows=12, columns=20, rank=2)
    model, windows = gamma_process(rank=4), 3
    svi = inference.svi(model=model, optimiser=inference.adam(), columns=5, window=1)
    fit = svi.init(STARTS["random"](model)(jax.random.key(0), observations))
    keys = jax.random.split(jax.random.key(1), 2)
    for key in keys:
        svi.run(key, fit, observations, windows)
    used = [jax.random.fold_in(key, index) for key in keys for index in range(windows)]
    assert len(given) == 2
    assert len({*given, *(tuple(jax.random.key_data(key).tolist()) for key in used)}) == 8
