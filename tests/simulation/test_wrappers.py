"""Offers that change, and the best sequence under them, against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import begin, make

from smc_jax import presets
from smc_jax.data.synthetic import synthetic
from smc_jax.simulation import offers as wrappers
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.regret import curves
from smc_jax.simulation.sweep import make_sweep


def offers_of(environment, keys, world, horizon):
    """The offers [horizon] as boolean masks [D, N], if nothing is ever taken."""
    masks = []
    for clock in range(horizon):
        offer = environment.offer(keys.offers, world._replace(clock=jnp.asarray(clock)))
        mask = np.zeros(world.open.shape, bool)
        mask[:, np.asarray(offer.columns)] = np.asarray(offer.open)
        masks.append(mask)
    return masks


def best_with_passes(entries, masks):
    """The largest sum where an offer of which everything is taken, or closed, earns nothing."""
    values = np.asarray(entries, np.float64).ravel()

    def from_here(step, taken):
        if step == len(masks):
            return 0.0
        left = [action for action in np.flatnonzero(masks[step]) if action not in taken]
        if not left:
            return from_here(step + 1, taken)
        return max(values[a] + from_here(step + 1, taken | {a}) for a in left)

    return from_here(0, frozenset())


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_single_arrivals_is_exact(seed):
    entries = np.random.default_rng(seed).normal(size=(3, 4))
    environment = wrappers.arrivals(make(entries, initial=2))
    keys, world = begin(environment, seed)
    rewards = np.asarray(environment.best(keys.offers, world, 5))
    masks = offers_of(environment, keys, world, 5)
    assert environment.exact
    for length in range(1, 6):
        expected = best_with_passes(entries, masks[:length])
        np.testing.assert_allclose(rewards[:length].sum(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, -3.0])
@pytest.mark.parametrize("kind", ["restricted", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_other_benchmarks_are_upper_bounds_and_say_so(kind, seed, shift):
    """Also where every entry is a loss, and an offer that became empty is better than one."""
    entries = np.random.default_rng(seed).normal(size=(3, 4)) + shift
    environment = make(entries)

    def closed(key, clock):
        return jax.random.bernoulli(jax.random.fold_in(key, 7 * clock + 1), 0.4, (3, 4))

    if kind != "restricted":
        environment = wrappers.arrivals(environment, number=2)
    environment = wrappers.restricted(environment, closed)
    assert not environment.exact
    keys, world = begin(environment, seed)
    rewards = np.asarray(environment.best(keys.offers, world, 4), np.float64)
    masks = offers_of(environment, keys, world, 4)
    for length in range(1, 5):
        assert rewards[:length].sum() >= best_with_passes(entries, masks[:length]) - 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_single_arrivals_of_columns_that_run_out_are_exact(seed):
    entries = np.random.default_rng(seed).normal(size=(2, 2)) - 1.0
    environment = wrappers.arrivals(make(entries))
    keys, world = begin(environment, seed)
    rewards = np.asarray(environment.best(keys.offers, world, 6), np.float64)
    masks = offers_of(environment, keys, world, 6)
    for length in range(1, 7):
        expected = best_with_passes(entries, masks[:length])
        np.testing.assert_allclose(rewards[:length].sum(), expected, rtol=1e-5)


def test_arrivals_are_uniform_and_the_same_for_all_policies():
    environment = wrappers.arrivals(make(np.zeros((2, 5))), number=2)
    keys, world = begin(environment)
    offer = jax.jit(environment.offer)
    present = np.array(
        [offer(keys.offers, world._replace(clock=jnp.asarray(t))).columns for t in range(1000)]
    )
    assert (present[:, 0] != present[:, 1]).all()
    counts = np.bincount(present.ravel(), minlength=5)
    # Each count has mean 400 and variance 240; at |z| < 4.5 one of five fails for 3e-5 of seeds.
    assert (np.abs(counts - 400) < 4.5 * np.sqrt(240)).all()
    used = world._replace(open=jnp.zeros((2, 5), bool), times=world.times + 1)
    np.testing.assert_array_equal(
        offer(keys.offers, used).columns, offer(keys.offers, world).columns
    )


def test_a_policy_plays_arrivals_to_the_end():
    """Every pick is in the column that arrived, and nobody beats the exact benchmark."""
    data = synthetic(rows=8, columns=6, true_rank=2)
    environment = wrappers.arrivals(make_environment(data, initial=5))
    preset = presets.paper(rank=2, method="svi", first_steps=20, steps=10, window=10)
    finals = {}
    for name in ("greedy", "oracle", "random"):
        settings = {"draws": 4} if name == "greedy" else {}
        loop = make_loop(environment, preset.policy(name, **settings), horizon=20, refits=2)
        sweep = make_sweep(loop, devices=jax.devices()[:1])
        *_, last = sweep.resume(sweep.start([0, 1]))
        found = curves(last)
        for index, seed in enumerate((0, 1)):
            keys, world = begin(environment, seed)
            arrived = [
                int(environment.offer(keys.offers, world._replace(clock=jnp.asarray(t))).columns[0])
                for t in range(20)
            ]
            np.testing.assert_array_equal(found.cols[index], arrived)
            # The best sequence for all offers is the best for each number of them here.
            assert (found.regret[index] >= -1e-4).all()
        finals[name] = found.regret[:, -1].mean()
    assert finals["oracle"] < finals["random"]


def test_an_offer_without_anything_passes():
    """One column has one entry: whoever it arrives for a second time gets nothing."""
    environment = wrappers.arrivals(make([[1.0, 2.0]]))
    policy = presets.paper().policy("random")
    loop = make_loop(environment, policy, horizon=6, refits=2)
    sweep = make_sweep(loop, devices=jax.devices()[:1])
    *_, last = sweep.resume(sweep.start([0]))
    found = curves(last)
    assert sorted(set(found.cols[0].tolist())) in ([-1, 0], [-1, 0, 1], [-1, 1])
    np.testing.assert_allclose(found.regret[0], 0.0, atol=1e-6)
    assert (found.reward[0][found.cols[0] < 0] == 0.0).all()


def test_wrappers_refuse_what_they_cannot_do():
    repeated = make_environment(lambda key, seed: None, initial=0, beta=0.5, once=False)
    for wrap in (wrappers.arrivals, lambda e: wrappers.restricted(e, lambda key, clock: False)):
        with pytest.raises(ValueError, match=r": is for entries that are chosen once; set once="):
            wrap(repeated)
    with pytest.raises(ValueError, match=r"^arrivals: must be at least 1, got 0$"):
        wrappers.arrivals(make([[1.0]]), number=0)
    many = wrappers.arrivals(make([[1.0, 2.0]]), number=3)
    keys, world = begin(many)
    with pytest.raises(ValueError, match=r"^arrivals: must be at most the 2 columns, got 3$"):
        many.best(keys.offers, world, 4)
    for wrapped in (many, wrappers.restricted(make([[1.0]]), lambda key, clock: False)):
        with pytest.raises(ValueError, match=r"^arrivals: must be the innermost wrapper"):
            wrappers.arrivals(wrapped)


@pytest.mark.parametrize("name", ["ids", "greedy", "thompson", "ids_particles"])
def test_an_empty_offer_teaches_nothing(name):
    """A policy that met empty offers chooses as one that did not, wherever it has a choice."""
    exists = np.array([[True, False, False], [True, True, False], [True, True, False]])
    entries = np.where(exists, np.random.default_rng(0).normal(size=(3, 3)), np.nan)
    environment = wrappers.arrivals(make(entries, available=exists))
    settings = {"draws": 3} if name != "thompson" else {"pool": 3}
    settings |= {"particles": 3, "rank": 1} if name == "ids_particles" else {}
    policy = presets.Preset(rank=1, inference={"first_steps": 5, "steps": 5, "window": 5})
    policy = policy.policy(name, **settings)
    loop = make_loop(environment, policy, horizon=12, refits=2)
    sweep = make_sweep(loop, devices=jax.devices()[:1])
    *_, last = sweep.resume(sweep.start([0, 1]))
    found = curves(last)
    assert (found.cols < 0).any()
    assert np.isfinite(found.regret).all()
    for leaf in jax.tree.leaves(last.carry.policy):
        assert not jnp.issubdtype(leaf.dtype, jnp.floating) or np.isfinite(leaf).all()
