"""Time and error of OptSpace here and in the gemelli package, on the same inputs in the same run.

python -m benchmarks.completion [--repeats=5]

The first run installs gemelli in an environment of its own under `.cache`, without the packages
that its OptSpace does not import. Ours and gemelli's are run in turn; gemelli's process times the
solution alone, with one OpenBLAS thread: with more, its many small products take ten times as
long. Both are given the true rank and 50 iterations.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags

from benchmarks import peers, timing
from smc_jax.completion.optspace import complete, optspace

REPEATS = flags.DEFINE_integer("repeats", 5, "Timings of each program.", lower_bound=1)
ITERATIONS = 50
GEMELLI = peers.Peer(
    "gemelli", "import gemelli.optspace", alone=("gemelli==0.0.13", "numpy", "scipy")
)
PROGRAM = """
from gemelli.optspace import OptSpace
solver = OptSpace(int(inputs["rank"]), int(inputs["iterations"]), 1e-6)

def once():
    u, s, v = solver.solve(inputs["values"].copy())
    return {"matrix": u @ s @ v.T}
"""


class Case(NamedTuple):
    """A matrix of Gaussian factors of which a fraction is seen, with noise."""

    rows: int
    columns: int
    rank: int
    seen: float
    sigma: float


CASES = (Case(1000, 100, 20, 0.3, 0.0), Case(200, 100, 3, 0.3, 0.5))


def draw(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The matrix, and what is seen of it with NaN elsewhere."""
    rng = np.random.default_rng(0)
    left = rng.normal(size=(case.rows, case.rank))
    matrix = left @ rng.normal(size=(case.rank, case.columns))
    noisy = matrix + case.sigma * rng.normal(size=matrix.shape)
    return matrix, np.where(rng.random(matrix.shape) < case.seen, noisy, np.nan)


def compare(case: Case) -> dict[str, Any]:
    """Times ours and gemelli's in turn, and prints medians, errors and the ratio."""
    matrix, values = draw(case)
    inputs = np.float32(values), ~np.isnan(values)
    began = time.perf_counter()
    solve = optspace.lower(*inputs, rank=case.rank, steps=ITERATIONS).compile()
    compilation = time.perf_counter() - began
    programs: dict[str, Callable[[], Any]] = {"ours": lambda: solve(*inputs, steps=ITERATIONS)}
    found = {"ours": np.asarray(complete(programs["ours"]()))}
    given = {"values": values, "rank": case.rank, "iterations": ITERATIONS}
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(peers.Running(GEMELLI, PROGRAM, given))
            running()
            found["gemelli"] = running.found["matrix"]
            programs["gemelli"] = running
        except peers.PeerError as error:
            print(f"{error}; ours alone:")
        timings = timing.interleaved(programs, repeats=REPEATS.value)
    title = (
        f"{case.rows} x {case.columns}, rank {case.rank}, {case.seen:.0%} seen, "
        f"noise {case.sigma:g}; ours compiles in {compilation:.1f} s"
    )
    print(timing.table(title, timings, peer=list(programs)[-1]))
    errors = {
        name: float(np.linalg.norm(estimate - matrix) / np.linalg.norm(matrix))
        for name, estimate in found.items()
    }
    print("  relative errors: " + ", ".join(f"{name} {e:.2e}" for name, e in errors.items()))
    return {
        "case": case._asdict(),
        "compile": compilation,
        "seconds": {name: each._asdict() for name, each in timings.items()},
        "errors": errors,
    }


def main(arguments: Sequence[str]) -> None:
    """All cases."""
    del arguments
    jax.config.update("jax_enable_compilation_cache", False)  # to time compilation
    figures = [compare(case) for case in CASES]
    print(timing.closing(timing.keep("completion", figures)))


if __name__ == "__main__":
    app.run(main)
