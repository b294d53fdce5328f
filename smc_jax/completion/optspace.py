"""OptSpace: completion by descent on two Grassmann manifolds (Keshavan, Montanari & Oh 2010).

The matrix is M ~ X S Y' with orthonormal X [D, r] and Y [N, r]. With P the projection on the seen
entries, what is minimised,

    F(X, Y) = min_S 1/2 |P(M - X S Y')|^2 + penalty/2 |S|^2,

depends on the spans of X and Y alone. The start is the rank-r SVD of P(M) without its
over-represented rows and columns; the descent then sees every entry. The penalty, zero in the
first papers, is that of "Regularization for matrix completion" (Keshavan & Montanari 2010).
"""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_factor, cho_solve, solve_triangular

from smc_jax.algebra.symmetric import upper_triangle
from smc_jax.completion.masked import seen_part

Pair = tuple[Array, Array]  # one [D, r], one [N, r]


class Completion(NamedTuple):
    """The matrix left @ core @ right.T; the factors' columns beyond the rank used are zero."""

    left: Array  # [D, r], orthonormal
    core: Array  # [r, r]
    right: Array  # [N, r], orthonormal
    fit: Array  # root mean square misfit over the seen entries
    steps: Array  # of descent taken
    rank: Array  # used


class _Descent(NamedTuple):
    left: Array  # [D, r]
    core: Array  # [r, r]
    right: Array  # [N, r]
    residual: Array  # [D, N]: P(M - X S Y')
    objective: Array  # F(X, Y)
    direction: Pair  # of the step before, moved here
    steepest: Pair  # its preconditioned gradient, moved here
    slope: Array  # <gradient, preconditioned gradient> there
    stalled: Array  # steps in a row without progress
    steps: Array


def complete(completion: Completion) -> Array:
    """The completed matrix [D, N]: X S Y'."""
    return completion.left @ completion.core @ completion.right.T


def trim(values: Array, mask: Array) -> Array:
    """P(M) with the rows and columns seen more than twice as often as the average set to zero."""
    rows, columns = mask.sum(1), mask.sum(0)
    kept = (rows <= 2 * rows.mean())[:, None] & (columns <= 2 * columns.mean())
    return jnp.where(kept & (mask > 0), values, 0.0)


def guess_rank(values: Array, mask: Array, *, largest: int) -> Array:
    """The rank, at most `largest`, that the singular values s of the trimmed matrix suggest.

    The i that minimises (s_{i+1} + s_1 sqrt(i / e)) / s_i, where e = |E| / sqrt(D N). It is right
    if e is large beside the rank and the singular values are alike, and too small otherwise.
    """
    mask, values = seen_part(values, mask)
    spectrum = jnp.linalg.svd(trim(values, mask), compute_uv=False)
    density = jnp.maximum(mask.sum(), 1.0) / mask.size**0.5
    index = jnp.arange(1, spectrum.size + 1)
    cost = jnp.append(spectrum[1:], 0.0) + spectrum[0] * jnp.sqrt(index / density)
    ratio = jnp.where(spectrum > 0, cost / jnp.where(spectrum > 0, spectrum, 1.0), jnp.inf)
    return 1 + jnp.argmin(ratio[:largest])


def solve_core(
    left: Array, core: Array, right: Array, residual: Array, mask: Array, penalty: Array | float
) -> Array:
    """The core S that minimises |P(M - X S Y')|^2 + penalty |S|^2, from the residual R of any S.

    With G_n = sum_d mask_dn x_d x_d', the change solves the normal equations

        (sum_n (y_n y_n') kron G_n + penalty I) vec dS = vec(X'R Y - penalty S).

    A ridge on dS of ten roundings of the trace keeps a core finite that is not determined.
    """
    r = core.shape[0]
    (first, second), position = upper_triangle(r)  # x_a x_b is x_b x_a
    products_left, products_right = (f[:, first] * f[:, second] for f in (left, right))
    products = (mask.T @ products_left).T @ products_right
    normal = products[position[:, None, :, None], position[None, :, None, :]].reshape(r * r, r * r)
    trace = jnp.trace(normal)
    ridge = jnp.where(trace > 0, 10 * jnp.finfo(normal.dtype).eps * trace, 1.0)
    normal = normal + (penalty + ridge) * jnp.eye(r * r, dtype=normal.dtype)
    target = left.T @ residual @ right - penalty * core
    return core + cho_solve(cho_factor(normal), target.reshape(-1)).reshape(r, r)


