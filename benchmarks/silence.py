"""What was not seen, where high values are answered more often: bias, error and calibration.

python -m benchmarks.silence [--tables=30 --slope=1.0]

Tables of two factors with intercepts are asked for 60 % of their entries. Each is fitted two times:
`plain` takes the values that are seen for a fair sample, and learns who answers from rows and
columns; `slope` learns that answers depend on values. Printed are the mean error of the posterior
means of all entries that were not seen, in standard deviations of the values, with its standard
error over the tables; the root of their mean squared error; the slope that is found; and in five
bins of what is said of P(answer), for entries that were not asked, how many would answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from jax import Array
from scipy import stats

import launch  # noqa: F401  sets up the machine
from smc_jax import presets
from smc_jax.model import gaussian
from smc_jax.model.parameters import Parameters
from smc_jax.model.response import Asks, Response, mean_chance, sample_response
from smc_jax.observations import Observations
from smc_jax.policies.base import predictor

TABLES = flags.DEFINE_integer("tables", 30, "How many tables.")
FIRST = flags.DEFINE_integer("first", 0, "The seed of the first.")
SLOPE = flags.DEFINE_float("slope", 1.0, "What the probit rises by for each standard deviation.")
ROWS, COLUMNS, RANK, SHARE, NOISE = 20, 60, 2, 0.6, 0.6
DRAWS = 32
BINS = 5


class Table(NamedTuple):
    """One table, and what was asked and answered of it."""

    values: np.ndarray  # [D, N]
    chance: np.ndarray  # [D, N]  P(answer)
    asked: np.ndarray  # [D, N] bool
    seen: np.ndarray  # [D, N] bool


class Calibration(NamedTuple):
    """Entries that were not asked, in bins of what is said of them."""

    said: np.ndarray  # [bins]
    true: np.ndarray  # [bins]


class Found(NamedTuple):
    """What one way of fitting says of many tables."""

    bias: float  # mean error of what was not seen, in standard deviations of the values
    bias_error: float  # its standard error over the tables
    error: float  # root of the mean squared error
    slope: float
    calibration: Calibration


def simulated(seed: int, slope: float) -> Table:
    """A table whose values are answered with probability Phi(a_n + c_d + slope z_dn)."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(ROWS, RANK)) @ rng.normal(size=(RANK, COLUMNS))
    values = 0.7 * rng.normal(size=(ROWS, 1)) + 0.7 * factors
    values += NOISE * rng.normal(size=values.shape)
    z = (values - values.mean()) / values.std()
    willing = 0.3 + 0.5 * rng.normal(size=COLUMNS) + 0.3 * rng.normal(size=(ROWS, 1))
    chance = stats.norm.cdf(willing + slope * z)
    asked = rng.random(values.shape) < SHARE
    return Table(values, chance, asked, asked & (rng.random(values.shape) < chance))


def make_fit(*, learn: bool) -> Callable[..., tuple[Array, Array, Array]]:
    """(key, values, seen, refused) -> posterior means and P(answer) [D, N], and the slope."""
    chain = {"draws": DRAWS, "sweeps": 4, "first_sweeps": 300}
    preset = presets.ratings(rank=3, learn_value_slope=learn)._replace(gibbs=chain)
    belief = preset.belief()
    assert belief.store is not None
    store, predict = belief.store, predictor(belief)
    every = (index.ravel() for index in np.indices((ROWS, COLUMNS)))
    rows, columns = map(jnp.asarray, every)

    def answered(draw: Parameters, data: Observations) -> tuple[Array, Array]:
        moments = gaussian.entry_moments(draw, gaussian.latent_posterior(draw, data))
        chance = draw.answers.answering().chance(moments[0], moments[1] + draw.noise() ** 2)
        return chance, draw.answers.slope

    @jax.jit
    def fit(key: Array, values: Array, seen: Array, refused: Array) -> tuple[Array, ...]:
        data = Observations.from_matrix(values, seen).with_refusals(refused)
        init_key, fit_key, own = jax.random.split(key, 3)
        state = belief.refit(fit_key, belief.init(init_key, data), data)
        mean = predict(own, state, data, rows, columns, DRAWS).mean.mean(0).reshape(values.shape)
        if learn:
            told = jax.lax.map(lambda draw: answered(draw, data), store(state))
            return mean, *(x.mean(0) for x in told)
        start = Response.start(ROWS, COLUMNS)
        settings: dict[str, Any] = {"draws": DRAWS, "sweeps": 4, "first": 300}
        draws = sample_response(own, start, Asks.of(data), **settings)
        return mean, mean_chance(draws, jnp.zeros((DRAWS, COLUMNS))), jnp.zeros(())

    return fit


def calibration(said: np.ndarray, true: np.ndarray) -> Calibration:
    """Means of what is said and of the truth in bins of as many entries."""
    parts = np.array_split(np.argsort(said), BINS)
    return Calibration(*(np.array([x[part].mean() for part in parts]) for x in (said, true)))


def compare(*, tables: int, first: int, slope: float = 1.0) -> dict[str, Found]:
    """Both ways of fitting on the same tables."""
    found = {}
    for name, learn in (("plain", False), ("slope", True)):
        fit, each, said, true = make_fit(learn=learn), [], [], []
        for seed in range(first, first + tables):
            table = simulated(seed, slope)
            refused = 1.0 * (table.asked & ~table.seen)
            told = fit(jax.random.key(seed), table.values, table.seen, refused)
            mean, chance, learned = (np.asarray(x, np.float64) for x in told)
            error = (mean - table.values)[~table.seen] / table.values.std()
            each.append((error.mean(), (error**2).mean(), learned))
            said.append(chance[~table.asked])
            true.append(table.chance[~table.asked])
        bias, squares, slopes = np.array(each).T
        found[name] = Found(
            bias.mean(),
            bias.std(ddof=1) / np.sqrt(tables),
            np.sqrt(squares.mean()),
            slopes.mean(),
            calibration(np.concatenate(said), np.concatenate(true)),
        )
    return found


def main(argv: list[str]) -> None:
    """Prints what both ways find."""
    del argv
    found = compare(tables=TABLES.value, first=FIRST.value, slope=SLOPE.value)
    for name, one in found.items():
        print(
            f"{name}: bias {one.bias:+.3f} +- {one.bias_error:.3f}, error {one.error:.3f},"
            f" slope {one.slope:+.2f}"
        )
        for title, values in one.calibration._asdict().items():
            print(f"  P(answer), {title}: " + "  ".join(f"{value:.3f}" for value in values))


if __name__ == "__main__":
    app.run(main)
