"""How good a posterior is: SVI, Hamiltonian chains and NUTS on the same data and prior.

python -m benchmarks.posteriors [--seeds=2 --samples=300]

Each of four kinds of synthetic matrices, 50 x 100, is shown in part. Printed are the error of what
was not shown and its log density, both in standard deviations of the entries, the noise variance
(the true one is 0.1), both ranks, and the seconds of a fit, compilation apart: means over the
seeds. NUTS is NumPyro's, on the density with the latent columns integrated out.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from numpyro.infer import NUTS
from tqdm import tqdm

import launch  # noqa: F401  sets up the machine
from smc_jax import presets
from smc_jax.beliefs.base import Belief, Diagnostics, stored_belief
from smc_jax.beliefs.starts import STARTS
from smc_jax.data.synthetic import synthetic
from smc_jax.model.gamma_process import Model, gamma_process
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.simulation.held_out import single_fit

FIRST = flags.DEFINE_integer("first", 1000, "The first seed.")
SEEDS = flags.DEFINE_integer("seeds", 2, "How many matrices of each kind.")
SAMPLES = flags.DEFINE_integer("samples", 200, "Of NUTS: transitions after as many of warm-up.")
RANK = 20
LONG = {"first_transitions": 200, "leapfrogs": 64}
CASES = {
    "rank 5, uniform, 20 % seen": (5, "uniform", 0.2),
    "rank 20, uniform, 55 % seen": (20, "uniform", 0.55),
    "rank 10, Beta, 30 % seen": (10, "beta", 0.3),
    "rank 20, Beta, 55 % seen": (20, "beta", 0.55),
}


class Draws(NamedTuple):
    """The draws of a long chain."""

    draws: Parameters  # leading axis S


def nuts(model: Model, *, samples: int, start: str = "random") -> Belief:
    """NumPyro's sampler as a belief: one long chain, whose draws after the warm-up are stored."""

    def init(key: Array, data: Observations, prior: Any = None) -> Draws:
        del prior
        begun = model.constrain(STARTS[start](model)(key, data))
        return Draws(jax.tree.map(lambda x: jnp.stack([x] * samples), begun))

    def refit(key: Array, state: Draws, data: Observations) -> Draws:
        first = model.unconstrain(jax.tree.map(lambda x: x[0], state.draws))
        flat, unravel = ravel_pytree(first)
        kernel = NUTS(potential_fn=lambda at: -model.log_joint(unravel(at), data))
        chain = kernel.init(key, samples, flat, (), {})

        def step(chain: Any, _: None) -> tuple[Any, Array]:
            chain = kernel.sample(chain, (), {})
            return chain, chain.z

        chain, _ = lax.scan(step, chain, length=samples)
        _, found = lax.scan(step, chain, length=samples)
        return Draws(jax.vmap(lambda at: model.constrain(unravel(at)))(found))

    return stored_belief(init, refit, lambda state: Diagnostics.of_draws(state.draws))


def beliefs(samples: int) -> dict[str, Belief]:
    """What is compared, by name."""
    return {
        "svi": presets.fitted_belief(rank=RANK),
        "svi, random start": presets.fitted_belief(rank=RANK, start="random"),
        "hmc": presets.fitted_belief(rank=RANK, method="mcmc"),
        "hmc, long": presets.fitted_belief(rank=RANK, method="mcmc", hmc=LONG),
        "nuts": nuts(gamma_process(rank=RANK), samples=samples),
    }


def figures(fit: Callable[[Array], Any], seeds: Sequence[int]) -> list[float]:
    """Means over the seeds, and the seconds of a fit."""
    jax.block_until_ready(fit(jnp.uint32(seeds[0])))
    began = time.perf_counter()
    found = jax.block_until_ready([fit(jnp.uint32(seed)) for seed in seeds])
    seconds = (time.perf_counter() - began) / len(seeds)
    fields = ("error", "density", "noise_variance", "effective_rank", "signal_rank")
    return [float(np.mean([getattr(one, f) for one in found])) for f in fields] + [seconds]


def main(arguments: Sequence[str]) -> None:
    """Prints a line for each posterior as soon as it is known."""
    del arguments
    seeds = range(FIRST.value, FIRST.value + SEEDS.value)
    compared = beliefs(SAMPLES.value)
    head = ("error", "log density", "noise", "columns", "directions", "seconds")
    print(f"{'':<20}" + "".join(f"{name:>13}" for name in head))
    with tqdm(total=len(CASES) * len(compared), unit="posterior", smoothing=0.0) as bar:
        for title, (rank, loadings, seen) in CASES.items():
            bar.write(title)
            for name, belief in compared.items():
                problem = synthetic(true_rank=rank, loadings=loadings)
                fit = jax.jit(single_fit(problem, belief, seen, draws=SAMPLES.value))
                values = figures(fit, seeds)
                digits = (4, 4, 3, 1, 1, 1)
                line = "".join(f"{v:>13.{d}f}" for v, d in zip(values, digits, strict=True))
                bar.write(f"  {name:<18}" + line)
                bar.update()


if __name__ == "__main__":
    app.run(main)
