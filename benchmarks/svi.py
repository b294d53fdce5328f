"""One step of SVI, and a fit to the same ELBO, beside NumPyro's.

python -m benchmarks.svi [--repeats=9]

The peer is `numpyro.infer.SVI` with `AutoNormal` on the same priors and likelihood, the latent
columns integrated out, with Cholesky factors of K x K matrices in place of ours, differentiated by
JAX. Both start from the same q with the same optimiser; NumPyro has the scales through a softplus
where ours are logarithms, and samples log q where ours has the entropy in closed form. The ELBO to
reach is the lower of those that the two have, as means over a window, after so many steps; a fit is
as many windows as each needs for it, which depends on the random numbers. A second peer is the
paper's gradient in NumPy, float64, with the covariance of what is seen of a column.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from absl import app, flags
from jax import Array, lax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from benchmarks import timing
from smc_jax.beliefs import starts, variational
from smc_jax.data.synthetic import synthetic
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.noise_prior import sigma_prior
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations

SIZES = flags.DEFINE_list("sizes", ["50x100", "100x1000"], "Rows x columns.")
WINDOWS = flags.DEFINE_integer("windows", 20, "Of the fits that set the ELBO.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 9, "Timings of each program.", lower_bound=1)
RANK, SEEN, WINDOW, RATE, START_SCALE = 20, 0.2, 50, 0.02, 0.1
SITES = ("loadings", "strengths", "gamma", "gamma0", "c0", "sigma")


class Statistics(NamedTuple):
    """What the peers know of the entries: plain arrays [D, N]."""

    counts: Array
    totals: Array
    squares: Array

    @classmethod
    def of(cls, observations: Observations) -> "Statistics":
        """Of everything seen."""
        counts = observations.times_seen()
        return cls(counts, counts * observations.average(), observations.squared_error(0.0))


def cholesky_log_likelihood(loadings: Array, sigma: Array, seen: Statistics) -> Array:
    """log p(Y | W, sigma) as one would write it first: K x K Cholesky factors, column by column."""

    def column(count: Array, total: Array, square: Array) -> Array:
        precision = jnp.eye(loadings.shape[1]) + (loadings.T * count) @ loadings / sigma**2
        factor = jnp.linalg.cholesky(precision)
        field = jax.scipy.linalg.solve_triangular(factor, loadings.T @ total / sigma**2, lower=True)
        return -0.5 * (
            count.sum() * jnp.log(2 * jnp.pi * sigma**2)
            + 2 * jnp.log(jnp.diagonal(factor)).sum()
            + square.sum() / sigma**2
            - (field**2).sum()
        )

    return jax.vmap(column, in_axes=1)(*seen).sum()


def marginal_model(seen: Statistics) -> None:
    """The gamma process factor model without its latent columns."""
    rows = seen.totals.shape[0]
    hyper = dist.Gamma(1.0, 1.0)
    gamma, gamma0, c0 = (numpyro.sample(name, hyper) for name in ("gamma", "gamma0", "c0"))
    strength = dist.Gamma(gamma0 / RANK, c0).expand([RANK]).to_event(1)
    strengths = numpyro.sample("strengths", strength)
    loading = dist.Gamma(gamma * strengths, gamma).expand([rows, RANK]).to_event(2)
    loadings = numpyro.sample("loadings", loading)
    sigma = numpyro.sample("sigma", sigma_prior(1.0, 1.0))
    numpyro.factor("likelihood", cholesky_log_likelihood(loadings, sigma, seen))


class Fitter(NamedTuple):
    """A program that fits the model in windows of so many steps."""

    begin: Callable[[], Any]
    run: Callable[[Any, Observations, int], tuple[Any, Array]]  # and the ELBO [windows]

    def program(self, observations: Observations, windows: int) -> Callable[[], Array]:
        """So many windows from the start."""
        state, run = self.begin(), jax.jit(self.run, static_argnums=2)
        return lambda: run(state, observations, windows)[1]


def numpyro_fitter(observations: Observations, key: Array, origin: Parameters) -> Fitter:
    """The peer."""
    values = {name: getattr(origin, name) for name in SITES}
    guide = AutoNormal(
        marginal_model,
        init_loc_fn=numpyro.infer.init_to_value(values=values),
        init_scale=START_SCALE,
    )
    svi = SVI(marginal_model, guide, optax.adam(RATE), Trace_ELBO())

    def run(state: Any, observations: Observations, windows: int) -> tuple[Any, Array]:
        length, seen = WINDOW * windows, Statistics.of(observations)
        state, loss = lax.scan(lambda s, _: svi.update(s, seen), state, length=length)
        return state, -loss.reshape(windows, WINDOW).mean(1)

    return Fitter(lambda: svi.init(key, Statistics.of(observations)), run)


def our_fitter(observations: Observations, key: Array, origin: Parameters) -> Fitter:
    """Ours."""
    model = gamma_process(rank=RANK)
    svi = variational.svi(
        model=model, optimiser=optax.adam(RATE), window=WINDOW, start_scale=START_SCALE
    )

    def run(fit: variational.Fit, observations: Observations, windows: int) -> tuple[Any, Array]:
        return variational.trace(key, fit, observations, inference=svi, steps=WINDOW, runs=windows)

    return Fitter(lambda: svi.init(model.unconstrain(origin)), run)


def windows_to(target: float, elbo: np.ndarray) -> int:
    """How many windows it takes until one is as good."""
    reached = np.flatnonzero(elbo >= target)
    if not reached.size:
        raise ValueError(f"no window reaches an ELBO of {target}")
    return int(reached[0]) + 1


def numpy_gradient(observations: Observations) -> Callable[[], np.ndarray]:
    """One gradient in W of the paper's likelihood, float64, a covariance of the seen a column."""
    rng = np.random.default_rng(0)
    count, total, _ = (np.asarray(x, np.float64) for x in Statistics.of(observations))
    loadings = rng.gamma(1.0, 0.3, (len(count), RANK))

    def gradient() -> np.ndarray:
        slope = np.zeros_like(loadings)
        for seen, values in zip(count.T > 0, total.T, strict=True):
            w = loadings[seen]
            precision = np.linalg.inv(w @ w.T + 0.25 * np.eye(len(w)))
            pull = precision @ values[seen]
            slope[seen] += np.outer(pull, pull @ w) - precision @ w
        return slope

    return gradient


