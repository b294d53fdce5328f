"""The highest of many values: those of a sort, and R* to the last bit that of the policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import make_problem

from smc_jax.algebra.extremes import mean_of_largest
from smc_jax.campaign.highest import FEW, average_of_largest, largest, optimum_of
from smc_jax.policies import ensemble
from smc_jax.policies.ids import Gain, optimum_rule
from smc_jax.types import Offer

KEY = jax.random.key(5)


@pytest.mark.parametrize("shape", [(1, 1), (6, 5), (300, 40), (1000, 3), (2, 3000), (97, 128)])
@pytest.mark.parametrize("number", [1, 7, 16, 200])
def test_the_largest_are_those_of_a_sort(shape, number):
    """Some values are alike, and of some columns nothing is open."""
    rng = np.random.default_rng(number)
    values = rng.normal(size=shape).round(1).astype(np.float32)
    values[:, rng.random(shape[1]) < 0.3] = -np.inf
    found = largest(jnp.asarray(values), number)
    np.testing.assert_array_equal(found, np.sort(values, axis=None)[::-1][:number])


def test_the_largest_of_many_are_found_without_sorting_them_all():
    """No sort, and no choice of the largest, is of more than a fiftieth of the values."""
    program = jax.make_jaxpr(lambda values: largest(values, 16))(jnp.zeros((1000, 128)))
    sizes = [one.invars[0].aval.size for one in program.eqns if one.primitive.name == "top_k"]
    assert sizes
    assert max(sizes) < 1000 * 128 / 50


# Every shape with a few and with many, and every number at one shape: each pair is compiled.
@pytest.mark.parametrize(
    ("shape", "number"),
    [
        *((shape, 16) for shape in [(1, 1), (6, 5), (300, 40), (2, 3000)]),
        *((shape, FEW + 1) for shape in [(1, 1), (6, 5), (300, 40), (2, 3000)]),
        *(((6, 5), number) for number in (1, 5, 60)),
    ],
    ids=str,
)
def test_the_average_of_the_largest_is_the_same_to_the_last_bit(shape, number):
    rng = np.random.default_rng(number)
    values = jnp.asarray(1e3 + rng.normal(size=shape), jnp.float32)
    for share in (0.0, 0.1, 1.0):
        is_open = jnp.asarray(rng.random(shape) < share)
        expected = jax.jit(mean_of_largest, static_argnums=1)(
            jnp.where(is_open, values, -jnp.inf), number
        )
        assert jax.jit(average_of_largest, static_argnums=2)(values, is_open, number) == expected


@pytest.mark.parametrize("best_of", [1, 3, 16])
def test_the_optimum_is_that_of_the_policy(best_of):
    parameters, data, _ = make_problem(8)
    draws = jax.tree.map(lambda x: jnp.stack([x, 1.3 * x, 0.4 * x]), parameters)
    members = ensemble.start(KEY, draws, data)
    offer = Offer(None, ~data.seen(), jnp.ones(data.seen().shape))
    rule = optimum_rule(Gain("matrix", "gaussian", bins=32, chunk=1024), best_of)
    assert optimum_of(best_of)(KEY, members, offer, 1.0) == rule(KEY, members, offer, 1.0)


def test_the_optimum_takes_few_passes_over_the_values():
    """No loop has all values in it: a bisection over them would pass them twenty times."""
    shape = (1000, 128)
    program = jax.make_jaxpr(lambda v: average_of_largest(v, jnp.ones(shape, bool), 16))(
        jnp.zeros(shape)
    )
    loops = [one for one in program.eqns if one.primitive.name in ("while", "scan")]
    assert loops
    for one in loops:
        assert all(given.aval.size < 100 for given in one.invars)
