"""Several entries asked at once, before any answer is told."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import make

from smc_jax.data.synthetic import synthetic
from smc_jax.recommender import recommender
from smc_jax.simulation import environment
from smc_jax.simulation import offers as wrappers
from smc_jax.simulation.loop import batch_size, make_loop
from smc_jax.types import Choice


def world_of():
    return environment.make_environment(synthetic(rows=5, columns=6, true_rank=2), initial=8)


@pytest.mark.parametrize("title", ["ids", "empirical"])
def test_the_loop_asks_as_a_recommender_is_asked(title):
    made, policy = world_of(), make(title)
    loop = make_loop(made, policy, horizon=6, refits=2, asked=3)
    begun = loop.reset(jnp.uint32(3))
    carry = begun.carry(loop.init(begun))
    after, _, steps = jax.jit(loop.advance, static_argnums=1)(carry, 2)
    asked = recommender(policy)
    world, key = carry.world, carry.key
    offer = made.offer(carry.offer_key, world)
    state = asked.init(begun.keys.init, world.data, offer)
    chosen = []
    for _ in range(2):
        key, refit_key, pick_key, _ = jax.random.split(key, 4)
        offer = made.offer(carry.offer_key, world)
        state = asked.refit(refit_key, state, offer)
        choose_key, absorb_key = jax.random.split(jax.random.split(pick_key, 1)[0])
        state, choice = asked.ask(choose_key, state, offer, 3)
        outcomes = []
        for entry in zip(*choice, strict=True):
            world, outcome, _ = made.answer(carry.noise_key, world, offer, Choice(*entry))
            outcomes.append(outcome)
        told = jax.tree.map(lambda *x: jnp.stack(x), *outcomes)
        state = asked.tell(absorb_key, state, told, made.offer(carry.offer_key, world))
        chosen += list(zip(choice.row.tolist(), choice.column.tolist(), strict=True))
    assert chosen == list(zip(steps.row.tolist(), steps.column.tolist(), strict=True))
    assert steps.valid.all()
    np.testing.assert_array_equal(after.world.data.average(), state.data.average())
    # Its matrices too: an answer that is not told yet moves nothing.
    chex.assert_trees_all_close(after.policy, state.policy, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("refits", "asked", "size"),
    [(40, 1, 65), (40, 5, 65), (40, 20, 80), (40, 65, 65), (40, 260, 260)],
)
def test_a_batch_is_a_whole_number_of_asks(refits, asked, size):
    assert batch_size(2600, refits=refits, asked=asked) == size


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match=r"^asked: must be at least 1"):
        make_loop(world_of(), make("random"), horizon=6, asked=0)
    arriving = wrappers.arrivals(world_of(), number=3)
    with pytest.raises(ValueError, match=r"^asked: must be 1 where offers change"):
        make_loop(arriving, make("random"), horizon=6, asked=2)
