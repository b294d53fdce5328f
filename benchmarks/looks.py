"""What a fit to lists of looks costs, beside the dense one, and for matrices that no array holds.

python -m benchmarks.looks [--size=3706x6040] [--seen=0.05,0.005,0.0005] [--repeats=5]

A step of SVI and a Gibbs sweep, K = 20, from the same values in both kinds of storage, in turn.
Then steps and sweeps from lists of one number of looks, at square matrices of 10^6 to 10^10
entries, and the exponent of their cost in D N, by least squares on logarithms. Rows and columns are
seen as unevenly as films and users are. Kept in results/benchmarks/looks.json.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags

from benchmarks import timing
from benchmarks.uneven import uneven_entries
from smc_jax.beliefs import starts, variational
from smc_jax.beliefs.signed_conditionals import NONE, Prior
from smc_jax.beliefs.signed_gibbs import begin, sweep
from smc_jax.looks import Looks, Seen
from smc_jax.model.gamma_process import gamma_process
from smc_jax.observations import Observations

SIZE = flags.DEFINE_string("size", "3706x6040", "Rows x columns, where both kinds are compared.")
SEEN = flags.DEFINE_list("seen", ["0.05", "0.005", "0.0005"], "Parts of the entries seen.")
LOOKS = flags.DEFINE_integer("looks", 500_000, "Where the matrix grows.", lower_bound=1)
SIDES = flags.DEFINE_list("sides", ["1000", "3162", "10000", "31623", "100000"], "D = N.")
REPEATS = flags.DEFINE_integer("repeats", 5, "Timings of each program.", lower_bound=1)
RANK, STEPS = 20, 5


class Values(NamedTuple):
    """Entries, each once, and what was seen there."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    shape: tuple[int, int]

    def looks(self) -> Looks:
        """As lists."""
        rows, columns = self.shape
        return Looks.of(self.row, self.column, self.value, rows=rows, columns=columns)

    def dense(self) -> Observations:
        """As matrices."""
        values, mask = np.zeros(self.shape, np.float32), np.zeros(self.shape, bool)
        values[self.row, self.column], mask[self.row, self.column] = self.value, True
        return Observations.from_matrix(values, mask)


def values_of(rows: int, columns: int, number: int, seed: int = 0) -> Values:
    """A number of entries of a noisy matrix of rank 5."""
    rng = np.random.default_rng(seed)
    row, column = uneven_entries(rows, columns, number, rng)
    left, right = rng.normal(size=(rows, 5)), rng.normal(size=(columns, 5))
    value = (left[row] * right[column]).sum(1) + 0.3 * rng.normal(size=number)
    return Values(row, column, value, (rows, columns))


def programs(data: Seen) -> dict[str, Callable[[], Any]]:
    """Steps of SVI, and a Gibbs sweep."""
    model = gamma_process(
        rank=RANK, loadings="signed", intercepts=True, common=10.0, noise_spread=0.25
    )
    svi = variational.svi(model=model, optimiser=variational.adam(), window=STEPS)
    start, key, prior = starts.random(model), jax.random.key(0), Prior.of(model)
    fit = jax.jit(lambda data: svi.init(start(key, data)))(data)
    state = jax.jit(lambda data: begin(key, data, model, start, prior, NONE))(data)
    steps = jax.jit(lambda fit, data: svi.run(key, fit, data, STEPS).elbo)
    swept = jax.jit(lambda state, data: sweep(key, state, data, prior).parameters.sigma)
    return {"step": lambda: steps(fit, data), "sweep": lambda: swept(state, data)}


def per_step(name: str, measured: timing.Timing) -> timing.Timing:
    """Of one step, of which a program takes several, or of one sweep."""
    return measured.each(STEPS) if name == "step" else measured


def compare(rows: int, columns: int, part: float, repeats: int) -> dict[str, Any]:
    """Both kinds of storage in turn; prints both."""
    values = values_of(rows, columns, round(part * rows * columns))
    made = {"lists": programs(values.looks()), "dense": programs(values.dense())}
    found = {}
    for name in ("step", "sweep"):
        timed = timing.interleaved(
            {kind: each[name] for kind, each in made.items()}, repeats=repeats
        )
        timed = {kind: per_step(name, one) for kind, one in timed.items()}
        print(timing.table(f"{name}, {rows} x {columns}, {part:.2%} seen", timed, peer="dense"))
        found[name] = {kind: one._asdict() for kind, one in timed.items()}
    return found


def growing(sides: Sequence[int], looks: int, repeats: int) -> dict[str, Any]:
    """The processor's time at square matrices for lists of one length, and its exponents in D N."""
    costs: dict[str, list[float]] = {"step": [], "sweep": []}
    for side in sides:
        made = programs(values_of(side, side, min(looks, side**2 // 2)).looks())
        for name, one in timing.interleaved(made, repeats=repeats).items():
            costs[name].append(per_step(name, one).processor or 0.0)
        told = ", ".join(f"{name} {1e3 * each[-1]:.0f} ms" for name, each in costs.items())
        print(f"{side} x {side}: {told}; peak memory so far {timing.peak_memory():.0f} MiB")
    entries = 2 * np.log(np.asarray(sides, float))
    powers = {
        name: float(np.polyfit(entries, np.log(each), 1)[0])
        for name, each in costs.items()
        if len(each) > 1
    }
    print(", ".join(f"{name} (D N)^{power:.2f}" for name, power in powers.items()))
    return {"sides": list(sides), "looks": looks, "seconds": costs, "exponents": powers}


def main(arguments: Sequence[str]) -> None:
    """Both parts; lists that grow come first, since the peak of memory is of the whole process."""
    del arguments
    repeats = REPEATS.value
    grown = growing([int(side) for side in SIDES.value], LOOKS.value, repeats)
    rows, columns = map(int, SIZE.value.split("x"))
    compared = {part: compare(rows, columns, float(part), repeats) for part in SEEN.value}
    print(timing.closing(timing.keep("looks", {"growing": grown, "compared": compared})))


if __name__ == "__main__":
    app.run(main)
