import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.extremes import argmax, argmin


def test_the_first_of_the_extreme_values():
    rng = np.random.default_rng(0)
    for size in (1, 7, 400):
        values = jnp.asarray(rng.integers(0, 20, (3, size)).astype(np.float32))
        assert argmax(values) == np.argmax(values)
        assert jax.jit(argmin)(values) == np.argmin(values)
    nothing = jnp.full(4, -jnp.inf)
    assert argmax(nothing) == 0
    assert argmax(nothing.at[2].set(-9.0)) == 2
    assert argmin(jnp.asarray([jnp.inf, 3.0, -jnp.inf, -jnp.inf])) == 2
    assert argmin(jnp.full(4, jnp.inf)) == 0


def test_nan_gives_no_index():
    values = jnp.asarray([1.0, jnp.nan, 3.0])
    assert argmax(values) == 3
    assert argmin(values) == 3