def gradient(left: Array, core: Array, right: Array, residual: Array) -> Pair:
    """The gradient of F where the core is optimal: -(I - XX') R Y S' and -(I - YY') R'X S."""
    by_left, by_right = -residual @ (right @ core.T), -residual.T @ (left @ core)
    return _tangent(left, by_left), _tangent(right, by_right)


def line_search(
    left: Array,
    core: Array,
    right: Array,
    residual: Array,
    direction: Pair,
    mask: Array,
    penalty: float | Array,
) -> Pair:
    """The step t along a direction (A, B), by halving, and the residual there.

    With the core held, the residual of (X + tA) S (Y + tB)' is R - t L - t^2 Q, and F a quartic
    in t, known without its cancellation. The first t is the Gauss-Newton step, or shorter: it
    turns no span by more than 45 degrees.
    """
    a, b = direction
    linear = mask * (a @ core @ right.T + left @ core @ b.T)
    square = mask * (a @ core @ b.T)
    growth = ((a @ core) ** 2).sum() + ((b @ core.T) ** 2).sum()
    growth_of_both = (core * (a.T @ a @ core @ (b.T @ b))).sum()
    fall = (residual * linear).sum()
    curvature = (linear**2).sum() + penalty * growth
    second = 0.5 * curvature - (residual * square).sum()
    third = (linear * square).sum()
    fourth = 0.5 * ((square**2).sum() + penalty * growth_of_both)

    def too_far(t: Array) -> Array:
        rise = t * (-fall + t * (second + t * (third + t * fourth)))
        return (rise > -0.25 * t * fall) & (t > 0)

    longest = lax.rsqrt(jnp.maximum(_dot(direction, direction), jnp.finfo(a.dtype).tiny))
    gauss_newton = fall / jnp.where(curvature > 0, curvature, jnp.inf)
    t = lax.while_loop(too_far, lambda t: 0.5 * t, jnp.clip(gauss_newton, 0.0, longest))
    return t, residual - t * linear - t**2 * square


@functools.partial(jax.jit, static_argnames=("rank", "guess"))
def optspace(
    values: Array,
    mask: Array,
    *,
    rank: int,
    steps: int | Array = 50,
    tolerance: float | Array = 1e-6,
    progress: float | Array = 1e-4,
    penalty: float | Array = 0.0,
    guess: bool = False,
) -> Completion:
    """Completes a matrix [D, N] by one of low rank; values where the mask is 0 are ignored.

    Args:
        values: The matrix, in any units: nothing depends on its scale.
        mask: Above zero where an entry has been seen.
        rank: Of the result, at most min(D, N).
        steps: The most steps of descent. One costs O(D N r^2 + N r^4 + r^6).
        tolerance: The descent ends where the misfit is this fraction of the seen values,
        progress: or three steps in a row each lower F by less than this fraction of it.
        penalty: On |S|^2, next to which the fraction of entries seen is large or small. Without
            one, as in the papers, entries fewer than the r (D + N - r) unknowns are interpolated
            by factors that grow without bound; 0.01 to 0.03 then keep the matrix to its scale.
        guess: Whether to take `guess_rank` in place of `rank`, which then is the largest allowed.
    """
    chex.assert_scalar_in(rank, 1, min(values.shape))
    mask, values = seen_part(values, mask)
    seen = jnp.maximum(mask.sum(), 1.0)
    size = jnp.sqrt((values**2).sum() / seen)
    scale = jnp.where(size > 0, size, 1.0)
    values = values / scale

    left, _, right = jnp.linalg.svd(trim(values, mask), full_matrices=False)
    used = guess_rank(values, mask, largest=rank) if guess else jnp.asarray(rank, int)
    active = jnp.arange(rank) < used
    left, right = left[:, :rank] * active, right[:rank].T * active
    core = solve_core(left, jnp.zeros((rank, rank), mask.dtype), right, values, mask, penalty)
    residual = values - mask * (left @ core @ right.T)
    objective = _objective(core, residual, penalty)
    still = (jnp.zeros_like(left), jnp.zeros_like(right))
    zero = jnp.zeros((), int)
    start = _Descent(
        left, core, right, residual, objective, still, still, jnp.zeros_like(seen), zero, zero
    )

    def unfinished(state: _Descent) -> Array:
        misfit = (state.residual**2).sum()
        return (misfit > seen * tolerance**2) & (state.stalled < 3) & (state.steps < steps)

    end = lax.while_loop(
        unfinished, lambda state: _step(state, values, mask, penalty, progress), start
    )
    fit = scale * jnp.sqrt((end.residual**2).sum() / seen)
    return Completion(end.left, scale * end.core, end.right, fit, end.steps, used)


