"""The posterior of the model with signed loadings by Gibbs sampling.

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
from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or, several_of, stored_belief
from smc_jax.beliefs.feature_weights import Weights, check_features, sample_weights
from smc_jax.beliefs.starts import Start
from smc_jax.checks import at_least
from smc_jax.model import gaussian
from smc_jax.model.features import Features
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import LOG_RANGE, Parameters
from smc_jax.observations import Observations

WALKS = 4  # Metropolis steps for each parameter without a conjugate prior, in a sweep
NONE = Features()
WIDTH = 2.4  # of a step, in standard deviations of a normal with the curvature of its target


class State(NamedTuple):
    """One state of a chain; weights are None where there are no features."""

    parameters: Parameters
    shared: Array  # [K]  v
    latents: Array  # [N, K]  X
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


class Chains(NamedTuple):
    """Where C chains stand, and the draws they stored at the last refit."""

    states: State  # leading axis C
    draws: Parameters  # leading axis S
    refits: Array  # [] int


class Prior(NamedTuple):
    """The settings of `gamma_process` that the conditional distributions need."""

    common: float
    intercept_scale: float | None  # None: rows have no intercepts
    noise_shape: float
    noise_rate: float
    fixed_noise: bool
    noise_bound: float | None
    noise_spread: float

    @classmethod
    def of(cls, model: Model) -> "Prior":
        """The settings that the model was made with."""
        given = model.settings
        return cls(
            given["common"],
            given["intercept_scale"] if given["intercepts"] else None,
            given["noise_shape"],
            given["noise_rate"],
            given["fixed_noise"] is not None,
            given["noise_bound"],
            given["noise_spread"],
        )


def sample_rows(
    key: Array, state: State, data: Observations, prior: Prior, features: Features = NONE
) -> State:
    """An exact draw of W and b given X, r and the means v_d of W and u_d of b.

    With w_d = v_d + r z_d and b_d = u_d + s_b z_d0, z_d standard normal, row d is a column of the
    factor model whose loadings are the rows (r x_n, s_b) / noise_n, seen in
    (y_dn - v_d'x_n - u_d) / noise_n.
    """
    given, x = state.parameters, state.latents
    noise = jnp.broadcast_to(given.noise(), (data.columns,))
    design, centre = x * given.strengths, state.centre(features)
    if prior.intercept_scale is not None:
        constant = jnp.full((len(x), 1), prior.intercept_scale, x.dtype)
        design = jnp.concatenate([design, constant], axis=1)
    regression = Parameters.plain(design / noise[:, None], jnp.ones((), x.dtype))
    own = state.intercept_centre(features)
    scaled = data.relative_to(centre @ x.T + own, noise).transposed()
    _, z = gaussian.sample_columns(key, regression, scaled)
    k = x.shape[1]
    found = given._replace(loadings=centre + given.strengths * z[:, :k])
    if prior.intercept_scale is not None:
        found = found._replace(intercepts=own[:, 0] + prior.intercept_scale * z[:, k])
    return state._replace(parameters=found)


def sample_shared(key: Array, state: State, prior: Prior, features: Features = NONE) -> State:
    """An exact draw of v given W, r and the weights: D loadings of each factor, and its prior."""
    w, r = state.parameters.loadings, state.parameters.strengths
    left = w - (state.centre(features) - state.shared)
    precision = len(w) + 1.0 / prior.common  # in units of 1 / r^2
    z = jax.random.normal(key, r.shape, w.dtype)
    return state._replace(shared=left.sum(0) / precision + r * z / jnp.sqrt(precision))


def shift_loadings(key: Array, state: State, data: Observations, prior: Prior) -> State:
    """An exact draw of v given X and the deviations W - v, which moves all loadings of a factor.

    Where rows say little, v given W hardly moves, since W stays near v: this draw does.
    """
    given, x = state.parameters, state.latents
    noise = jnp.broadcast_to(given.noise(), (data.columns,))
    deviations = given.loadings - state.shared
    left = data.misfit(deviations, given.intercepts, x.T).residual.sum(0)
    scale = jnp.sqrt(prior.common) * given.strengths
    features = x * scale / noise[:, None]
    (i, j), _ = upper_triangle(scale.size)
    precision = (features.T * data.by_column()) @ features + jnp.eye(scale.size, dtype=x.dtype)
    normals = jax.random.normal(key, (scale.size, 1), x.dtype)
    solved = solve(precision[i, j][:, None], (features.T @ (left / noise))[:, None], normals)
    shared = scale * (solved.solution + solved.draw)[:, 0]
    return state._replace(shared=shared, parameters=given._replace(loadings=deviations + shared))


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


def sample_noise(key: Array, state: State, data: Observations, prior: Prior) -> State:
    """Metropolis steps of the columns' noise scales, and an exact draw of sigma.

    Where sigma is bounded it has Metropolis steps too.
    """
    scale_key, sigma_key = jax.random.split(key)
    given, number = state.parameters, data.by_column()
    squares = data.misfit(given.loadings, given.intercepts, state.latents.T).squares
    if prior.noise_spread > 0.0:

        def of_log_scale(log_t: Array) -> Array:
            misfit = 0.5 * squares * jnp.exp(-2.0 * log_t) / given.sigma**2
            return -number * log_t - misfit - 0.5 * (log_t / prior.noise_spread) ** 2

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
    if features.rows is not None and state.row_weights is not None:
        left, scale = given.loadings - state.shared, given.strengths
        if prior.intercept_scale is not None:
            left = jnp.concatenate([left, given.intercepts[:, None]], axis=1)
            scale = jnp.append(scale, prior.intercept_scale)
        found = sample_weights(row_key, features.rows, left, scale, state.row_weights)
        state = state._replace(row_weights=found)
    if features.columns is not None and state.column_weights is not None:
        scale = jnp.ones_like(given.strengths)
        own = sample_weights(
            column_key, features.columns, state.latents, scale, state.column_weights
        )
        means = jnp.asarray(features.columns, scale.dtype) @ own.weights
        state = state._replace(column_weights=own, parameters=given._replace(latent_means=means))
    return state


def sweep(
    key: Array, state: State, data: Observations, prior: Prior, features: Features = NONE
) -> State:
    """X, then W and b, v, the weights, the strengths and the noise, each given all the others."""
    keys = jax.random.split(key, 7)
    _, latents = gaussian.sample_columns(keys[0], state.parameters, data)
    state = sample_rows(keys[1], state._replace(latents=latents), data, prior, features)
    if prior.common > 0.0:
        state = sample_shared(keys[2], state, prior, features)
        state = shift_loadings(keys[3], state, data, prior)
    state = sample_features(keys[6], state, prior, features)
    state = sample_process(keys[4], state, prior, features)
    return sample_noise(keys[5], state, data, prior)


def signed_gibbs(
    model: Model,
    start: Start,
    features: Features = NONE,
    *,
    chains: int = 1,
    draws: int = 16,
    sweeps: int = 6,
    first_sweeps: int = 200,
) -> Belief:
    """The posterior by chains that go on from refit to refit.

    Earlier `Chains` of a matrix of the same size may be given as the prior: they go on.

    Args:
      model: the prior of the parameters, with signed loadings.
      start: where the parameters of each chain start.
      features: what is known of rows and columns beforehand.
      chains: C, how many chains go side by side.
      draws: S, the draws stored at each refit, a multiple of C.
      sweeps: Gibbs sweeps of a chain before each draw that it stores.
      first_sweeps: Gibbs sweeps of a chain before the first draw of the first refit.
    """
    at_least("chains", chains, 1)
    at_least("sweeps", sweeps, 1)
    at_least("first_sweeps", first_sweeps, 0)
    several_of(draws, chains)
    if not model.signed:
        raise ValueError("model: its loadings must be signed for Gibbs sampling")
    settings = Prior.of(model)

    def begin(key: Array, data: Observations) -> State:
        parameters = model.constrain(start(key, data))
        shared = parameters.loadings.mean(0) if settings.common > 0.0 else jnp.zeros(model.rank)
        latents = jnp.zeros((data.columns, model.rank))
        moved = model.rank + (settings.intercept_scale is not None), model.rank
        known = zip(features, moved, strict=True)
        rows, columns = (x if x is None else Weights.none(x, number) for x, number in known)
        if columns is not None:
            parameters = parameters._replace(latent_means=latents)
        return State(parameters, shared, latents, rows, columns)

    def init(key: Array, data: Observations, prior: Chains | None = None) -> Chains:
        check_features(features, data)
        states = jax.vmap(begin, in_axes=(0, None))(jax.random.split(key, chains), data)
        repeats = draws // chains
        stored = jax.tree.map(lambda x: jnp.concatenate([x] * repeats), states.parameters)
        begun = Chains(states, stored, jnp.zeros((), int))
        return earlier_or(begun, prior, "Gibbs")

    def refit(key: Array, state: Chains, data: Observations) -> Chains:
        first = jnp.where(state.refits == 0, first_sweeps, 0)

        def one(key: Array, state: State) -> tuple[State, Parameters]:
            def move(index: Array, state: State) -> State:
                return sweep(jax.random.fold_in(key, index), state, data, settings, features)

            def store(state: State, begin: Array) -> tuple[State, Parameters]:
                state = lax.fori_loop(begin, begin + sweeps, move, state)
                return state, state.parameters

            begins = first + sweeps * jnp.arange(draws // chains)
            return lax.scan(store, lax.fori_loop(0, first, move, state), begins)

        keys = jax.random.split(key, chains)
        states, stored = jax.vmap(one)(keys, state.states)
        stored = jax.tree.map(lambda x: x.reshape(draws, *x.shape[2:]), stored)
        return Chains(states, stored, state.refits + 1)

    return stored_belief(init, refit, lambda state: Diagnostics.of_draws(state.draws))
