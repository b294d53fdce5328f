"""A matrix that is nowhere written down: entries are computed when asked, and looks are lists.

`run` is the bandit loop for it. What grows with the number of entries is nothing: the fit, the
offers and the best sequence follow what was seen and the two factors of the matrix.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from smc_jax.beliefs.base import Diagnostics
from smc_jax.checks import at_least
from smc_jax.growing import Growing, Unseen
from smc_jax.looks import Looks
from smc_jax.policies.base import Policy
from smc_jax.simulation.environment import Step
from smc_jax.types import Outcome

MOST = 2**28  # entries that the best sequence sorts at once
BLOCK = 2**24  # entries that are computed at once


class Factored(NamedTuple):
    """A matrix by its factors: entry (d, n) is b_d + w_d'x_n, and an answer has fresh noise."""

    intercepts: Array  # [D]
    loadings: Array  # [D, R]
    latents: Array  # [N, R]
    noise: Array  # []  standard deviation of an answer

    @property
    def shape(self) -> tuple[int, int]:
        """D and N."""
        return len(self.loadings), len(self.latents)

    def at(self, row: Array, column: Array) -> Array:
        """Some entries, by rows and columns of one shape."""
        return self.intercepts[row] + (self.loadings[row] * self.latents[column]).sum(-1)

    def of(self, columns: Array) -> Array:
        """Some columns [D, C]; where there is none, whatever."""
        latents = jnp.take(self.latents, columns, axis=0, mode="clip")
        return self.intercepts[:, None] + self.loadings @ latents.T

    def answer(self, key: Array, row: Array, column: Array) -> Array:
        """What is seen of an entry: a function of the key, the row and the column."""
        key = jax.random.fold_in(jax.random.fold_in(key, row), column)
        return self.at(row, column) + self.noise * jax.random.normal(key)


class Lists(NamedTuple):
    """What was seen, on the host: an entry is seen once."""

    row: np.ndarray  # [n] int
    column: np.ndarray  # [n] int
    value: np.ndarray  # [n]

    def with_answers(self, data: Growing) -> "Lists":
        """The same with the answers that came since the looks were filled."""
        pairs = zip(self, data.answers(), strict=True)
        return Lists(*(np.concatenate([old, new]) for old, new in pairs))


class Batch(NamedTuple):
    """One refit and the picks after it."""

    diagnostics: Diagnostics
    steps: Step  # [picks]
    lists: Lists  # what was seen before it


