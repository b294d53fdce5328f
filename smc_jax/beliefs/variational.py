"""Stochastic variational inference with a mean field q in unconstrained space (Alg. 1)."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from smc_jax.algebra.columns import whole
from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or
from smc_jax.beliefs.earlier import EarlierFit, continued, earlier_of
from smc_jax.beliefs.history import heeding_history
from smc_jax.beliefs.minibatch import Hand, Ring, columns_from, ring
from smc_jax.beliefs.starts import Start
from smc_jax.checks import at_least, positive
from smc_jax.looks import Seen
from smc_jax.model.earlier import Earlier
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import Parameters
from smc_jax.model.rank import expected_ranks


class Variational(NamedTuple):
    """q: independent normals on the unconstrained parameters, log-normals on the positive ones."""

    mean: Parameters
    log_scale: Parameters


class Fit(NamedTuple):
    """A variational posterior on its way to the optimum."""

    q: Variational
    optimiser: optax.OptState  # kept from refit to refit: see `svi`
    elbo: Array  # []  mean over the last window of steps
    steps: Array  # [] int: steps taken since the start
    earlier: Earlier | None = None  # a part of the prior: see `model.earlier`


def centred_at(unconstrained: Parameters, scale: float) -> Variational:
    """q centred at a starting point, with one standard deviation for every coordinate."""
    log_scale = jax.tree.map(lambda x: jnp.full_like(x, jnp.log(scale)), unconstrained)
    return Variational(unconstrained, log_scale)


def reparametrised(z: Array, q: Variational) -> Parameters:
    """u = mu + z sigma_q, for standard normals z as many as there are parameters."""
    mean, unravel = ravel_pytree(q.mean)
    return unravel(whole(mean + jnp.exp(ravel_pytree(q.log_scale)[0]) * z))


def draw(key: Array, q: Variational) -> Parameters:
    """One draw of the unconstrained parameters."""
    return reparametrised(jax.random.normal(key, (_size(q),)), q)


def _size(q: Variational) -> int:
    """The number of parameters."""
    return sum(x.size for x in jax.tree.leaves(q.mean))


def entropy(q: Variational) -> Array:
    """H(q) in unconstrained space."""
    constant = 0.5 * jnp.log(2 * jnp.pi * jnp.e)
    return sum(x.sum() + x.size * constant for x in jax.tree.leaves(q.log_scale))


class Chance(NamedTuple):
    """All that is random in an estimate of the ELBO."""

    z: Array  # [draws, parameters]  standard normals
    start: Array  # [draws] int: where in their order the columns of a step begin


def chance(key: Array, q: Variational, *, draws: int, starts: int) -> Chance:
    """Fresh randomness for a number of draws, which begin at one of so many places."""
    z_key, start_key = jax.random.split(key)
    z = jax.random.normal(z_key, (draws, _size(q)))
    return Chance(z, jax.random.randint(start_key, (draws,), 0, starts))


def elbo(
    key: Array,
    q: Variational,
    observations: Seen,
    *,
    model: Model,
    draws: int = 1,
    columns: int | None = None,
) -> Array:
    """E_q[log p(Y, theta)] + H(q) <= log p(Y), estimated with reparametrised draws.

    With `columns` each draw has the likelihood of that number of columns at random, scaled: the
    estimate is unbiased, but has their spread too.
    """
    key, order_key = jax.random.split(key)
    seen = observations if columns is None else ring(order_key, observations, columns)
    starts = observations.columns if columns is None else seen.starts
    random = chance(key, q, draws=draws, starts=starts)
    return _elbo(random, q, seen, model=model)


def _elbo(random: Chance, q: Variational, seen: Seen, *, model: Model) -> Array:
    """The estimate that this randomness gives; of some columns where there is a ring of them."""

    def joint(random: Chance) -> Array:
        unconstrained = reparametrised(random.z, q)
        if not isinstance(seen, Ring | Hand):
            return model.log_joint(unconstrained, seen)
        parameters = model.constrain(unconstrained)
        taken, observations, factor = columns_from(random.start, seen, parameters)
        return factor * model.log_likelihood(taken, observations) + model.log_density(unconstrained)

    if len(random.start) == 1:  # a vmap of one would make every product a batched one
        return joint(jax.tree.map(lambda x: x[0], random)) + entropy(q)
    return jax.vmap(joint)(random).mean() + entropy(q)


def loading_moments(q: Variational, *, signed: bool) -> tuple[Array, Array]:
    """Means and variances [D, K] of the loadings, which are log-normal unless signed."""
    mean, variance = q.mean.loadings, jnp.exp(2 * q.log_scale.loadings)
    if signed:
        return mean, variance
    mean = jnp.exp(mean + 0.5 * variance)
    return mean, mean**2 * jnp.expm1(variance)


def adam(learning_rate: float = 0.02, *, first_rate: float = 0.05) -> optax.GradientTransformation:
    """Adam whose rate falls from `first_rate` to `learning_rate` over the first 500 steps."""
    positive("learning_rate", learning_rate)
    positive("first_rate", first_rate)
    return optax.adam(optax.linear_schedule(first_rate, learning_rate, 500))


def adadelta(learning_rate: float = 1.0) -> optax.GradientTransformation:
    """AdaDelta, the paper's choice, with Knowles' step and epsilon."""
    positive("learning_rate", learning_rate)
    return optax.adadelta(learning_rate=learning_rate, rho=0.95, eps=1e-4)


OPTIMISERS = {"adam": adam, "adadelta": adadelta}


class Inference(NamedTuple):
    """A fit is started once and run again whenever data have come in."""

    init: Callable[[Parameters], Fit]  # unconstrained starting point
    run: Callable[[Array, Fit, Seen, ArrayLike], Fit]  # (key, fit, data, steps)


def svi(
    *,
    model: Model,
    optimiser: optax.GradientTransformation,
    draws: int = 1,
    columns: int | None = None,
    window: int = 50,
    tolerance: float = 0.0,
    start_scale: float = 0.1,
) -> Inference:
    """Stochastic gradient ascent on the ELBO.

    The optimiser's state outlives a run. Log-normal draws have heavy-tailed gradients, and Adam
    started afresh at each refit follows the many small ones upwards before it has met a large
    one: the scales of q then grow from refit to refit until the ELBO is lost.

    Args:
      model: the prior.
      optimiser: one of `OPTIMISERS`, or any other of optax.
      draws: reparametrised draws a step.
      columns: how many columns a draw takes, neighbours in an order that is drawn anew at each run,
        or about as many in whole groups of `Looks`; the ELBO that is reported is then an estimate
        from those columns. None is all columns.
      window: steps over which the mean ELBO is taken; a run takes whole windows.
      tolerance: a run has converged once the mean ELBO of a window improves on that of the one
        before by less than `tolerance` times its absolute value; 0 takes all the steps.
      start_scale: standard deviation of q at the start, in unconstrained space.
    """
    at_least("draws", draws, 1)
    at_least("columns", columns, 1, optional=True)
    at_least("window", window, 1)
    at_least("tolerance", tolerance, 0.0)
    positive("start_scale", start_scale)
    if columns is not None and tolerance > 0.0:
        raise ValueError(f"tolerance: must be 0 where a step takes some columns, got {tolerance!r}")

    def init(unconstrained: Parameters) -> Fit:
        q = centred_at(unconstrained, start_scale)
        state = optimiser.init(ravel_pytree(q)[0])
        return Fit(q, state, jnp.asarray(-jnp.inf, float), jnp.zeros((), int))

    def run(key: Array, fit: Fit, observations: Seen, steps: ArrayLike) -> Fit:
        # One flat vector: a step is then a few large operations, quick to compile and to run.
        start, unravel = ravel_pytree(fit.q)
        windows = -(-jnp.asarray(steps) // window)
        seen, starts = observations, observations.columns
        if columns is not None and columns < starts:
            order_key = jax.random.fold_in(key, windows)  # the windows have the numbers below
            seen = ring(order_key, observations, columns)
            starts = seen.starts

        def loss(flat: Array, random: Chance) -> Array:
            return -_elbo(random, unravel(flat), seen, model=model._replace(earlier=fit.earlier))

        def step(carry: tuple, random: Chance) -> tuple[tuple, Array]:
            flat, state = whole(carry)
            value, gradient = whole(jax.value_and_grad(loss)(flat, random))
            updates, state = optimiser.update(gradient, state, flat)
            return (optax.apply_updates(flat, updates), state), -value

        def one_window(state: tuple) -> tuple:
            index, carry, last, _ = state
            # For all steps at once: step by step the generator would cost as much as a small step.
            keys = jax.random.split(jax.random.fold_in(key, index), window)
            fresh = functools.partial(chance, draws=draws, starts=starts)
            random = jax.vmap(fresh, in_axes=(0, None))(keys, fit.q)
            carry, values = lax.scan(step, carry, random)
            return index + 1, carry, values.mean(), last

        def unfinished(state: tuple) -> Array:
            index, _, last, before = state
            converged = (index >= 2) & (last - before < tolerance * jnp.abs(last))
            return (index < windows) & ~(converged & (tolerance > 0))

        before_any = jnp.full_like(fit.elbo, -jnp.inf)
        state = (jnp.zeros((), int), (start, fit.optimiser), fit.elbo, before_any)
        index, (flat, optimiser_state), last, _ = lax.while_loop(unfinished, one_window, state)
        return Fit(unravel(flat), optimiser_state, last, fit.steps + index * window, fit.earlier)

    return Inference(init, run)


def trace(
    key: Array, fit: Fit, observations: Seen, *, inference: Inference, steps: int, runs: int
) -> tuple[Fit, Array]:
    """`runs` runs of `steps` steps each, and the ELBO [runs] after each."""

    def one(fit: Fit, key: Array) -> tuple[Fit, Array]:
        fit = inference.run(key, fit, observations, steps)
        return fit, fit.elbo

    return lax.scan(one, fit, jax.random.split(key, runs))


def variational(
    model: Model,
    start: Start,
    inference: Inference,
    *,
    first_steps: int = 1000,
    steps: int = 100,
) -> Belief:
    """q fitted from `start`, then warm-started at every refit.

    An earlier `Fit` of a matrix of the same size may be given as the prior: q then starts there.
    Of an `EarlierFit`, of other columns, q is the prior itself, and where the new q starts.

    Args:
      model: the prior of the parameters.
      start: where q is centred before the first refit.
      inference: how q is fitted, made by `svi`.
      first_steps: gradient steps of the first refit.
      steps: gradient steps of every other refit.
    """
    at_least("first_steps", first_steps, 0)
    at_least("steps", steps, 0)

    def init(key: Array, data: Seen, prior: Fit | EarlierFit | None = None) -> Fit:
        begun = inference.init(start(key, data))
        if isinstance(prior, EarlierFit):
            return informed_by(begun, prior)
        if isinstance(prior, Fit):  # what was a part of its prior still is
            begun = begun._replace(earlier=prior.earlier)
        return earlier_or(begun, prior, "variational")

    def refit(key: Array, fit: Fit, data: Seen) -> Fit:
        return inference.run(key, fit, data, jnp.where(fit.steps == 0, first_steps, steps))

    def diagnose(fit: Fit) -> Diagnostics:
        finite = jnp.isfinite(ravel_pytree(fit.q)[0]).all() & jnp.isfinite(fit.elbo)
        noise = model.constrain(fit.q.mean).noise()
        found = expected_ranks(*loading_moments(fit.q, signed=model.signed), (noise**2).mean())
        return Diagnostics(fit.elbo, found.effective, found.signal, finite)

    return heeding_history(
        Belief(
            init=init,
            refit=refit,
            draw=lambda key, fit: model.constrain(draw(key, fit.q)),
            diagnose=diagnose,
        )
    )


def informed_by(begun: Fit, prior: EarlierFit) -> Fit:
    """A fit that has just begun, with the q of an earlier one as its prior and as its start."""
    if not isinstance(prior.fit, Fit):
        raise ValueError(
            "prior: an earlier fit is the state of a variational belief, got"
            f" {type(prior.fit).__name__}; hand over its data as a History"
        )
    q = prior.fit.q
    earlier = earlier_of(q, prior.temper, begun.q.mean)
    mean = continued(begun.q.mean, earlier.mean)
    log_scale = continued(begun.q.log_scale, earlier.log_scale)
    return begun._replace(q=Variational(mean, log_scale), earlier=earlier)
