"""Time and error of OptSpace here and in the gemelli package, on the same inputs in the same run.

python -m benchmarks.completion [--repeats=5]

The first run installs gemelli in an environment of its own under `.cache`, without the packages
that its OptSpace does not import. Each repeat runs ours and then gemelli's, in a process of its
own that times the solution alone, with one OpenBLAS thread: with more, gemelli's many small
products take ten times as long. Both are given the true rank and 50 iterations.
"""

import os
import subprocess
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import numpy as np
from absl import app, flags

from smc_jax.optspace import complete, optspace

REPEATS = flags.DEFINE_integer("repeats", 5, "Timings of each program.", lower_bound=1)
ITERATIONS = 50
PEER = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks" / "gemelli"
PACKAGES = ("gemelli==0.0.13", "numpy", "scipy")
PEER_PROGRAM = """
import sys, time
import numpy as np
from gemelli.optspace import OptSpace
inputs = np.load(sys.argv[1])
solver = OptSpace(int(inputs["rank"]), int(inputs["iterations"]), 1e-6)
began = time.perf_counter()
u, s, v = solver.solve(inputs["values"].copy())
seconds = time.perf_counter() - began
np.savez(sys.argv[2], matrix=u @ s @ v.T, seconds=seconds)
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


def peer_python() -> str:
    """The interpreter that has gemelli; installs it if there is none."""
    python = str(PEER / ("Scripts" if os.name == "nt" else "bin") / "python")
    check = [python, "-W", "ignore", "-c", "import gemelli.optspace"]
    if Path(python).exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return python
    venv.create(PEER, with_pip=True, clear=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
    subprocess.run(install, check=True, capture_output=True)
    subprocess.run(check, check=True, capture_output=True)
    return python


def run_peer(python: str, case: Case, values: np.ndarray) -> tuple[np.ndarray, float]:
    """gemelli's matrix and its seconds."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/inputs.npz", f"{folder}/outputs.npz"
        np.savez(inputs, values=values, rank=case.rank, iterations=ITERATIONS)
        command = [python, "-W", "ignore", "-c", PEER_PROGRAM, inputs, outputs]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        with np.load(outputs) as found:
            return found["matrix"], float(found["seconds"])


def compare(case: Case, python: str | None) -> None:
    """Runs ours and gemelli's in turn, repeatedly, and prints medians, errors and the ratio."""
    matrix, values = draw(case)
    inputs = np.float32(values), ~np.isnan(values)
    began = time.perf_counter()
    solve = optspace.lower(*inputs, rank=case.rank, steps=ITERATIONS).compile()
    compilation = time.perf_counter() - began
    jax.block_until_ready(solve(*inputs, steps=ITERATIONS))
    found: dict[str, np.ndarray] = {}
    times: dict[str, list[float]] = {"ours": [], "gemelli": []}
    for _ in range(REPEATS.value):
        began = time.perf_counter()
        completion = jax.block_until_ready(solve(*inputs, steps=ITERATIONS))
        times["ours"].append(time.perf_counter() - began)
        found["ours"] = np.asarray(complete(completion))
        if python is not None:
            found["gemelli"], seconds = run_peer(python, case, values)
            times["gemelli"].append(seconds)
    print(
        f"{case.rows} x {case.columns}, rank {case.rank}, {case.seen:.0%} seen, "
        f"noise {case.sigma:g}; ours compiles in {compilation:.1f} s"
    )
    for name, estimate in found.items():
        error = np.linalg.norm(estimate - matrix) / np.linalg.norm(matrix)
        low, median, high = np.percentile(times[name], [0, 50, 100])
        print(f"  {name:<8}{median:>9.3f} s ({low:.3f}-{high:.3f}), relative error {error:.2e}")
    if python is not None:
        ratio = np.median(times["gemelli"]) / np.median(times["ours"])
        print(f"  ours is {ratio:.1f} times as fast")


def main(arguments: Sequence[str]) -> None:
    """All cases."""
    del arguments
    jax.config.update("jax_enable_compilation_cache", False)  # to time compilation
    python = None
    try:
        python = peer_python()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"gemelli could not be installed ({type(error).__name__}); ours alone:")
    for case in CASES:
        compare(case, python)


if __name__ == "__main__":
    app.run(main)
