"""What ids costs on matrices of many sizes, up to the 22.4 million entries of MovieLens 1M.

python -m benchmarks.scaling [--sizes=50x100,100x1000] [--repeats=3]

Every size is measured in a process of its own, so that its peak memory is its own: one step of
SVI, the drawing of the ensemble at a refit, and one pick, on synthetic matrices after the initial
design. A refit is 100 steps and the drawing; a batch is 1/40 of the horizon K (D + N - K). Printed
are exponents, by least squares on logarithms, and the prices of what each program does, by least
squares on relative errors, with what they predict for larger matrices. Kept in results/benchmarks:
scaling.json and scaling.png, cost against size.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from absl import app, flags
from scipy import optimize
from tqdm import tqdm

from benchmarks import timing
from smc_jax.beliefs import starts, variational
from smc_jax.data.synthetic import synthetic
from smc_jax.model.gamma_process import gamma_process
from smc_jax.policies.ids import ids
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import Loop, make_loop

SIZES = flags.DEFINE_list(
    "sizes",
    ["50x100", "100x1000", "100x10000", "300x3000", "3000x300", "1000x6040", "3706x6040"],
    "Rows x columns of the matrices.",
)
RANKS = flags.DEFINE_list("ranks", ["5", "10", "40"], "Other K, at the size of --of.")
DRAWS = flags.DEFINE_list("draws", ["4", "8", "32"], "Other S, at the size of --of.")
OF = flags.DEFINE_string("of", "300x3000", "Where K and S are varied.")
REPEATS = flags.DEFINE_integer("repeats", 3, "Timings of each program.", lower_bound=1)
CASE = flags.DEFINE_string("case", None, "Measures D,N,K,S in this process and prints JSON.")
STEPS, REFITS = 100, 40
# ML-25M, and a hundred million users who are offered its films.
PREDICTED = ("59047x162541", "59047x100000000")


class Case(NamedTuple):
    """A size."""

    rows: int
    columns: int
    rank: int = 20
    draws: int = 16

    @property
    def entries(self) -> int:
        """D N."""
        return self.rows * self.columns

    @property
    def horizon(self) -> int:
        """H."""
        return self.rank * (self.rows + self.columns - self.rank)


class Cost(NamedTuple):
    """Seconds, and MiB of the process at its peak."""

    step: float  # of SVI
    draw: float  # of the ensemble, with its summary
    pick: float
    memory: float

    def refit(self) -> float:
        """Seconds of a refit."""
        return STEPS * self.step + self.draw

    def batch(self, case: Case) -> float:
        """Seconds of a batch of picks."""
        return self.pick * case.horizon / REFITS


def work(case: Case) -> dict[str, dict[str, float]]:
    """What each program does, by the names of its parts."""
    d, n, k, s = case
    once, passes = {"once": 1.0}, {"D N": d * n}
    drawn = {"S D N": s * d * n, "S D N K^2": s * d * n * k**2, "S N K^3": s * n * k**3}
    return {
        "step": once | passes | {"D N K^2": d * n * k**2, "N K^3": n * k**3},
        "draw": once | drawn,
        "pick": once | {"S D": s * d, "S K (K + D)": s * k * (k + d), "N": n},
        "memory": once | passes | {"S N K^2": s * n * k**2},
    }


def prices(costs: dict[Case, Cost]) -> dict[str, dict[str, float]]:
    """What each part costs, not negative, by least squares on relative errors."""
    found = {}
    for name in Cost._fields:
        parts = [work(case)[name] for case in costs]
        measured = np.asarray([getattr(cost, name) for cost in costs.values()])
        design = np.asarray([list(part.values()) for part in parts])
        scale = design.max(0)
        paid, _ = optimize.nnls(design / scale / measured[:, None], np.ones(len(measured)))
        found[name] = dict(zip(parts[0], (paid / scale).tolist(), strict=True))
    return found


def predict(case: Case, paid: dict[str, dict[str, float]]) -> Cost:
    """What a case would cost at these prices."""
    done = work(case)
    return Cost(*(sum(paid[name][p] * done[name][p] for p in paid[name]) for name in Cost._fields))


def measure(case: Case, repeats: int) -> Cost:
    """The cost of one size, medians over the repeats."""
    model = gamma_process(rank=case.rank, loadings="signed", intercepts=True, common=10.0)
    few = 5
    svi = variational.svi(model=model, optimiser=variational.adam(), window=few)
    belief = variational.variational(model, starts.random(model), svi, first_steps=few, steps=few)
    unfitted = belief._replace(refit=lambda key, state, data: state)
    policy = ids(unfitted, draws=case.draws, best_of=case.horizon // 2)
    data = synthetic(rows=case.rows, columns=case.columns, true_rank=5)
    environment = make_environment(data, initial=case.horizon // 20)

    def loop_of(picks: int) -> Loop:
        return make_loop(environment, policy, horizon=picks, refits=1)

    def seconds(function: Callable[..., Any], *arguments: Any) -> float:
        program = {"it": lambda: function(*arguments)}
        return timing.interleaved(program, repeats=repeats)["it"].median

    key, short, long = jax.random.key(0), 20, 220
    loop = loop_of(short)
    carry, _ = jax.jit(loop.start)(jnp.uint32(0))
    fit, seen = carry.policy.belief, carry.world.data
    step = seconds(jax.jit(lambda fit, seen: svi.run(key, fit, seen, few).q), fit, seen)
    refit = jax.jit(lambda carry: loop.refit(carry, key).policy)
    drawing = seconds(refit, carry)
    carry = carry._replace(policy=refit(carry))
    picks = [
        seconds(jax.jit(lambda carry, n=n: loop_of(n).picks(carry, key)[1]), carry)
        for n in (short, long)
    ]
    pick = (picks[1] - picks[0]) / (long - short)
    return Cost(step / few, drawing, pick, timing.peak_memory())


def exponents(costs: dict[Case, float]) -> dict[str, float]:
    """Least squares of log cost on log D, N, K and S, as far as they differ."""
    names = ("rows", "columns", "rank", "draws")
    features = np.log([[getattr(case, name) for name in names] for case in costs])
    varied = features.std(0) > 0
    design = np.column_stack([features[:, varied], np.ones(len(costs))])
    found = np.linalg.lstsq(design, np.log(list(costs.values())), rcond=None)[0]
    return dict(zip(np.array(names)[varied].tolist(), found[:-1].tolist(), strict=True))


def picture(costs: dict[Case, Cost]) -> Path:
    """Cost against the number of entries, at K = 20 and S = 16."""
    cases = [case for case in costs if case[2:] == Case(0, 0)[2:]]
    entries = [case.entries for case in cases]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, what in {"step": "step of SVI", "draw": "ensemble drawn", "pick": "pick"}.items():
        left.loglog(entries, [getattr(costs[case], name) for case in cases], "o", label=what)
    left.set(xlabel="entries D N", ylabel="seconds")
    left.legend()
    per_entry = [1e6 * (costs[c].refit() + costs[c].batch(c)) / c.entries for c in cases]
    right.semilogx(entries, per_entry, "o")
    for case, each in zip(cases, per_entry, strict=True):
        right.annotate(
            f"{case.rows} x {case.columns}",
            (case.entries, each),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    right.set(xlabel="entries D N", ylabel="microseconds an entry, a refit and a batch")
    right.set(ylim=(0, 1.1 * max(per_entry)))
    right.margins(x=0.15)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    path = timing.FOLDER / "scaling.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def sized(text: str, **others: int) -> Case:
    """`100x1000` as a case."""
    rows, columns = map(int, text.split("x"))
    return Case(rows, columns, **others)


def describe(case: Case, cost: Cost) -> str:
    """A line for a prediction."""
    return (
        f"{cost.step:.3g} s a step, {cost.draw:.3g} s to draw, {1e3 * cost.pick:.3g} ms a pick,"
        f" {cost.batch(case):.3g} s a batch, {cost.memory / 1024:.3g} GiB"
    )


def main(arguments: Sequence[str]) -> None:
    """Measures all cases, prints a table and keeps the figures."""
    del arguments
    if CASE.value:
        case = Case(*map(int, CASE.value.split(",")))
        print(json.dumps(measure(case, REPEATS.value)._asdict()))
        return
    cases = [sized(text) for text in SIZES.value]
    cases += [sized(OF.value, rank=int(rank)) for rank in RANKS.value]
    cases += [sized(OF.value, draws=int(draws)) for draws in DRAWS.value]
    costs: dict[Case, Cost] = {}
    print(f"{'rows':>6}{'columns':>9}{'K':>4}{'S':>4}{'ms a step':>11}{'s to draw':>11}", end="")
    print(f"{'ms a pick':>11}{'us an entry':>13}{'MiB':>8}")
    for case in tqdm(dict.fromkeys(cases), unit="size"):
        command = [sys.executable, "-m", "benchmarks.scaling", f"--repeats={REPEATS.value}"]
        ran = subprocess.run(
            [*command, f"--case={','.join(map(str, case))}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            tqdm.write(f"{case}: failed\n{ran.stderr[-2000:]}")
            continue
        costs[case] = cost = Cost(**json.loads(ran.stdout.splitlines()[-1]))
        each = 1e6 * (cost.refit() + cost.batch(case)) / case.entries
        tqdm.write(
            f"{case.rows:>6}{case.columns:>9}{case.rank:>4}{case.draws:>4}{1e3 * cost.step:>11.2f}"
            f"{cost.draw:>11.3f}{1e3 * cost.pick:>11.3f}{each:>13.2f}{cost.memory:>8.0f}"
        )
    if len(costs) < 6:
        print("too few sizes to fit a model of cost; nothing is kept")
        return
    fitted = {
        name: exponents({case: getattr(cost, name) for case, cost in costs.items()})
        for name in Cost._fields
    }
    for name, powers in fitted.items():
        print(f"{name:<8}" + " ".join(f"{size}^{power:.2f}" for size, power in powers.items()))
    paid = prices(costs)
    for i, (name, parts) in enumerate(paid.items()):
        told = ", ".join(f"{price:.3g} {part}" for part, price in parts.items())
        apart = max(abs(predict(case, paid)[i] / cost[i] - 1) for case, cost in costs.items())
        unit = "MiB" if name == "memory" else "s"
        print(f"{name:<8}{told} ({unit}); off by up to {apart:.0%}")
    for case in map(sized, PREDICTED):
        told = describe(case, predict(case, paid))
        print(f"{case.rows} x {case.columns}, if it ran (see docs/scaling.md): {told}")
    figures = [case._asdict() | cost._asdict() for case, cost in costs.items()]
    kept = timing.keep("scaling", {"costs": figures, "exponents": fitted, "prices": paid})
    print(f"kept in {kept} and {picture(costs)}")


if __name__ == "__main__":
    app.run(main)
