"""Answers that are told late."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conforming import make

from smc_jax.beliefs.base import Diagnostics
from smc_jax.data.synthetic import synthetic
from smc_jax.policies.base import Policy
from smc_jax.simulation import environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.offers import arrivals, budgets
from smc_jax.simulation.silence import silent
from smc_jax.types import Choice

ROWS, COLUMNS, INITIAL, HORIZON = 5, 6, 4, 12


class Diary(NamedTuple):
    """What a policy could know when it chose, absorbed and refitted."""

    picks: jax.Array  # [] int: choices so far
    known: jax.Array  # [HORIZON] observations at each choice
    absorbed: jax.Array  # [] int: answers that it was told
    order: jax.Array  # [HORIZON] the rows of the answers, in the order they were told
    refitted: jax.Array  # [] int: observations at the last refit


def spy():
    """Takes the first entry that is open, and keeps a diary of what it knew."""

    def init(key, data, offer, prior=None):
        none = jnp.zeros((), int)
        return Diary(none, jnp.zeros(HORIZON), none, jnp.full(HORIZON, -1), jnp.zeros(()))

    def choose(key, diary, data, offer):
        index = jnp.argmax(offer.open.ravel())
        return Choice(index // offer.open.shape[1], offer.column_of(index % offer.open.shape[1]))

    def absorb(key, diary, data, outcome, offer):
        there = outcome.row < ROWS
        order = diary.order.at[diary.absorbed].set(jnp.where(there, outcome.row, -1))
        return diary._replace(
            absorbed=diary.absorbed + there, order=jnp.where(there, order, diary.order)
        )

    def refit(key, diary, data, offer):
        return diary._replace(refitted=data.number())

    def diagnose(diary):
        nothing = jnp.zeros(())
        return Diagnostics(nothing, nothing, nothing, jnp.ones((), bool))

    def choose_several(key, diary, data, offer, pending, number):
        assert number == 1
        one = choose(key, diary, data, offer)
        return Choice(one.row[None], one.column[None])

    return Policy(init, refit, choose, absorb, diagnose, None, choose_several)


def world_of(wrap=lambda e: e, *, once=True):
    data = synthetic(rows=ROWS, columns=COLUMNS, true_rank=2)
    beta = 0.0 if once else 1.0
    made = environment.make_environment(data, initial=INITIAL, once=once, beta=beta)
    return wrap(made)


def play(policy, *, wrap=lambda e: e, refits=3, once=True, batches=None, **settings):
    loop = make_loop(world_of(wrap, once=once), policy, horizon=HORIZON, refits=refits, **settings)
    begun = loop.reset(jnp.uint32(3))
    carry = begun.carry(loop.init(begun))
    advance = jax.jit(loop.advance, static_argnums=1)
    return advance(carry, batches or loop.batches), carry, advance


@pytest.mark.parametrize("delay", [1, 5, 20])
def test_an_answer_is_told_after_its_delay_and_never_before(delay):
    """Step by step: after pick i the answers of the picks up to i - delay are known, in order."""
    (_, _, whole), carry, _ = play(spy(), delay=delay)
    loop = make_loop(world_of(), spy(), horizon=HORIZON, refits=HORIZON, delay=delay)
    pick = jax.jit(loop.picks)
    initial = carry.world.data.number()
    for done in range(1, HORIZON + 1):
        carry, step = pick(carry, jax.random.key(done))
        told, diary = carry.policy.told, carry.policy.told.policy
        known = max(done - delay, 0)
        assert diary.absorbed == known
        assert diary.order[:known].tolist() == whole.row[:known].tolist()
        assert told.data.number() == initial + known
        assert told.pending.sum() == min(done, delay)
        assert carry.seen is told.data
        assert carry.world.data.number() == initial + done
        assert step.valid.all()


def test_what_is_told_at_refits_is_told_there_and_the_rest_is_lost():
    (carry, _, steps), _, _ = play(spy(), refits=3, told="at_refits")
    diary = carry.policy.told.policy
    assert diary.absorbed == 8  # of 12: the last batch is never told
    assert diary.order[:8].tolist() == steps.row[:8].tolist()
    assert carry.policy.told.pending.sum() == 4
    assert (np.asarray(steps.reward) != 0.0).all()  # its rewards count
    first = play(spy(), refits=3, told="at_refits", batches=1)[0][0].policy.told
    assert first.policy.absorbed == 0
    assert diary.refitted == first.policy.refitted + 8


def test_entries_that_are_pending_are_closed_where_they_can_be_chosen_again():
    (_, _, steps), _, _ = play(spy(), delay=3, once=False)
    chosen = list(zip(steps.row.tolist(), steps.column.tolist(), strict=True))
    # The first entry again and again, but while it is pending.
    assert chosen == [(0, 0), (0, 1), (0, 2), (0, 3)] * 3


@pytest.mark.parametrize("settings", [{"delay": 3}, {"told": "at_refits"}])
def test_delays_can_be_stopped_and_resumed(settings):
    (whole, _, steps), carry, advance = play(spy(), **settings)
    parts = []
    for _ in range(3):
        carry, _, step = advance(carry, 1)
        parts.append(step)
    chex.assert_trees_all_equal(carry, whole)
    chex.assert_trees_all_equal(jax.tree.map(lambda *x: jnp.concatenate(x), *parts), steps)


def test_told_at_refits_is_an_ask_of_a_whole_batch():
    """Of a rule whose choice is no draw: the same entries, one offer after another or at once."""
    (_, _, late), _, _ = play(make("greedy"), told="at_refits")
    (_, _, asked), _, _ = play(make("greedy"), asked=HORIZON // 3)
    for field in ("row", "column", "reward"):
        np.testing.assert_array_equal(getattr(late, field), getattr(asked, field))


def test_without_a_delay_nothing_is_carried_for_one():
    (carry, _, _), _, _ = play(make("random"), delay=0, told="at_once")
    assert carry.seen is carry.world.data
    assert type(carry.policy) is type(make("random").init(None, None, None))


@pytest.mark.parametrize(
    ("title", "settings"),
    [("ids", {"delay": 2}), ("thompson", {"told": "at_refits"}), ("ids_particles", {"delay": 2})],
)
def test_late_answers_under_offers_that_change(title, settings):
    """Offers become empty too: what is never asked is never told."""

    def wrap(made):
        return budgets(arrivals(made, number=2), column=2)

    (carry, refits, steps), _, _ = play(make(title), wrap=wrap, **settings)
    assert steps.valid.all()
    assert refits.diagnostics.finite.all()
    assert (np.bincount(steps.column[steps.column >= 0], minlength=COLUMNS) <= 2).all()
    assert np.isfinite(np.asarray(carry.policy.told.data.sums)).all()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"delay": -1}, r"^delay: must not be negative"),
        ({"told": "never"}, r"^told: unknown 'never'; choose from at_once, at_refits"),
        ({"delay": 2, "told": "at_refits"}, r"^delay: must be 0 where answers are told at refits"),
        ({"delay": 2, "asked": 3}, r"^asked: must be 1 where answers are told late"),
    ],
)
def test_delays_that_cannot_be_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        make_loop(world_of(), spy(), horizon=HORIZON, **settings)


@pytest.mark.parametrize("arriving", [False, True])
def test_where_all_is_pending_a_pick_passes_though_it_can_be_asked_again(arriving):
    inner = environment.make_environment(synthetic(rows=2, columns=3, true_rank=1), initial=0)
    inner = arrivals(inner, number=2) if arriving else inner
    made = silent(inner, ask_again=True)
    loop = make_loop(made, spy(), horizon=HORIZON, refits=1, told="at_refits")
    begun = loop.reset(jnp.uint32(3))
    _, _, steps = jax.jit(loop.advance, static_argnums=1)(begun.carry(loop.init(begun)), 1)
    assert steps.valid.all()
    asked = np.asarray(steps.row * 3 + steps.column)[np.asarray(steps.row) >= 0]
    assert len(asked) == len(set(asked.tolist()))
    assert len(asked) == 6 or arriving
