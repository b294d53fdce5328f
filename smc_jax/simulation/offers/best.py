"""The best sequence where each pick takes an entry of one of the groups that are present.

A group is a column, where columns arrive, or a row, where rows are in stock for a while. The sets
of entries that t picks can take form a transversal matroid, whose best basis grows by one entry a
pick: what t - 1 picks can take spans, of what is left, at least what t picks do.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.simulation.environment import Environment, World

# All kinds of randomness that wrappers have, also of silence: no two have the same number.
KINDS = ARRIVALS, CLOSED, STOCK, ACTIVITY, SILENT = 1, 2, 3, 4, 5


def needs_once(name: str, environment: Environment) -> None:
    """Refuses an environment whose entries can be chosen again."""
    if not environment.once:
        raise ValueError(f"{name}: is for entries that are chosen once; set once=True")


def open_values(environment: Environment, world: World) -> Array:
    """The expected reward [D, N] of every entry that is left, were it on offer; -inf elsewhere."""
    reward = environment.factor(world) * world.problem.entries
    return jnp.where(world.open, reward, -jnp.inf)


def best_of_each_arrival(arriving: Array, value: Array) -> Array:
    """The reward [T] of the a-th arrival of a column: its a-th largest value, 0 beyond the last."""
    ordered = -jnp.sort(-value, axis=0)

    def one(times: Array, column: Array) -> tuple[Array, Array]:
        rank = times[column]
        there = ordered.at[rank, column].get(mode="fill", fill_value=-jnp.inf)
        return times.at[column].add(1), jnp.where(jnp.isfinite(there), there, 0.0)

    start = jnp.zeros(value.shape[1], int)
    return lax.scan(one, start, arriving)[1]


class Matching(NamedTuple):
    """Which group each pick so far takes an entry of."""

    serving: Array  # [T] int: the group; G for none
    taken: Array  # [G] int: how many entries of each group are taken, the largest ones
    links: Array  # [G, G] int: [g, h] counts the picks that take from g where h is present too


class _Path(NamedTuple):
    """The groups from which one pick more can be had, and how far away they are."""

    depth: Array  # [G] int: picks that must take from another group than now; -1: out of reach
    level: Array  # [] int: how far the search has come


def best_in_groups(present: Array, value: Array) -> Array:
    """The reward [T] that each pick adds to the best sequence of the picks up to it.

    Adding a pick, the new entry is the best next one of the groups that can be reached from those
    present: a group g leads to the picks that take from g, and these to the other groups that were
    present then, which can serve them in its place. Every offer is served that can be, also by a
    loss; where all that is reached is taken the pick adds 0.

    Args:
      present: [T, G] which groups each pick can take from.
      value: [A, G] of the entries of each group, -inf where there is none.
    """
    picks, groups = present.shape
    ordered, present_at = -jnp.sort(-value, axis=0), present.T
    index = jnp.arange(groups)

    def reach(matching: Matching, here: Array, target: Array) -> Array:
        """The depth [G] of the groups in reach; those beyond the target may be left out."""

        def searching(path: _Path) -> Array:
            return (path.depth == path.level).any() & (path.depth[target] < 0)

        def further(path: _Path) -> _Path:
            edge = (path.depth == path.level)[:, None] & (matching.links > 0)
            new = edge.any(0) & (path.depth < 0)
            return _Path(jnp.where(new, path.level + 1, path.depth), path.level + 1)

        start = _Path(jnp.where(here, 0, -1), jnp.zeros((), int))
        return lax.while_loop(searching, further, start).depth

    def one(matching: Matching, pick: Array) -> tuple[Matching, Array]:
        following = ordered.at[matching.taken, index].get(mode="fill", fill_value=-jnp.inf)
        depth = reach(matching, present[pick], jnp.argmax(following))
        within = jnp.where(depth >= 0, following, -jnp.inf)
        new = jnp.argmax(within)
        found = jnp.isfinite(within[new])

        def unserved(state: tuple[Matching, Array]) -> Array:
            return found & (depth[state[1]] > 0)

        def hand_over(state: tuple[Matching, Array]) -> tuple[Matching, Array]:
            """A pick that took from the group before takes from this one."""
            (serving, taken, links), group = state
            before = jnp.argmax((depth == depth[group] - 1) & (links[:, group] > 0))
            moved = jnp.argmax((serving == before) & present_at[group])
            others = present[moved].astype(links.dtype)
            links = links.at[before].add(-others).at[group].add(others)
            return Matching(serving.at[moved].set(group), taken, links), before

        matching, group = lax.while_loop(unserved, hand_over, (matching, new))
        serving, taken, links = matching
        served = Matching(
            serving.at[pick].set(jnp.where(found, group, groups)),
            taken.at[new].add(found),
            links.at[group].add((found & present[pick]).astype(links.dtype)),
        )
        return served, jnp.where(found, within[new], 0.0)

    nobody = Matching(
        jnp.full(picks, groups),
        jnp.zeros(groups, int),
        jnp.zeros((groups, groups), jnp.int32),
    )
    return lax.scan(one, nobody, jnp.arange(picks))[1]


def increments(*totals: Array) -> Array:
    """What each pick adds to the least of several bounds [T] on the sum of the first t rewards."""
    least = totals[0]
    for total in totals[1:]:
        least = jnp.minimum(least, total)
    return jnp.diff(least, prepend=0.0)


def gains(rewards: Array) -> Array:
    """Sums [T] of rewards where whatever is a loss, or does not exist, can be left."""
    return jnp.cumsum(jnp.maximum(rewards, 0.0))


def largest_gains(value: Array, horizon: int) -> Array:
    """Sums [T] of the t largest values, where none counts as less than 0."""
    largest = lax.top_k(value.ravel(), min(horizon, value.size))[0]
    return gains(jnp.pad(largest, (0, horizon - largest.size)))


def bound(each: Array, value: Array) -> Array:
    """Increments of the lesser of two bounds on a sum of t rewards.

    One is the sum of what each offer [T] has at the most, as if nothing were ever taken, the other
    the sum of the t largest values. Nothing counts as less than 0, which is what an offer earns
    that is empty, or has become so.
    """
    return increments(gains(each), largest_gains(value, each.size))


def at_clocks(function, clock: Array, horizon: int):  # type: ignore[no-untyped-def]
    """What a function of the time says of each of the picks to come, on the first axis."""
    return lax.map(function, clock + jnp.arange(horizon), batch_size=256)


def own_key(key: Array, kind: int, before: int = 0) -> Array:
    """The randomness of a wrapper of this kind, where so many of the kind are within it."""
    return jax.random.fold_in(key, kind + before * len(KINDS))