def _step(
    state: _Descent, values: Array, mask: Array, penalty: float | Array, progress: float | Array
) -> _Descent:
    """One step of conjugate gradients (Polak & Ribiere) along both manifolds, and a new core.

    The gradient is taken in the metric |A S|^2 + |S B'|^2 of tangents A and B, in which F is about
    equally curved all ways however unequal the singular values of the core.
    """
    left, core, right, residual = state[:4]
    damping = 1e-4 * (core**2).mean(0).sum() + jnp.finfo(core.dtype).eps
    damping = damping * jnp.eye(core.shape[0], dtype=core.dtype)
    slopes = gradient(left, core, right, residual)
    steepest = (
        cho_solve(cho_factor(core @ core.T + damping), slopes[0].T).T,
        cho_solve(cho_factor(core.T @ core + damping), slopes[1].T).T,
    )
    slope = _dot(slopes, steepest)
    turn = (slope - _dot(slopes, state.steepest)) / jnp.where(state.slope > 0, state.slope, jnp.inf)
    conjugate = jax.tree.map(
        lambda old, new: jnp.maximum(turn, 0.0) * old - new, state.direction, steepest
    )
    descends = -_dot(slopes, conjugate) > 0.1 * slope
    direction = jax.tree.map(lambda d, new: jnp.where(descends, d, -new), conjugate, steepest)

    t, residual = line_search(left, core, right, residual, direction, mask, penalty)
    moved = jax.tree.map(lambda frame, d: frame + t * d, (left, right), direction)
    triangles = jax.tree.map(_triangle, moved)
    left, right = jax.tree.map(_divide, moved, triangles)
    core = triangles[0] @ core @ triangles[1].T
    core = solve_core(left, core, right, residual, mask, penalty)
    residual = values - mask * (left @ core @ right.T)
    objective = _objective(core, residual, penalty)

    def move(frame: Array, tangent: Array, triangle: Array) -> Array:
        return _tangent(frame, _divide(tangent, triangle))

    direction = jax.tree.map(move, (left, right), direction, triangles)
    steepest = jax.tree.map(move, (left, right), steepest, triangles)
    stalled = jnp.where(objective < (1 - progress) * state.objective, 0, state.stalled + 1)
    return _Descent(
        left, core, right, residual, objective, direction, steepest, slope, stalled, state.steps + 1
    )


def _objective(core: Array, residual: Array, penalty: float | Array) -> Array:
    return 0.5 * ((residual**2).sum() + penalty * (core**2).sum())


def _tangent(frame: Array, direction: Array) -> Array:
    """The part of a direction that moves the span of an orthonormal frame."""
    return direction - frame @ (frame.T @ direction)


def _triangle(frame: Array) -> Array:
    """The upper triangle U of frame = Q U with orthonormal Q, with ones for columns of zeros."""
    gram = frame.T @ frame
    return jnp.linalg.cholesky(
        gram + jnp.diag((jnp.diag(gram) == 0).astype(gram.dtype)), upper=True
    )


def _divide(frame: Array, triangle: Array) -> Array:
    return solve_triangular(triangle, frame.T, trans=1).T


def _dot(this: Pair, other: Pair) -> Array:
    return (this[0] * other[0]).sum() + (this[1] * other[1]).sum()
