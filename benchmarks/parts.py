"""Where the time goes: the parts of a step of SVI, and of what begins a batch of ids.

Beside them the average of all draws of the matrix, by a sum and by a product with weights.

python -m benchmarks.parts [--rows=100 --columns=1000 --repeats=9]

Each part is a program of its own, on the inputs that it has in the whole. Their sum is not quite
the whole: XLA merges what comes after one another, and what is left of it is not named.
"""

from collections.abc import Callable, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
from absl import app, flags
from jax import Array

from benchmarks import timing
from smc_jax import beliefs, ensemble, gaussian, inference, start
from smc_jax.data.synthetic import synthetic
from smc_jax.environment import Problem
from smc_jax.extremes import mean_of_largest
from smc_jax.model import gamma_process
from smc_jax.policies import POLICIES, Setting
from smc_jax.symmetric import solve, upper_triangle
from smc_jax.types import Observations, View

ROWS = flags.DEFINE_integer("rows", 100, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 1000, "N.", lower_bound=1)
SEEN = flags.DEFINE_float("seen", 0.2, "Share of the entries.")
REPEATS = flags.DEFINE_integer("repeats", 9, "Timings of each program.", lower_bound=1)
RANK, DRAWS, STEPS = 20, 16, 10
STEP = "the whole step"


def step_parts(fit: inference.Fit, view: View) -> dict[str, Callable[[], Any]]:
    """Programs of one step, by name; the whole is of `STEPS` of them."""
    model = gamma_process(rank=RANK)
    svi = inference.svi(model=model, optimiser=inference.adam(), window=STEPS)
    observations, key = view.observations, jax.random.key(0)
    parameters = model.constrain(inference.draw(key, fit.q))
    w, variance = parameters.loadings, parameters.sigma**2
    (i, j), _ = upper_triangle(RANK)
    diagonal = jnp.where(i == j, 1.0, 0.0)[:, None]

    # What is given to a program as an argument is not computed while it compiles.
    @jax.jit
    def precisions(w: Array, variance: Array, count: Array) -> Array:
        return (w[:, i] * w[:, j]).T @ (count / variance) + diagonal

    likelihood = jax.jit(jax.value_and_grad(gaussian.log_likelihood))
    sweeps, products = jax.jit(solve), jax.jit(lambda c, variance, count: count / variance @ c.T)
    density = jax.jit(jax.value_and_grad(model.log_density))
    steps = jax.jit(lambda fit, seen: svi.run(key, fit, seen, STEPS).q)
    count, b = observations.count, parameters.intercepts
    triangles, field = precisions(w, variance, count), w.T @ (observations.total / variance)
    covariances, unconstrained = sweeps(triangles, field).inverse, model.unconstrain(parameters)
    return {
        "precisions": lambda: precisions(w, variance, count),
        "sweeps": lambda: sweeps(triangles, field),
        "covariances summed": lambda: products(covariances, variance, count),
        "likelihood and gradient": lambda: likelihood(w, b, variance, observations),
        "prior and gradient": lambda: density(unconstrained),
        STEP: lambda: steps(fit, observations),
    }


def batch_parts(
    fit: inference.Fit, view: View, problem: Problem, best_of: int
) -> dict[str, Callable[[], Any]]:
    """Programs of what begins a batch of ids."""
    model, key = gamma_process(rank=RANK), jax.random.key(0)
    svi = inference.svi(model=model, optimiser=inference.adam())
    fitted = beliefs.variational(model, start.spectral(model), svi)
    fitted = fitted._replace(refit=lambda key, state, observations: state)
    setting = Setting(fitted, entry_noise=True)
    policy = POLICIES["ids"](setting, draws=DRAWS, best_of=best_of)

    @jax.jit
    def reference(members: ensemble.Ensemble, view: View) -> Array:
        def one(draw: ensemble.Ensemble) -> Array:
            matrix = ensemble.predict_one(*draw).sample
            return mean_of_largest(jnp.where(view.available, matrix, -jnp.inf), best_of)

        return jax.lax.map(one, members).mean()

    draws = jax.jit(lambda fit: beliefs.draws(key, fitted, fit, DRAWS))
    latents = jax.jit(lambda drawn, seen: ensemble.start(key, drawn, seen))
    state = jax.jit(policy.init)(key, view, problem)._replace(belief=fit)
    refit = jax.jit(lambda state, view: policy.refit(key, state, view))
    drawn = draws(fit)
    members = latents(drawn, view.observations)
    return {
        "parameters drawn": lambda: draws(fit),
        "latent columns": lambda: latents(drawn, view.observations),
        "R*": lambda: reference(members, view),
        "all, summaries too": lambda: refit(state, view),
    }


def averages(entries: int) -> dict[str, Callable[[], Any]]:
    """The mean over draws of so many entries, in two ways."""
    values = jax.random.normal(jax.random.key(0), (DRAWS, entries))
    weights = jnp.full(DRAWS, 1.0 / DRAWS)
    by_sum, by_product = jax.jit(lambda values: values.mean(0)), jax.jit(jnp.matmul)
    return {
        "as a sum": lambda: by_sum(values),
        "as a product": lambda: by_product(weights, values),
    }


def main(arguments: Sequence[str]) -> None:
    """Times all parts in turn."""
    del arguments
    rows, columns = ROWS.value, COLUMNS.value
    problem = synthetic(rows=rows, columns=columns, true_rank=5)(jax.random.key(0))
    mask = jax.random.bernoulli(jax.random.key(1), SEEN.value, (rows, columns))
    observations = Observations.from_matrix(problem.entries, mask)
    view = View(observations, ~mask, jnp.ones((rows, columns)))
    model = gamma_process(rank=RANK)
    svi = inference.svi(model=model, optimiser=inference.adam())
    fit = svi.init(start.spectral(model)(jax.random.key(2), observations))
    fit = jax.jit(lambda fit, seen: svi.run(jax.random.key(3), fit, seen, 200))(fit, observations)
    best_of = RANK * (rows + columns - RANK) // 2
    figures: dict[str, Any] = {"rows": rows, "columns": columns}
    for title, parts in (
        ("one step of SVI", step_parts(fit, view)),
        ("what begins a batch of ids", batch_parts(fit, view, problem, best_of)),
        (f"the average of {DRAWS} draws", averages(rows * columns)),
    ):
        timings = timing.interleaved(parts, repeats=REPEATS.value)
        if STEP in timings:
            timings[STEP] = timings[STEP].each(STEPS)
        print(timing.table(f"{title}, {rows} x {columns}", timings, peer=list(timings)[-1]))
        figures[title] = {name: each._asdict() for name, each in timings.items()}
    print(timing.closing(timing.keep(f"parts_{rows}x{columns}", figures)))


if __name__ == "__main__":
    app.run(main)