def compare(rows: int, columns: int) -> dict[str, Any]:
    """Times steps and fits of one size, and prints both."""
    problem = synthetic(rows=rows, columns=columns, true_rank=5)(jax.random.key(0))
    mask = jax.random.bernoulli(jax.random.key(1), SEEN, (rows, columns))
    observations = Observations.from_matrix(problem.entries, mask)
    model = gamma_process(rank=RANK)
    origin = model.constrain(starts.spectral(model)(jax.random.key(2), observations))
    made = {"ours": our_fitter, "numpyro": numpyro_fitter}
    fitters = {name: make(observations, jax.random.key(3), origin) for name, make in made.items()}
    size = f"{rows} x {columns}, K = {RANK}"

    one = {name: fitter.program(observations, 1) for name, fitter in fitters.items()}
    timings = timing.interleaved(one, repeats=REPEATS.value)
    steps = {name: each.each(WINDOW) for name, each in timings.items()}
    alone = timing.interleaved({"numpy": numpy_gradient(observations)}, repeats=3)
    steps |= {"numpy, gradient alone": alone["numpy"]}
    print(timing.table(f"one SVI step, {size}", steps, peer="numpyro"))

    traces = {
        name: np.asarray(fitter.program(observations, WINDOWS.value)())
        for name, fitter in fitters.items()
    }
    target = min(float(trace[-1]) for trace in traces.values())
    needed = {name: windows_to(target, trace) for name, trace in traces.items()}
    whole = {name: fitters[name].program(observations, needed[name]) for name in fitters}
    fits = timing.interleaved(whole, repeats=min(REPEATS.value, 3))
    print(timing.table(f"a fit to an ELBO of {target:.1f}, {size}", fits, peer="numpyro"))
    told = ", ".join(f"{name} {WINDOW * windows}" for name, windows in needed.items())
    print(f"  steps to it: {told}")
    return {
        "step": {name: each._asdict() for name, each in steps.items()},
        "fit": {name: each._asdict() for name, each in fits.items()},
        "elbo": target,
        "steps": {name: WINDOW * windows for name, windows in needed.items()},
    }


def main(arguments: Sequence[str]) -> None:
    """All sizes."""
    del arguments
    sizes = [[int(length) for length in size.split("x")] for size in SIZES.value]
    figures = {f"{rows}x{columns}": compare(rows, columns) for rows, columns in sizes}
    print(timing.closing(timing.keep("svi", figures)))


if __name__ == "__main__":
    app.run(main)
