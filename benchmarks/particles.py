"""Particle Thompson Sampling here and in the irec package, on the same data in the same run.

python -m benchmarks.particles [--rows=50 --columns=100 --particles=30 --rank=3 --picks=20]

A pick is a user who arrives at random, as its authors have it, the choice of an item, and the
filter's update; both begin from the same ratings. irec 1.2.5 is the last release whose package
holds its PTS. It is installed without most of what it says it needs, with NumPy below 2.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import launch  # noqa: F401  sets up the machine before JAX is imported

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from benchmarks import peers, timing
from benchmarks.experiment import Experiment
from smc_jax import presets
from smc_jax.simulation.offers import arrivals

ROWS = flags.DEFINE_integer("rows", 50, "D, items.", lower_bound=1)
COLUMNS = flags.DEFINE_integer("columns", 100, "N, users.", lower_bound=1)
PARTICLES = flags.DEFINE_integer("particles", 30, "P.", lower_bound=1)
RANK = flags.DEFINE_integer("rank", 3, "K of the filter.", lower_bound=1)
SEEN = flags.DEFINE_float("seen", 0.1, "Size of the initial design, as a fraction of all entries.")
PICKS = flags.DEFINE_integer("picks", 20, "Of a timing.", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 5, "Timings of each program.", lower_bound=1)
NOISE_VARIANCE = 0.1
IREC = peers.Peer(
    "irec",
    "from irec.value_functions.PTS import PTS",
    packages=("numpy<2", "scipy<1.14", "scikit-learn<1.6", "numba<0.62", "matplotlib", "tqdm"),
    alone=("irec==1.2.5",),
)
PROGRAM = """
import copy, types
import scipy.stats
from irec.value_functions.PTS import PTS
entries, (items, users) = inputs["entries"], inputs["seen"].nonzero()
np.random.seed(0)
filter = PTS(
    num_particles=int(inputs["particles"]), num_lat=int(inputs["rank"]),
    var=float(inputs["noise_variance"]), var_u=1.0, var_v=1.0,
)
ratings = np.column_stack([users, items, entries[items, users]])
rows, columns = entries.shape
filter.reset(types.SimpleNamespace(data=ratings, num_total_users=columns, num_total_items=rows))

def once():
    pts, seen, chosen = copy.deepcopy(filter), inputs["seen"].copy(), []
    for _ in range(int(inputs["picks"])):
        user = np.random.choice(np.flatnonzero(~seen.all(0)))
        candidates = np.flatnonzero(~seen[:, user])
        scores, _ = pts.action_estimates((user, candidates))
        item = candidates[scores.argmax()]
        pts.update(None, (user, item), entries[item, user], None)
        seen[item, user] = True
        chosen.append((item, user))
    return {"chosen": chosen}
"""


def main(arguments: Sequence[str]) -> None:
    """Times both in turn, and prints medians and the ratio."""
    del arguments
    initial = round(SEEN.value * ROWS.value * COLUMNS.value)
    experiment = Experiment(
        presets.paper(), ROWS.value, COLUMNS.value, PICKS.value, initial, refits=1
    )
    policy = experiment.policy(
        "particle",
        particles=PARTICLES.value,
        rank=RANK.value,
        noise_variance=NOISE_VARIANCE,
        noisy=False,
    )
    loop = experiment.loop(policy, arrivals(experiment.environment()))
    carry, _ = jax.jit(loop.start)(jnp.uint32(0))
    carry = jax.jit(loop.refit)(carry, jax.random.key(0))
    picks = jax.jit(lambda carry: loop.picks(carry, jax.random.key(0))[1])
    programs: dict[str, Callable[[], Any]] = {"ours": lambda: picks(carry)}
    given = {
        "entries": np.float64(carry.world.problem.entries),
        "seen": np.asarray(carry.world.data.seen()),
        "particles": PARTICLES.value,
        "rank": RANK.value,
        "noise_variance": NOISE_VARIANCE,
        "picks": PICKS.value,
    }
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(peers.Running(IREC, PROGRAM, given))
            running()
            programs["irec"] = running
        except peers.PeerError as error:
            print(f"{error}; ours alone:")
        timings = timing.interleaved(programs, repeats=REPEATS.value)
    each = {name: one.each(PICKS.value) for name, one in timings.items()}
    size = f"{ROWS.value} x {COLUMNS.value}, {PARTICLES.value} particles, rank {RANK.value}"
    print(timing.table(f"one pick, {size}", each, peer=list(programs)[-1]))
    figures = {"size": size, "seconds": {name: one._asdict() for name, one in each.items()}}
    print(timing.closing(timing.keep("particles", figures)))


if __name__ == "__main__":
    app.run(main)
