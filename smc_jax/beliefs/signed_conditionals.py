"""The conditional distributions of the model with signed loadings: each block given all others.

Given the latent columns X the rows are linear regressions with normal priors, and given the rows so
are the columns: both are drawn exactly, with the algebra of `gaussian`. What the rows share, v_k in
W_dk ~ N(v_k, r_k^2), is a part of the state here.

Features F of the rows and G of the columns move the means: W_dk ~ N(v_k + f_d'B_k, r_k^2),
b_d ~ N(f_d'B_b, s_b^2) and x_n ~ N(B_c'g_n, I). A weight has the variance of what it moves times a
relevance, one for each side, whose root is half-Cauchy a priori: near zero where features tell
nothing, free where they do.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import gammaln

from smc_jax.algebra.symmetric import solve, upper_triangle
from smc_jax.beliefs.feature_weights import Weights, sample_weights
from smc_jax.looks import Seen
from smc_jax.model import gaussian
from smc_jax.model.features import Features
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import LOG_RANGE, Parameters

WALKS = 4  # Metropolis steps for each parameter without a conjugate prior, in a sweep
NONE = Features()
# Columns' noise scales lie within that many prior deviations: where a column shows one value over
# and over its scale would go to zero, and its precision beyond what float32 can solve with.
FARTHEST = 4.0
WIDTH = 2.4  # of a step, in standard deviations of a normal with the curvature of its target


class State(NamedTuple):
    """One state of a chain; weights are None where there are no features."""

    parameters: Parameters
    shared: Array  # [K]  v
    latents: Array  # [N, K + M]  X, the offsets of columns last
    row_weights: Weights | None = None
    column_weights: Weights | None = None

    def centre(self, features: Features) -> Array:
        """The means of the loadings, [D, K], or [1, K] where all rows have the same."""
        if features.rows is None or self.row_weights is None:
            return self.shared[None]
        return self.shared + features.rows @ self.row_weights.weights[:, : self.shared.size]

    def intercept_centre(self, features: Features) -> Array:
        """The means of the intercepts, [D, 1], or [1, 1] zero; also where there are none."""
        if features.rows is None or self.row_weights is None:
            return jnp.zeros((1, 1), self.shared.dtype)
        last = self.row_weights.weights[:, self.shared.size :]  # [M, 1], or [M, 0] without them
        return jnp.asarray(features.rows) @ last.sum(1, keepdims=True)


class Prior(NamedTuple):
    """The settings of `gamma_process` that the conditional distributions need."""

    common: float
    intercepts: bool
    learned_scale: bool  # of the intercepts
    offsets: bool  # of the columns
    noise_shape: float
    noise_rate: float
    fixed_noise: bool
    noise_bound: float | None
    noise_spread: float
    residual: bool = True  # whether rows have more than what their features say

    @classmethod
    def of(cls, model: Model) -> "Prior":
        """The settings that the model was made with."""
        given = model.settings
        return cls(
            given["common"],
            given["intercepts"],
            given["intercepts"] and given["intercept_scale"] is None,
            given["offsets"],
            given["noise_shape"],
            given["noise_rate"],
            given["fixed_noise"] is not None,
            given["noise_bound"],
            given["noise_spread"],
            given["residual"],
        )


def sample_rows(
    key: Array, state: State, data: Seen, prior: Prior, features: Features = NONE
) -> State:
    """An exact draw of W and b given X, r, s_b and the means v_d of W and u_d of b.

    With w_d = v_d + r z_d and b_d = u_d + s_b z_d0, z_d standard normal, row d is a column of the
    factor model whose loadings are the rows (r x_n, s_b) / noise_n, seen in
    (y_dn - v_d'x_n - u_d - offset_n) / noise_n.
    """
    given, k = state.parameters, state.shared.size
    x, offsets = state.latents[:, :k], state.latents[:, k:] @ given.offsets
    noise = jnp.broadcast_to(given.noise(), (data.columns,))
    design, centre = x * given.strengths, state.centre(features)
    if prior.intercepts:
        constant = jnp.broadcast_to(given.intercept_scale, (len(x), 1))
        design = jnp.concatenate([design, constant], axis=1)
    regression = Parameters.plain(design / noise[:, None], jnp.ones((), x.dtype))
    own = state.intercept_centre(features)
    known = {"rows": own[:, 0], "columns": offsets, "scale": noise}
    scaled = data.less(centre, x, **known).transposed()
    _, z = gaussian.sample_columns(key, regression, scaled)
    found = given._replace(loadings=centre + given.strengths * z[:, :k])
    if prior.intercepts:
        found = found._replace(intercepts=own[:, 0] + given.intercept_scale * z[:, k])
    return state._replace(parameters=found)


def sample_shared(key: Array, state: State, prior: Prior, features: Features = NONE) -> State:
    """An exact draw of v given W, r and the weights: D loadings of each factor, and its prior."""
    w, r = state.parameters.loadings, state.parameters.strengths
    left = w - (state.centre(features) - state.shared)
    precision = len(w) + 1.0 / prior.common  # in units of 1 / r^2
    z = jax.random.normal(key, r.shape, w.dtype)
    return state._replace(shared=left.sum(0) / precision + r * z / jnp.sqrt(precision))


def shift_loadings(key: Array, state: State, data: Seen, prior: Prior) -> State:
    """An exact draw, given X and W - v, of all that rows share: v, and the loading of offsets.

    It moves all loadings of a factor. Where rows say little, v given W hardly moves, since W stays
    near v: this draw does.
    """
    given, x, k = state.parameters, state.latents, state.shared.size
    noise = jnp.broadcast_to(given.noise(), (data.columns,))
    deviations = given.loadings - state.shared
    left = data.misfit(deviations, given.intercepts, x[:, :k].T).total
    scale = jnp.sqrt(prior.common) * given.strengths
    scale = jnp.concatenate([scale, jnp.ones_like(given.offsets)])
    features = x * scale / noise[:, None]
    (i, j), _ = upper_triangle(scale.size)
    precision = (features.T * data.by_column()) @ features + jnp.eye(scale.size, dtype=x.dtype)
    normals = jax.random.normal(key, (scale.size, 1), x.dtype)
    solved = solve(precision[i, j][:, None], (features.T @ (left / noise))[:, None], normals)
    found = scale * (solved.solution + solved.draw)[:, 0]
    moved = given._replace(loadings=deviations + found[:k], offsets=found[k:])
    return state._replace(shared=found[:k], parameters=moved)


def walk(
    key: Array, at: Array, log_density: Callable[[Array], Array], width: Array | float
) -> Array:
    """Some Metropolis steps of independent coordinates, whose log densities have the same shape."""

    def step(index: Array, at: Array) -> Array:
        move_key, accept_key = jax.random.split(jax.random.fold_in(key, index))
        there = at + width * jax.random.normal(move_key, at.shape, at.dtype)
        gained = log_density(there) - log_density(at)
        taken = jnp.log(jax.random.uniform(accept_key, at.shape, at.dtype)) < gained
        return jnp.where(taken, there, at)

    return lax.fori_loop(0, WALKS, step, at)


def sample_process(key: Array, state: State, prior: Prior, features: Features = NONE) -> State:
    """Metropolis steps of r and gamma0 in the logarithm, and an exact draw of c0."""
    strength_key, gamma0_key, c0_key = jax.random.split(key, 3)
    given = state.parameters
    rows, k = given.loadings.shape
    squares, number = ((given.loadings - state.centre(features)) ** 2).sum(0), rows
    if not prior.residual:
        squares, number = jnp.zeros_like(squares), 0
    if prior.common > 0.0:
        squares, number = squares + state.shared**2 / prior.common, number + 1
    if state.row_weights is not None:
        weights, relevance = state.row_weights.weights[:, :k], state.row_weights.relevance
        squares = squares + ((weights / jnp.sqrt(relevance)) ** 2).sum(0)
        number = number + len(weights)

    def of_log_strength(log_r: Array) -> Array:
        process = given.gamma0 / k * log_r - given.c0 * jnp.exp(log_r)
        whole = process - number * log_r - 0.5 * squares * jnp.exp(-2.0 * log_r)
        return jnp.where(jnp.abs(log_r) <= LOG_RANGE, whole, -jnp.inf)  # beyond, squares are 0

    width = WIDTH / (2.0 * number) ** 0.5  # the curvature at the mode is twice their number
    log_r = walk(strength_key, jnp.log(given.strengths), of_log_strength, width)

    def of_log_gamma0(log_gamma0: Array) -> Array:
        shape = jnp.exp(log_gamma0) / k
        each = shape * (jnp.log(given.c0) + log_r) - gammaln(shape)
        return each.sum() - jnp.exp(log_gamma0) + log_gamma0

    gamma0 = jnp.exp(walk(gamma0_key, jnp.log(given.gamma0), of_log_gamma0, 0.7))
    r = jnp.exp(log_r)
    c0 = jax.random.gamma(c0_key, 1.0 + gamma0, dtype=r.dtype) / (1.0 + r.sum())
    return state._replace(parameters=given._replace(strengths=r, gamma0=gamma0, c0=c0))


def sample_intercept_scale(
    key: Array, state: State, prior: Prior, features: Features = NONE
) -> State:
    """Metropolis steps of s_b in the logarithm, given the intercepts and what moves them."""
    given = state.parameters
    squares = ((given.intercepts - state.intercept_centre(features)[:, 0]) ** 2).sum()
    number = given.intercepts.size
    if not prior.residual:  # what is left is one constant
        squares, number = squares / number, 1
    if state.row_weights is not None:
        weights, relevance = state.row_weights.weights[:, -1], state.row_weights.relevance
        squares, number = squares + (weights**2).sum() / relevance, number + weights.size

    def of_log_scale(log_s: Array) -> Array:
        half_cauchy = log_s - jnp.log1p(jnp.exp(2.0 * log_s))
        return half_cauchy - number * log_s - 0.5 * squares * jnp.exp(-2.0 * log_s)

    width = WIDTH / (2.0 * number) ** 0.5  # as for the strengths
    log_s = walk(key, jnp.log(given.intercept_scale), of_log_scale, width)
    return state._replace(parameters=given._replace(intercept_scale=jnp.exp(log_s)))


def sample_noise(key: Array, state: State, data: Seen, prior: Prior) -> State:
    """Metropolis steps of the columns' noise scales, and an exact draw of sigma.

    Where sigma is bounded it has Metropolis steps too.
    """
    scale_key, sigma_key = jax.random.split(key)
    given, number = state.parameters, data.by_column()
    squares = data.misfit(given.factors(), given.intercepts, state.latents.T).squares
    if prior.noise_spread > 0.0:

        def of_log_scale(log_t: Array) -> Array:
            misfit = 0.5 * squares * jnp.exp(-2.0 * log_t) / given.sigma**2
            inside = -number * log_t - misfit - 0.5 * (log_t / prior.noise_spread) ** 2
            return jnp.where(jnp.abs(log_t) <= FARTHEST * prior.noise_spread, inside, -jnp.inf)

        width = WIDTH / jnp.sqrt(2.0 * number + prior.noise_spread**-2)
        log_t = walk(scale_key, jnp.log(given.noise_scales), of_log_scale, width)
        given = given._replace(noise_scales=jnp.exp(log_t))
    if not prior.fixed_noise:
        shape = prior.noise_shape + 0.5 * number.sum()
        rate = prior.noise_rate + 0.5 * (squares / given.noise_scales**2).sum()
        if prior.noise_bound is None:
            precision = jax.random.gamma(sigma_key, shape, dtype=rate.dtype) / rate
            given = given._replace(sigma=precision**-0.5)
        else:
            limit = 0.5 * math.log(prior.noise_bound)

            def of_log_sigma(log_sigma: Array) -> Array:
                inside = -2.0 * shape * log_sigma - rate * jnp.exp(-2.0 * log_sigma)
                return jnp.where(log_sigma <= limit, inside, -jnp.inf)

            # The curvature of an unbounded one at its mode is four times the shape. Where the
            # density still rises at the bound, it falls off below with its slope there.
            slope = jnp.maximum(2.0 * (rate / prior.noise_bound - shape), 1e-30)
            width = WIDTH * jnp.minimum(0.5 / jnp.sqrt(shape), 1.0 / slope)
            log_sigma = walk(sigma_key, jnp.log(given.sigma), of_log_sigma, width)
            given = given._replace(sigma=jnp.exp(log_sigma))
    return state._replace(parameters=given)


def sample_features(key: Array, state: State, prior: Prior, features: Features) -> State:
    """Exact draws of what the features of rows and of columns weigh, given W, b and X."""
    row_key, column_key = jax.random.split(key)
    given = state.parameters
    if features.rows is not None and state.row_weights is not None and prior.residual:
        left, scale = given.loadings - state.shared, given.strengths
        if prior.intercepts:
            left = jnp.concatenate([left, given.intercepts[:, None]], axis=1)
            scale = jnp.append(scale, given.intercept_scale)
        found = sample_weights(row_key, features.rows, left, scale, state.row_weights)
        state = state._replace(row_weights=found)
    if features.columns is not None and state.column_weights is not None:
        scale = jnp.ones_like(state.latents[0])
        own = sample_weights(
            column_key, features.columns, state.latents, scale, state.column_weights
        )
        means = jnp.asarray(features.columns, scale.dtype) @ own.weights
        state = state._replace(column_weights=own, parameters=given._replace(latent_means=means))
    return state
