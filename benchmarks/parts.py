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
from smc_jax.algebra.extremes import mean_of_largest
from smc_jax.algebra.symmetric import solve, upper_triangle
from smc_jax.beliefs import starts, variational
from smc_jax.beliefs.base import parameter_draws
from smc_jax.data.synthetic import synthetic
from smc_jax.model import gaussian
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.ids import ids
from smc_jax.types import Offer

ROWS = flags.DEFINE_integer("rows", 100, "D.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 1000, "N.", lower_bound=1)
SEEN = flags.DEFINE_float("seen", 0.2, "Share of the entries.")
REPEATS = flags.DEFINE_integer("repeats", 9, "Timings of each program.", lower_bound=1)
RANK, DRAWS, STEPS = 20, 16, 10
STEP = "the whole step"


def step_parts(fit: variational.Fit, observations: Observations) -> dict[str, Callable[[], Any]]:
    """Programs of one step, by name; the whole is of `STEPS` of them."""
    model, key = gamma_process(rank=RANK), jax.random.key(0)
    svi = variational.svi(model=model, optimiser=variational.adam(), window=STEPS)
    parameters = model.constrain(variational.draw(key, fit.q))
    w, b, variance = parameters.factors(), parameters.intercepts, parameters.sigma**2
    (i, j), _ = upper_triangle(RANK)
    diagonal = jnp.where(i == j, 1.0, 0.0)[:, None]

    # What is given to a program as an argument is not computed while it compiles.
    @jax.jit
    def precisions(w: Array, variance: Array, seen: Observations) -> Array:
        return seen.gram(w, variance) + diagonal

    @jax.jit
    def products(covariances: Array, variance: Array, seen: Observations) -> Array:
        return seen.sum_over_columns(covariances, variance)

    likelihood, sweeps = jax.jit(jax.value_and_grad(gaussian.log_likelihood)), jax.jit(solve)
    density = jax.jit(jax.value_and_grad(model.log_density))
    steps = jax.jit(lambda fit, seen: svi.run(key, fit, seen, STEPS).q)
    triangles = precisions(w, variance, observations)
    field = observations.field(w, b, variance)
    covariances, unconstrained = sweeps(triangles, field).inverse, model.unconstrain(parameters)
    return {
        "precisions": lambda: precisions(w, variance, observations),
        "sweeps": lambda: sweeps(triangles, field),
        "covariances summed": lambda: products(covariances, variance, observations),
        "likelihood and gradient": lambda: likelihood(w, b, variance, observations),
        "prior and gradient": lambda: density(unconstrained),
        STEP: lambda: steps(fit, observations),
    }


def batch_parts(
    fit: variational.Fit, observations: Observations, offer: Offer, best_of: int
) -> dict[str, Callable[[], Any]]:
    """Programs of what begins a batch of ids."""
    model, key = gamma_process(rank=RANK), jax.random.key(0)
    svi = variational.svi(model=model, optimiser=variational.adam())
    belief = variational.variational(model, starts.spectral(model), svi)
    fitted = belief._replace(refit=lambda key, state, data: state)
    policy = ids(fitted, draws=DRAWS, best_of=best_of)

    @jax.jit
    def reference(members: ensemble.Ensemble, offer: Offer) -> Array:
        def one(draw: ensemble.Ensemble) -> Array:
            matrix = ensemble.predict_one(draw).sample
            return mean_of_largest(jnp.where(offer.open, matrix, -jnp.inf), best_of)

        return jax.lax.map(one, members).mean()

    draws = jax.jit(lambda fit: parameter_draws(key, fitted, fit, DRAWS))
    latents = jax.jit(lambda drawn, seen: ensemble.start(key, drawn, seen))
    state = jax.jit(policy.init)(key, observations, offer, fit)
    refit = jax.jit(lambda state, seen, offer: policy.refit(key, state, seen, offer))
    drawn = draws(fit)
    members = latents(drawn, observations)
    return {
        "parameters drawn": lambda: draws(fit),
        "latent columns": lambda: latents(drawn, observations),
        "R*": lambda: reference(members, offer),
        "all, summaries too": lambda: refit(state, observations, offer),
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
    offer = Offer(None, ~mask, jnp.ones((rows, columns)))
    model = gamma_process(rank=RANK)
    svi = variational.svi(model=model, optimiser=variational.adam())
    fit = svi.init(starts.spectral(model)(jax.random.key(2), observations))
    fit = jax.jit(lambda fit, seen: svi.run(jax.random.key(3), fit, seen, 200))(fit, observations)
    best_of = RANK * (rows + columns - RANK) // 2
    figures: dict[str, Any] = {"rows": rows, "columns": columns}
    for title, parts in (
        ("one step of SVI", step_parts(fit, observations)),
        ("what begins a batch of ids", batch_parts(fit, observations, offer, best_of)),
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
