"""Which start and which optimiser: ELBO, error on unseen entries, regret of ids, and time.

python -m launch.ablation --config=configs/synthetic.py --config.first_seed=1000 --config.seeds=4

ELBO and RMSE are of one fit (first_steps steps) to entries seen at random; the regret and the
seconds, compilation apart, are of the whole experiment with ids.
"""

import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags
from tqdm import tqdm

from launch import data, experiment, results, settings
from launch.command import CompileClock, fail, parse
from smc_jax import beliefs, gaussian, inference
from smc_jax.environment import Problem
from smc_jax.inference import OPTIMISERS
from smc_jax.model import gamma_process
from smc_jax.start import STARTS
from smc_jax.sweep import curves, make_sweep
from smc_jax.types import Observations, Parameters

CONFIG = config_flags.DEFINE_config_file("config", "configs/synthetic.py", "The experiment.")
SEEN = flags.DEFINE_float("seen", 0.2, "Fraction of the entries that the single fit sees.")


def single_fit(config: ConfigDict, seen: float) -> Callable[[jax.Array], tuple]:
    """A function from a seed's key to the ELBO and the RMSE on unseen entries."""
    belief = experiment.make_belief(config)
    model = gamma_process(rank=config.rank, **config.model)
    make_problem = data.make_data(config)

    def fit(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key, 6)
        data_key, mask_key, start_key, fit_key, draw_key, elbo_key = keys
        problem: Problem = make_problem(data_key)
        mask = jax.random.bernoulli(mask_key, seen, problem.entries.shape)
        observations = Observations.from_matrix(problem.entries, mask)
        state = belief.init(start_key, observations, problem)
        state = belief.refit(fit_key, state, observations)
        bound = inference.elbo(elbo_key, state.q, observations, model=model, draws=256)
        draws = beliefs.draws(draw_key, belief, state, 64)

        def mean(parameters: Parameters) -> jax.Array:
            columns = gaussian.latent_posterior(parameters, observations)
            return gaussian.entry_moments(parameters, columns)[0]

        misfit = jax.vmap(mean)(draws).mean(0) - problem.entries
        return bound, jnp.sqrt(jnp.mean(misfit**2, where=~mask))

    return fit


def main(arguments: Sequence[str]) -> None:
    """Prints one line a combination."""
    del arguments
    config = CONFIG.value
    try:
        experiment.validate(config)
    except settings.ConfigError as error:
        fail(str(error))
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    clock = CompileClock()
    lines = []
    cells = [(start, optimiser) for start in STARTS for optimiser in OPTIMISERS]
    for start, optimiser in tqdm(cells, unit="cell"):
        config.inference.start, config.inference.optimiser = start, optimiser
        bound, rmse = jax.jit(lambda keys: jax.lax.map(single_fit(config, SEEN.value), keys))(keys)
        sweep = make_sweep(experiment.build(config, "ids"))
        began, compiled = time.monotonic(), clock.seconds
        *_, last = sweep.go_on(sweep.start(seeds))
        seconds = time.monotonic() - began - (clock.seconds - compiled)
        regret = curves(last).regret[:, -1]
        line = f"{start:<10}{optimiser:<10}"
        for values, digits in ((bound, 1), (rmse, 3), (regret, 1)):
            spread = results.standard_error(np.asarray(values))
            line += f"{np.mean(values):>10.{digits}f} ±{spread:<6.{digits}f}"
        lines.append(line + f"{seconds:>9.1f}")
    print(f"{'start':<10}{'optimiser':<10}{'ELBO':>10}{'RMSE':>18}{'regret':>18}{'seconds':>17}")
    print("\n".join(lines))


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
