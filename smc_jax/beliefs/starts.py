"""Starting points of the inference: spectral, random, and the maximum a posteriori."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from smc_jax.beliefs.feature_weights import check_features
from smc_jax.beliefs.pairwise import pairs, row_means
from smc_jax.checks import at_least
from smc_jax.looks import Looks, Seen
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import Parameters
from smc_jax.seen import or_one

Start = Callable[[Array, Seen], Parameters]  # (key, data) -> unconstrained parameters


def leading_component(observations: Seen, intercepts: Array, *, signed: bool = False) -> Array:
    """The w [D], non-negative unless signed, whose outer product best fits the second moment.

    Power iteration u = S u / |.|, projected on u >= 0, and w = sqrt(u'S u) u on the pairwise-
    complete moment S between rows, shrunk where few columns share a pair. Its diagonal is left
    out: with little data it is all there is, and each row would become a component of its own.
    Lists of looks have no D x D matrix: see `_moment_of_lists`.
    """
    rows = observations.rows
    if isinstance(observations, Looks):
        moment = _moment_of_lists(observations, intercepts)
    else:
        products, count = pairs(observations, intercepts)
        matrix = products / (count + 5.0) * (1.0 - jnp.eye(rows))
        moment = functools.partial(jnp.matmul, matrix)

    def iterate(_: int, u: Array) -> Array:
        u = moment(u) if signed else jnp.maximum(moment(u), 0.0)
        return u / jnp.maximum(jnp.linalg.norm(u), 1e-12)

    u = lax.fori_loop(0, 30, iterate, jnp.full(rows, rows**-0.5))
    return jnp.sqrt(jnp.maximum(u @ moment(u), 0.0)) * u


def _moment_of_lists(looks: Looks, intercepts: Array) -> Callable[[Array], Array]:
    """u -> S u with S_de = (Z Z')_de / (g_d g_e), the pairs divided by about how many share them.

    Were it random which rows a column shows, the number of columns that share a pair would be
    n_d n_e times one number, t. With g_d = sqrt(t n_d^2 + 5) the divisor is a product of two
    factors, as a matrix that is never made needs it.
    """
    once = dataclasses.replace(looks, count=jnp.minimum(looks.count, 1.0))  # as in the moment
    of_rows, of_columns = once.by_row()[0], once.by_column()
    share = (of_columns**2).sum() / or_one(of_columns.sum()) ** 2
    divisor = jnp.sqrt(share * of_rows**2 + 5.0)
    return lambda u: looks.moment(intercepts, u / divisor) / divisor


def _root_mean_square(observations: Seen, intercepts: Array) -> Array:
    """The scale of the data; 1 where they have none."""
    squares, number = observations.error_about(intercepts), observations.number()
    mean_square = squares / jnp.where(number > 0.0, number, 1.0)
    return jnp.sqrt(jnp.where(mean_square > 0.0, mean_square, 1.0))


def _start(model: Model, loadings: Callable[[Array, Seen, Array, Array], Array]) -> Start:
    """A start from loadings (key, observations, intercepts, scale) -> [D, K].

    Hyperparameters begin where fits end (gamma and gamma0 near 10, c0 near 1). From their prior
    means the small gamma makes wide, heavy-tailed loadings, which SVI does not recover from.
    """

    def start(key: Array, observations: Seen) -> Parameters:
        check_features(model.features, observations)
        free, rows = model.free(), observations.rows
        b = row_means(observations) if "intercepts" in free else jnp.zeros(rows)
        scale = _root_mean_square(observations, b)
        w = loadings(key, observations, b, scale)
        gamma, gamma0, c0 = jnp.asarray([10.0, 10.0, 1.0], w.dtype)
        strengths = jnp.sqrt((w**2).mean(0)) if model.signed else w.mean(0)
        even = jnp.ones(observations.columns if "noise_scales" in free else ())
        offsets = jnp.full(1 if "offsets" in free else 0, 0.3 * scale)
        begun = Parameters.plain(w, 0.5 * scale, b)._replace(
            strengths=strengths,
            gamma=gamma,
            gamma0=gamma0,
            c0=c0,
            noise_scales=even,
            intercept_scale=scale,
            offsets=offsets,
            **{name: jnp.asarray(value, w.dtype) for name, value in model.begun.items()},
        )
        return model.unconstrain(begun)

    return start


def spectral(model: Model) -> Start:
    """The leading component in the first column, on columns that decay geometrically.

    A start whose columns are nearly alike stays so; decaying ones let the fit find the rank.
    """

    def loadings(key: Array, observations: Seen, b: Array, scale: Array) -> Array:
        rows, columns = observations.rows, jnp.arange(model.rank)
        noise = jax.random.normal(key, (rows, model.rank))
        w = 0.3 * scale * 0.8**columns * (noise if model.signed else jnp.exp(0.1 * noise))
        return w.at[:, 0].add(leading_component(observations, b, signed=model.signed))

    return _start(model, loadings)


def random(model: Model) -> Start:
    """Loadings of one size in every column, which together have the data's scale.

    Signed loadings are normal, the others log-normal.
    """

    def loadings(key: Array, observations: Seen, b: Array, scale: Array) -> Array:
        noise = jax.random.normal(key, (observations.rows, model.rank))
        return (
            scale / jnp.sqrt(model.rank) * (noise if model.signed else jnp.exp(0.5 * noise - 0.25))
        )

    return _start(model, loadings)


def maximum_a_posteriori(model: Model, *, steps: int = 300) -> Start:
    """Maximises log p(Y, log W, log sigma, b | r, gamma, gamma0, c0) from the spectral start.

    It is the mode in log space: in W itself the gamma density has a pole at zero. The
    hyperparameters are held there: freed, they make the joint maximum run away.
    """
    at_least("steps", steps, 1)
    origin = spectral(model)
    adam = optax.adam(optax.cosine_decay_schedule(0.05, steps))

    def start(key: Array, observations: Seen) -> Parameters:
        held = origin(key, observations)

        def loss(free: tuple) -> Array:
            loadings, sigma, intercepts = free
            u = held._replace(loadings=loadings, sigma=sigma, intercepts=intercepts)
            return -model.log_joint(u, observations)

        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            free, state = carry
            updates, state = adam.update(jax.grad(loss)(free), state)
            return (optax.apply_updates(free, updates), state), None

        free = (held.loadings, held.sigma, held.intercepts)
        (free, _), _ = lax.scan(step, (free, adam.init(free)), length=steps)
        return held._replace(loadings=free[0], sigma=free[1], intercepts=free[2])

    return start


STARTS = {"spectral": spectral, "random": random, "map": maximum_a_posteriori}
