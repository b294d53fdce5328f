r"""Writes a prior: what a config's data say of its rows, for experiments on other columns.

python -m launch.prior --config=configs/table.py --config.path=old.csv --out=prior.npz
python -m launch.run --config=configs/table.py --config.path=new.csv --config.prior=prior.npz ...

With --kind=history, the default, the file has all that is recorded of the matrix of the first seed,
by the ids of its rows where the data have ids. With --kind=fit it has q of the config's model,
fitted to that by SVI: for models with gamma loadings, where the data themselves must stay behind.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import jax
from absl import app, flags
from ml_collections import config_flags

from launch import data, experiment, validation
from launch.command import fail, one_line, parse
from launch.files import write
from launch.priors import WITH_IDS, check_fit
from launch.usage import usage_with_fields
from smc_jax import priors
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.history import History
from smc_jax.observations import Observations
from smc_jax.simulation.environment import seed_keys

CONFIG = config_flags.DEFINE_config_file("config", help_string="The data, configs/*.py.")
OUT = flags.DEFINE_string("out", None, "The file that is written.")
KIND = flags.DEFINE_enum("kind", "history", ["history", "fit"], "What is written.")


def main(arguments: Sequence[str]) -> None:
    """Writes the file, and says what is in it."""
    if len(arguments) > 1:
        fail(f"unexpected argument {arguments[1]!r}; settings are given as --config.FIELD=VALUE")
    if CONFIG.value is None:
        fail("give --config=configs/NAME.py")
    if not OUT.value:
        fail("give --out=FILE.npz")
    if Path(OUT.value).suffix != ".npz":
        fail(f"out: must end in .npz, got {OUT.value}")
    with one_line():
        wanted = CONFIG.value
        # Nothing is chosen: the data need not have room for a horizon.
        wanted.update({"horizon": 1, "refits": 1, "asked": 1, "initial_fraction": 0.0})
        config = validation.resolve(wanted)
        if KIND.value == "fit":
            check_fit(config)
        seed = config.first_seed
        keys = seed_keys(seed)
        problem = data.make_data(config)(keys.problem, seed)
        seen = Observations.from_matrix(problem.entries, problem.available)
        prior: History | EarlierFit = History.of(seen)
        if KIND.value == "fit":
            belief = experiment.make_belief(config, "svi")
            fit = jax.jit(lambda: belief.refit(keys.policy, belief.init(keys.init, seen), seen))()
            prior = EarlierFit.of(fit)
        ids = data.ids_of(config) if config.data in WITH_IDS else ()
        try:
            write(Path(OUT.value), lambda file: priors.save(file, prior, *ids))
        except OSError as error:
            fail(f"out: cannot write {OUT.value}: {error.strerror}")
    number = int(problem.available.sum())
    print(f"{OUT.value}: {KIND.value} of {seen.rows} rows, {seen.columns} columns, {number} values")


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, usage=usage_with_fields))
