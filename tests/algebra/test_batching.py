"""Some at a time are all at once."""

import chex
import jax
import jax.numpy as jnp
import pytest

from smc_jax.algebra.batching import at_once, mapped


def function(arguments):
    x, y = arguments
    return {"sum": x.sum() + y, "outer": jnp.outer(x, x)}


@pytest.mark.parametrize("on_cpu", [1, 2, 3, 5, 6, 7, 99])
def test_every_width_gives_the_same(on_cpu):
    arguments = jax.random.normal(jax.random.key(0), (6, 4)), jnp.arange(6.0)
    found = jax.jit(lambda arguments: mapped(function, arguments, on_cpu=on_cpu))(arguments)
    chex.assert_trees_all_close(found, jax.vmap(function)(arguments), rtol=1e-6)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_only_a_cpu_takes_a_few_at_a_time(platform, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert at_once(3, 10) == (3 if platform == "cpu" else 10)
    seen = []

    def width(x):
        return jnp.square(x)

    def spy(function, *rest, **settings):
        seen.append("vmap")
        return vmap(function, *rest, **settings)

    vmap = jax.vmap
    monkeypatch.setattr(jax, "vmap", spy)
    chex.assert_trees_all_close(mapped(width, jnp.arange(10.0), on_cpu=1), jnp.arange(10.0) ** 2)
    assert bool(seen) == (platform != "cpu")  # one at a time is a loop without a vmap
