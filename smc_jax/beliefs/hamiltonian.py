"""The posterior by Hamiltonian Monte Carlo: chains side by side that go on from refit to refit.

The latent columns are integrated out, so that a chain moves the parameters alone, in unconstrained
space. All chains share one step size and one diagonal metric, which are adapted to all of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from smc_jax.algebra.columns import whole
from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or, several_of, stored_belief
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.history import heeding_history
from smc_jax.beliefs.starts import Start
from smc_jax.beliefs.variational import Inference, Variational, draw, informed_by
from smc_jax.checks import at_least, between
from smc_jax.model.earlier import Earlier
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations

Density = Callable[[Array], tuple[Array, Array]]  # position [P] -> log density and its gradient

# The share of the last transition in what is adapted: it falls with their number, and not to zero,
# since the posterior moves on as data come in. While draws are stored nothing is adapted: a metric
# that follows the chains would bias them.
LEAST_SHARE = 0.02
LEAST_RATE = 0.05
JITTER = (0.6, 1.2)  # of the step size, so that no trajectory closes on itself


class Adaptation(NamedTuple):
    """What all chains share: running averages over them and over their transitions."""

    log_step: Array  # []
    mean: Array  # [P]  of the positions
    variance: Array  # [P]  of the positions
    force: Array  # [P]  mean of the squared gradients
    transitions: Array  # [] int

    def scale(self) -> Array:
        """The step [P] of each coordinate, in units of the step size.

        Of a normal posterior the variance of a position is the inverse of the mean squared
        gradient. The geometric mean of both estimates forgives more than either alone.
        """
        return (self.variance / self.force) ** 0.25

    def after(self, points: "Point", accepted: Array, target: float) -> "Adaptation":
        """The same after a transition of the chains [C] to these points."""
        position, gradient = points.position, points.gradient
        number = self.transitions.astype(self.mean.dtype)
        share = jnp.maximum(1.0 / (number + 10.0), LEAST_SHARE)
        rate = jnp.maximum((number + 1.0) ** -0.6, LEAST_RATE)
        mean = self.mean + share * (position.mean(0) - self.mean)
        spread = ((position - self.mean) * (position - mean)).mean(0)
        squares = gradient**2  # a chain may have begun where they are too large for a number
        force = jnp.where(jnp.isfinite(squares), squares, self.force).mean(0)
        return Adaptation(
            self.log_step + rate * (accepted - target),
            mean,
            self.variance + share * (spread - self.variance),
            self.force + share * (force - self.force),
            self.transitions + 1,
        )


class Point(NamedTuple):
    """Where a chain stands."""

    position: Array  # [P]
    log_density: Array  # []
    gradient: Array  # [P]


class Chains(NamedTuple):
    """Where C chains stand, what they have learned of their step, and the draws they stored."""

    position: Array  # [C, P]
    log_density: Array  # [C]  at the last refit
    adaptation: Adaptation
    draws: Parameters  # leading axis S
    refits: Array  # [] int
    earlier: Earlier | None = None  # a part of the prior: see `model.earlier`


def transition(
    key: Array, density: Density, start: Point, step: Array, *, leapfrogs: int
) -> tuple[Point, Array]:
    """One Metropolis-corrected trajectory with steps [P], and how likely its end was accepted."""
    momentum_key, accept_key = jax.random.split(key)
    momentum = jax.random.normal(momentum_key, start.position.shape)

    def leapfrog(_: int, at: tuple[Point, Array]) -> tuple[Point, Array]:
        point, momentum = at
        momentum = momentum + 0.5 * step * point.gradient
        position = point.position + step * momentum
        point = Point(position, *density(position))
        return point, momentum + 0.5 * step * point.gradient

    end, after = lax.fori_loop(0, leapfrogs, leapfrog, (start, momentum))
    gained = end.log_density - start.log_density - 0.5 * (after @ after - momentum @ momentum)
    gained = jnp.where(jnp.isfinite(gained), gained, -jnp.inf)
    taken = jnp.log(jax.random.uniform(accept_key)) < gained
    point = jax.tree.map(lambda new, old: jnp.where(taken, new, old), end, start)
    return point, jnp.exp(jnp.minimum(gained, 0.0))


class Kernel(NamedTuple):
    """One transition of all chains."""

    density: Density
    leapfrogs: int
    acceptance: float

    def move(self, key: Array, points: Point, adapted: Adaptation) -> tuple[Point, Array]:
        """The chains [C] after a transition of each, and the share that was accepted.

        The step is jittered for all alike.
        """
        step_key, own_key = jax.random.split(key)
        low, high = JITTER
        jitter = jax.random.uniform(step_key, dtype=adapted.mean.dtype, minval=low, maxval=high)
        step = jitter * jnp.exp(adapted.log_step) * adapted.scale()

        def one(key: Array, point: Point) -> tuple[Point, Array]:
            return transition(key, self.density, point, step, leapfrogs=self.leapfrogs)

        keys = jax.random.split(own_key, len(points.position))
        points, accepted = jax.vmap(one)(keys, points)
        return points, accepted.mean()

    def adapt(self, key: Array, points: Point, adapted: Adaptation) -> tuple[Point, Adaptation]:
        """The chains after a transition, and what they have learned of their step from it."""
        points, accepted = self.move(key, points, adapted)
        return points, adapted.after(points, accepted, self.acceptance)


def hamiltonian(
    model: Model,
    start: Start,
    inference: Inference,
    *,
    first_steps: int = 1000,
    chains: int = 2,
    draws: int = 48,
    thin: int = 1,
    first_transitions: int = 40,
    transitions: int = 4,
    leapfrogs: int = 16,
    acceptance: float = 0.8,
) -> Belief:
    """The posterior by chains that start from q, and are moved on at every refit.

    Earlier `Chains` of a matrix of the same size may be given as the prior: they go on. An
    `EarlierFit` by SVI, of other columns, is the prior itself.

    Args:
      model: the prior of the parameters, with gamma loadings; signed ones have `signed_gibbs`.
      start: where q is centred before it is fitted.
      inference: how q, from which the chains start, is fitted, made by `svi`.
      first_steps: gradient steps of that fit.
      chains: C, how many chains go side by side.
      draws: S, the draws stored at each refit, a multiple of C.
      thin: transitions of a chain between two draws that it stores.
      first_transitions: transitions of a chain before the first draw of the first refit. Step size
        and metric are adapted in them.
      transitions: the same for every other refit.
      leapfrogs: gradient steps of a transition.
      acceptance: the share of accepted transitions that the step size is adapted to.
    """
    at_least("first_steps", first_steps, 0)
    for name, value in (("chains", chains), ("thin", thin), ("leapfrogs", leapfrogs)):
        at_least(name, value, 1)
    at_least("first_transitions", first_transitions, 0)
    at_least("transitions", transitions, 0)
    between("acceptance", acceptance, 0.0, 1.0)
    several_of(draws, chains)
    if model.signed:
        raise ValueError("model: signed loadings have Gibbs sampling; use signed_gibbs")

    def init(key: Array, data: Observations, prior: Chains | EarlierFit | None = None) -> Chains:
        start_key, fit_key, draw_key = jax.random.split(key, 3)
        fit = inference.init(start(start_key, data))
        if isinstance(prior, EarlierFit):
            fit, prior = informed_by(fit, prior), None
        fit = inference.run(fit_key, fit, data, first_steps)
        begun = from_fit(draw_key, model, fit.q, chains=chains, draws=draws)
        kept = prior if isinstance(prior, Chains) else fit  # whose part of the prior stays
        return earlier_or(begun._replace(earlier=kept.earlier), prior, "Hamiltonian")

    def refit(key: Array, state: Chains, data: Observations) -> Chains:
        unravel = _unravel(model, state.draws)
        informed = model._replace(earlier=state.earlier)
        density = jax.value_and_grad(lambda at: informed.log_joint(unravel(whole(at)), data))
        kernel = Kernel(density, leapfrogs, acceptance)

        def adapt(index: Array, now: tuple[Point, Adaptation]) -> tuple[Point, Adaptation]:
            return kernel.adapt(jax.random.fold_in(key, index), *now)

        points = Point(state.position, *jax.vmap(density)(state.position))
        before = jnp.where(state.refits == 0, first_transitions, transitions)
        points, adapted = lax.fori_loop(0, before, adapt, (points, state.adaptation))

        def move(index: Array, points: Point) -> Point:
            return kernel.move(jax.random.fold_in(key, index), points, adapted)[0]

        def store(points: Point, begin: Array) -> tuple[Point, Array]:
            points = lax.fori_loop(begin, begin + thin, move, points)
            return points, points.position

        begins = before + thin * jnp.arange(draws // chains)
        points, stored = lax.scan(store, points, begins)
        drawn = _constrained(model, unravel, stored.reshape(draws, -1))
        at = points.position, points.log_density
        return Chains(*at, adapted, drawn, state.refits + 1, state.earlier)

    return heeding_history(stored_belief(init, refit, _diagnose))


def _diagnose(state: Chains) -> Diagnostics:
    kept = (state.position, state.log_density, state.adaptation)
    finite = jnp.isfinite(ravel_pytree(kept)[0]).all()
    return Diagnostics.of_draws(state.draws)._replace(finite=finite)


def from_fit(key: Array, model: Model, q: Variational, *, chains: int, draws: int) -> Chains:
    """Chains at draws of q, with steps in units of its standard deviations."""
    mean, unravel = ravel_pytree(q.mean)
    variance = jnp.exp(2 * ravel_pytree(q.log_scale)[0])
    drawn = jax.vmap(draw, in_axes=(0, None))(jax.random.split(key, chains), q)
    position = jax.vmap(lambda one: ravel_pytree(one)[0])(drawn)
    log_step = jnp.log(jnp.asarray(0.1, mean.dtype))
    adaptation = Adaptation(log_step, mean, variance, 1 / variance, jnp.zeros((), int))
    stored = _constrained(model, unravel, jnp.tile(position, (draws // chains, 1)))
    nothing = jnp.zeros(chains, mean.dtype)
    return Chains(position, nothing, adaptation, stored, jnp.zeros((), int))


def _unravel(model: Model, draws: Parameters) -> Callable[[Array], Parameters]:
    """From a position [P] to unconstrained parameters of the shapes that the draws have."""
    return ravel_pytree(model.unconstrain(jax.tree.map(lambda x: x[0], draws)))[1]


def _constrained(
    model: Model, unravel: Callable[[Array], Parameters], positions: Array
) -> Parameters:
    """The parameters at positions [S, P]."""
    return jax.vmap(lambda one: model.constrain(unravel(one)))(positions)