def unseen_maxima(matrix: Factored, looks: Looks) -> Array:
    """The largest entry [N] of each column that was not seen; -inf where there is none."""
    blocks = looks.blocks(max(BLOCK // looks.rows, 1))

    def of_block(block: tuple[Array, Array]) -> Array:
        number, columns = block
        seen = looks.of_block(number, columns).dense().seen()
        return jnp.where(seen, -jnp.inf, matrix.of(columns)).max(0)

    found = lax.map(of_block, (jnp.arange(len(blocks)), blocks))
    nothing = jnp.full(looks.columns, -jnp.inf, found.dtype)
    return nothing.at[blocks.ravel()].set(found.ravel(), mode="drop")


def best_rewards(matrix: Factored, looks: Looks, horizon: int) -> Array:
    """The `horizon` largest entries that were not seen, the largest first.

    They lie in the columns with the `horizon` largest maxima: all others have that many entries
    above them.
    """
    rows, columns = matrix.shape
    number = min(horizon, columns)
    if number * rows > MOST:
        raise ValueError(
            f"horizon: the best sequence of {horizon} picks would sort {number * rows} entries;"
            f" take at most {MOST // rows}"
        )
    best = lax.top_k(unseen_maxima(matrix, looks), number)[1]
    seen = looks.at_columns(best).seen()
    entries = jnp.where(seen, -jnp.inf, matrix.of(best)).ravel()
    found = lax.top_k(entries, min(horizon, entries.size))[0]
    return jnp.pad(found, (0, horizon - found.size), constant_values=-jnp.inf)


class _Carry(NamedTuple):
    key: Array
    data: Growing
    policy: Any


def _pick(matrix: Factored, noise_key: Array, policy: Policy) -> Callable[..., tuple[_Carry, Step]]:
    """One pick, answered and told at once."""

    def pick(carry: _Carry, key: Array) -> tuple[_Carry, Step]:
        choose_key, absorb_key = jax.random.split(key)
        data: Any = carry.data
        offer: Any = Unseen(data)
        row, column = policy.choose(choose_key, carry.policy, data, offer)
        valid = offer.is_open(row, column)
        row, column = (jnp.where(valid, index, 0) for index in (row, column))
        entry, value = matrix.at(row, column), matrix.answer(noise_key, row, column)
        data = data.add(row, column, value, valid)
        outcome = Outcome(row, column, value, valid)
        state = policy.absorb(absorb_key, carry.policy, data, outcome, Unseen(data))  # type: ignore[arg-type]
        step = Step(row, column, value, entry, valid, valid)
        return carry._replace(data=data, policy=state), step

    return pick


def run(
    key: Array,
    matrix: Factored,
    lists: Lists,
    policy: Policy,
    *,
    picks: int,
    batches: int = 1,
    filled: Callable[[Lists, Looks | None], Looks] | None = None,
    told: Callable[[str, int], None] = lambda phase, number: None,
) -> Iterator[Batch]:
    """Refits and picks, one batch after another.

    Args:
      key: randomness of the policy and of the noise.
      matrix: the truth.
      lists: what was seen beforehand.
      policy: a rule that keeps some columns: `ids`, `greedy` or `ucb` with `kept`.
      picks: of a batch.
      batches: how many there are.
      filled: makes looks of lists, in the shapes of earlier looks where these are given.
      told: called with `filled`, `refit` or `picks`, and the number of the batch, after each.
    """
    at_least("picks", picks, 1)
    at_least("batches", batches, 1)
    make = filled or looks_of(*matrix.shape)
    init_key, noise_key, key = jax.random.split(key, 3)
    looks = make(lists, None)
    told("filled", 0)
    begun = jax.jit(lambda key, data: policy.init(key, data, Unseen(data)))  # type: ignore[arg-type]
    state = begun(init_key, looks)

    @jax.jit
    def refit(key: Array, state: Any, looks: Looks) -> tuple[Any, Diagnostics]:
        data: Any = looks
        offer: Any = Unseen(looks)
        state = policy.refit(key, state, data, offer)
        return state, policy.diagnose(state)

    @jax.jit
    def choose(key: Array, state: Any, looks: Looks, matrix: Factored) -> tuple[_Carry, Step]:
        carry = _Carry(key, Growing.of(looks, picks), state)
        return lax.scan(_pick(matrix, noise_key, policy), carry, jax.random.split(key, picks))

    for number in range(batches):
        refit_key, pick_key = jax.random.split(jax.random.fold_in(key, number))
        state, diagnostics = jax.block_until_ready(refit(refit_key, state, looks))
        told("refit", number)
        carry, steps = jax.block_until_ready(choose(pick_key, state, looks, matrix))
        told("picks", number)
        _check(diagnostics, steps, number, picks)
        yield Batch(diagnostics, jax.tree.map(np.asarray, steps), lists)
        state = carry.policy
        lists = lists.with_answers(carry.data)
        if number + 1 < batches:
            looks = make(lists, looks)
            told("filled", number + 1)


def looks_of(rows: int, columns: int, **settings: Any) -> Callable[[Lists, Looks | None], Looks]:
    """Makes looks of lists, in groups of which no block has more than BLOCK entries.

    Settings are those of `Looks.of`.
    """

    def make(lists: Lists, like: Looks | None) -> Looks:
        def filled(**more: Any) -> Looks:
            return Looks.of(*lists, rows=rows, columns=columns, turns=False, like=like, **more)

        if like is not None:
            return filled()
        made, least = filled(**settings), min(-(-rows * columns // BLOCK), columns)
        return made if made.groups >= least else filled(**{**settings, "groups": least})

    return make


def _check(diagnostics: Diagnostics, steps: Step, number: int, picks: int) -> None:
    """Raises if a posterior is not finite or a choice was not open, and says where."""
    if not np.asarray(diagnostics.finite).all():
        raise FloatingPointError(f"the posterior is not finite at refit {number}")
    broken = np.flatnonzero(~np.asarray(steps.valid))
    if broken.size:
        raise RuntimeError(f"pick {number * picks + broken[0]} was not an open entry")
