"""Convex completion: least squares with a nuclear norm, by accelerated proximal gradient.

With P the projection on the seen entries, a solution is a matrix Z that minimises

    1/2 |P(M - Z)|^2 + penalty |Z|_*,    |Z|_* = the sum of the singular values,

(Mazumder, Hastie & Tibshirani 2010; Candes & Plan 2010). A gradient step of length one fills the
unseen entries of M with the entries of Z, and the proximal step shrinks the singular values.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.completion.masked import seen_part


class NuclearCompletion(NamedTuple):
    """A solution at one penalty."""

    matrix: Array  # [D, N]
    rank: Array  # of the matrix
    objective: Array  # 1/2 |P(M - Z)|^2 + penalty |Z|_*
    penalty: Array
    steps: Array  # taken, over the whole path if there was one


class _Iterate(NamedTuple):
    matrix: Array  # [D, N]: Z
    ahead: Array  # [D, N]: Z and its momentum, where the next gradient is taken
    spectrum: Array  # [min(D, N)]: singular values of Z, ascending
    momentum: Array  # t of FISTA; 1 where it starts anew
    objective: Array
    settled: Array  # the step before changed too little
    steps: Array


def noise_penalty(mask: Array, sigma: float | Array) -> Array:
    """The penalty sigma (sqrt D + sqrt N) sqrt(p) of Candes & Plan, p the fraction of entries seen.

    It is the spectral norm of P(noise), for noise of standard deviation sigma: the smallest
    penalty that leaves nothing of pure noise.
    """
    seen = (mask > 0).astype(jnp.result_type(float)).mean()
    rows, columns = mask.shape
    return sigma * (rows**0.5 + columns**0.5) * jnp.sqrt(seen)


def shrink(matrix: Array, threshold: float | Array) -> tuple[Array, Array]:
    """Lowers the singular values by a threshold, to zero at most: the matrix and those left.

    With B B' = U diag(s^2) U' on the smaller side, it is U diag(max(1 - threshold / s, 0)) U'B.
    """
    if matrix.shape[0] > matrix.shape[1]:
        transposed, spectrum = shrink(matrix.T, threshold)
        return transposed.T, spectrum
    squares, vectors = jnp.linalg.eigh(matrix @ matrix.T, symmetrize_input=False)
    values = jnp.sqrt(jnp.maximum(squares, 0.0))
    left = jnp.maximum(values - threshold, 0.0)
    share = left / jnp.where(values > 0, values, 1.0)
    return (vectors * share) @ (vectors.T @ matrix), left


@jax.jit
def nuclear_completion(
    values: Array,
    mask: Array,
    *,
    penalty: float | Array,
    start: Array | None = None,
    steps: int | Array = 500,
    tolerance: float | Array = 1e-3,
) -> NuclearCompletion:
    """The solution at one penalty; values where the mask is 0 are ignored.

    FISTA (Beck & Teboulle 2009), begun anew wherever the momentum points uphill (O'Donoghue &
    Candes 2015).

    Args:
        values: The matrix [D, N].
        mask: Above zero where an entry has been seen.
        penalty: In the units of the values; one of |P(M)|_2 or more gives zero.
        start: A matrix [D, N] near the solution, such as that of a larger penalty; else zero.
        steps: The most steps. One is an eigendecomposition of size min(D, N).
        tolerance: Ends where a step changes the matrix by less than this fraction of |P(M)|, or the
            objective by less than the square of this fraction: seldom seen, Z is hardly curved.
    """
    mask, values = seen_part(values, mask)
    start = jnp.zeros_like(values) if start is None else start.astype(values.dtype)
    return _solve(values, mask, jnp.asarray(penalty, values.dtype), start, steps, tolerance)


@functools.partial(jax.jit, static_argnames="points")
def nuclear_path(
    values: Array,
    mask: Array,
    *,
    penalty: float | Array,
    points: int = 4,
    steps: int | Array = 500,
    tolerance: float | Array = 1e-3,
) -> NuclearCompletion:
    """The solution at a penalty, reached through larger ones, each from the solution before.

    The `points` penalties fall geometrically from |P(M)|_2, where the solution is zero, to the one
    asked for, which alone is solved to the tolerance; the others to ten times it.
    """
    mask, values = seen_part(values, mask)
    largest = jnp.maximum(shrink(values, 0.0)[1].max(), jnp.finfo(values.dtype).tiny)
    last = jnp.asarray(penalty, values.dtype)
    ratio = jnp.clip(last / largest, jnp.finfo(values.dtype).eps, 1.0)
    penalties = largest * ratio ** (jnp.arange(1, points) / points)

    def descend(carry: tuple[Array, Array], penalty: Array) -> tuple[tuple[Array, Array], None]:
        matrix, taken = carry
        solved = _solve(values, mask, penalty, matrix, steps, 10 * tolerance)
        return (solved.matrix, taken + solved.steps), None

    (matrix, taken), _ = lax.scan(descend, (jnp.zeros_like(values), jnp.zeros((), int)), penalties)
    solved = _solve(values, mask, last, matrix, steps, tolerance)
    return solved._replace(steps=solved.steps + taken)


def _solve(
    values: Array,
    mask: Array,
    penalty: Array,
    start: Array,
    steps: int | Array,
    tolerance: float | Array,
) -> NuclearCompletion:
    scale = jnp.maximum(jnp.sqrt((values**2).sum()), jnp.finfo(values.dtype).tiny)

    def unfinished(state: _Iterate) -> Array:
        return ~state.settled & (state.steps < steps)

    def step(state: _Iterate) -> _Iterate:
        matrix, spectrum = shrink(values + (1 - mask) * state.ahead, penalty)
        move = matrix - state.matrix
        uphill = ((state.ahead - matrix) * move).sum() > 0
        now = jnp.where(uphill, 1.0, state.momentum)
        after = 0.5 * (1 + jnp.sqrt(1 + 4 * now**2))
        ahead = matrix + (now - 1) / after * move
        objective = 0.5 * ((values - mask * matrix) ** 2).sum() + penalty * spectrum.sum()
        fallen = jnp.abs(state.objective - objective)
        settled = (move**2).sum() <= (tolerance * scale) ** 2
        settled |= (fallen <= tolerance**2 * objective) & ~uphill
        return _Iterate(matrix, ahead, spectrum, after, objective, settled, state.steps + 1)

    one = jnp.ones((), values.dtype)
    nothing = jnp.zeros(min(values.shape), values.dtype)
    begin = _Iterate(
        start, start, nothing, one, jnp.inf * one, jnp.asarray(False), jnp.zeros((), int)
    )
    end = lax.while_loop(unfinished, step, begin)
    rank = (end.spectrum > 0).sum()
    return NuclearCompletion(end.matrix, rank, end.objective, penalty, end.steps)
