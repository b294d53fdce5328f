"""One step of SVI beside NumPyro's.

python -m benchmarks.svi [--repeats=9]

The peer is `numpyro.infer.SVI` with `AutoNormal` on the same priors and the same likelihood, the
latent columns integrated out, with Cholesky factors of K x K matrices in place of ours,
differentiated by JAX. A second peer is the paper's gradient in NumPy, float64, with the covariance
of what is seen of a column.
"""

from collections.abc import Callable, Sequence

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
from smc_jax import inference, start
from smc_jax.data.synthetic import synthetic
from smc_jax.model import gamma_process, sigma_prior
from smc_jax.types import Observations

REPEATS = flags.DEFINE_integer("repeats", 9, "Timings of each program.", lower_bound=1)
SIZES = ((50, 100), (100, 1000))
RANK, SEEN, STEPS = 20, 0.2, 50


def cholesky_log_likelihood(loadings: Array, sigma: Array, observations: Observations) -> Array:
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

    return jax.vmap(column, in_axes=1)(*observations).sum()


def marginal_model(observations: Observations) -> None:
    """The gamma process factor model without its latent columns."""
    rows = observations.count.shape[0]
    hyper = dist.Gamma(1.0, 1.0)
    gamma, gamma0, c0 = (numpyro.sample(name, hyper) for name in ("gamma", "gamma0", "c0"))
    strength = dist.Gamma(gamma0 / RANK, c0).expand([RANK]).to_event(1)
    strengths = numpyro.sample("strengths", strength)
    loading = dist.Gamma(gamma * strengths, gamma).expand([rows, RANK]).to_event(2)
    loadings = numpyro.sample("loadings", loading)
    sigma = numpyro.sample("sigma", sigma_prior(1.0, 1.0))
    numpyro.factor("likelihood", cholesky_log_likelihood(loadings, sigma, observations))


def numpyro_steps(observations: Observations, seed: Array) -> Callable[[], Array]:
    """So many steps of the peer, from its own start."""
    values = {"sigma": jnp.asarray(0.5), "loadings": jnp.full((len(observations.count), RANK), 0.3)}
    guide = AutoNormal(marginal_model, init_loc_fn=numpyro.infer.init_to_value(values=values))
    svi = SVI(marginal_model, guide, optax.adam(0.01), Trace_ELBO())
    state = svi.init(seed, observations)

    @jax.jit
    def run(state: object, observations: Observations) -> Array:
        return lax.scan(lambda state, _: svi.update(state, observations), state, length=STEPS)[1]

    return lambda: run(state, observations)


def our_steps(observations: Observations, seed: Array) -> Callable[[], Array]:
    """So many of ours."""
    model = gamma_process(rank=RANK)
    svi = inference.svi(model=model, optimiser=optax.adam(0.01), window=STEPS)
    fit = svi.init(start.spectral(model)(seed, observations))
    run = jax.jit(lambda fit, observations: svi.run(seed, fit, observations, STEPS).elbo)
    return lambda: run(fit, observations)


def numpy_gradient(observations: Observations) -> Callable[[], np.ndarray]:
    """One gradient in W of the paper's likelihood, float64, a covariance of the seen a column."""
    rng = np.random.default_rng(0)
    count, total, _ = (np.asarray(x, np.float64) for x in observations)
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


def main(arguments: Sequence[str]) -> None:
    """Both sizes."""
    del arguments
    figures = {}
    for rows, columns in SIZES:
        problem = synthetic(rows=rows, columns=columns, true_rank=5)(jax.random.key(0))
        mask = jax.random.bernoulli(jax.random.key(1), SEEN, (rows, columns))
        observations = Observations.from_matrix(problem.entries, mask)
        programs = {
            "ours": our_steps(observations, jax.random.key(2)),
            "numpyro": numpyro_steps(observations, jax.random.key(2)),
        }
        timings = timing.interleaved(programs, repeats=REPEATS.value)
        alone = timing.interleaved({"numpy": numpy_gradient(observations)}, repeats=3)
        steps = {name: each.each(STEPS) for name, each in timings.items()}
        steps |= {"numpy, gradient alone": alone["numpy"]}
        print(timing.table(f"one SVI step, {rows} x {columns}, K = {RANK}", steps, peer="numpyro"))
        figures[f"{rows}x{columns}"] = {name: each._asdict() for name, each in steps.items()}
    print(timing.closing(timing.keep("svi", figures)))


if __name__ == "__main__":
    app.run(main)
