"""Many seeds of one experiment side by side, in segments that can be stopped and resumed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, PartitionSpec

from smc_jax import sharding
from smc_jax.beliefs import Diagnostics
from smc_jax.completable import HeldOut
from smc_jax.environment import Step
from smc_jax.loop import Carry, Loop, Opening, Refit


class Progress(NamedTuple):
    """A sweep after some of its batches: all that is needed to go on, and all that is known."""

    seeds: np.ndarray  # [seeds]
    carry: Carry  # leading axis: seeds, padded to a multiple of the devices that share them
    best: np.ndarray  # [seeds, horizon]  rewards of the best sequence
    refits: Refit  # [seeds, batches so far]
    steps: Step  # [seeds, picks so far]

    @property
    def batches(self) -> int:
        """Batches finished."""
        return self.refits.held_out.completion.shape[1]


class Curves(NamedTuple):
    """What a finished sweep leaves, as NumPy arrays with the seeds on the first axis."""

    regret: np.ndarray  # [seeds, horizon] cumulative, noise never counted
    reward: np.ndarray  # [seeds, horizon] as received
    rows: np.ndarray  # [seeds, horizon]
    cols: np.ndarray  # [seeds, horizon]
    elbo: np.ndarray  # [seeds, batches]
    effective_rank: np.ndarray  # [seeds, batches]
    completion_error: np.ndarray  # [seeds, batches]  held out; NaN where it was not asked for
    zero_error: np.ndarray  # [seeds, batches]  of predicting 0 in its place


class Sweep(NamedTuple):
    """Compiled once a number of seeds; every segment runs the same program."""

    start: Callable[[Sequence[int]], Progress]
    go_on: Callable[[Progress], Iterator[Progress]]


def _seeds_over(devices: Sequence[jax.Device], lanes: int) -> Callable[..., Callable[..., Any]]:
    """Functions of one seed become functions of many, shared out over the devices."""
    mesh = Mesh(np.asarray(devices), ("seeds",))

    def over(function: Callable[..., Any]) -> Callable[..., Any]:
        def on_one_device(arguments: Any) -> Any:
            if lanes == 1:  # a vmap of one would update slices of a carry by way of copies
                return lax.map(function, arguments)
            grouped = jax.tree.map(lambda x: x.reshape(-1, lanes, *x.shape[1:]), arguments)
            results = lax.map(jax.vmap(function), grouped)
            return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), results)

        spec = PartitionSpec("seeds")
        sharded = jax.shard_map(
            on_one_device, mesh=mesh, in_specs=(spec,), out_specs=spec, check_vma=False
        )
        return jax.jit(sharded)

    return over


def _columns_over(devices: Sequence[jax.Device]) -> Callable[..., Callable[..., Any]]:
    """Functions of one seed become functions of many, one after another, columns over devices."""
    mesh = Mesh(np.asarray(devices), (sharding.AXIS,), axis_types=(AxisType.Auto,))

    def over(function: Callable[..., Any]) -> Callable[..., Any]:
        @jax.jit
        def all_seeds(arguments: Any) -> Any:
            results = lax.map(function, arguments)
            given = arguments if isinstance(arguments, Opening | Carry) else results
            columns = given.problem.entries.shape[-1]
            if columns % len(devices):
                raise ValueError(
                    f"columns: {columns} cannot be shared out evenly over {len(devices)} devices"
                )

            def place(array: Array) -> Array:
                spec = sharding.column_spec(array.shape, columns)
                return lax.with_sharding_constraint(array, spec)

            return jax.tree.map(place, results)

        def call(arguments: Any) -> Any:
            with jax.set_mesh(mesh):
                return all_seeds(arguments)

        return call

    return over


SHARDS = ("seeds", "columns")


class Placement(NamedTuple):
    """Where seeds are run."""

    over: Callable[..., Callable[..., Any]]  # from functions of one seed to functions of many
    multiple: int  # of which their number must be one


def _place(lanes: int, shard: str, devices: Sequence[jax.Device] | None) -> Placement:
    if shard not in SHARDS:
        raise ValueError(f"shard: unknown {shard!r}; choose from {', '.join(SHARDS)}")
    if shard == "columns" and lanes > 1:
        raise ValueError(f"lanes: must be 1 where columns are shared out, got {lanes}")
    devices = jax.devices() if devices is None else devices
    if shard == "columns":
        return Placement(_columns_over(devices), 1)
    return Placement(_seeds_over(devices, lanes), len(devices) * lanes)


def make_openings(
    opening: Callable[[Array], Opening],
    *,
    lanes: int = 1,
    shard: str = "seeds",
    devices: Sequence[jax.Device] | None = None,
) -> Callable[[Array], Opening]:
    """Openings of many seeds, to be handed to the sweeps of several policies, and compiled once.

    Args:
      opening: of one seed, made by `loop.make_opening`.
      lanes: as those sweeps have it, and so are the others.
      shard: likewise.
      devices: likewise.
    """
    return _place(lanes, shard, devices).over(opening)


def make_sweep(
    loop: Loop,
    *,
    segment: int = 1,
    lanes: int = 1,
    shard: str = "seeds",
    devices: Sequence[jax.Device] | None = None,
    openings: Callable[[Array], Opening] | None = None,
) -> Sweep:
    """Runs the loop for many seeds, sharded over devices.

    Each device takes its seeds `lanes` at a time in a vmap, one group after another. The width
    of the vmap, not the number of seeds, decides how sums are rounded, and a rounding can tip a
    choice: at one width a seed gives the same curve alone or in any sweep.

    Args:
      loop: the experiment.
      segment: batches between two reports.
      lanes: seeds side by side on one device: 1 suits CPU cores, more an accelerator. In a vmap, a
        pick copies what one seed alone updates in place; on several CPU devices, wide batches of
        LAPACK calls, as of optspace or empirical, can hang.
      shard: what is shared out over the devices: `seeds`, or for one big matrix its `columns`,
        seeds one after another. Sums over columns are then rounded otherwise, and with
        `inference.svi(columns=...)` other columns are looked at together. It is for policies that
        pick from one column at a time: others bring matrices together at every pick.
      devices: all by default.
      openings: those of the same experiment, made by `make_openings`, where other policies have
        them too; by default made from the loop.
    """
    over, multiple = _place(lanes, shard, devices)
    openings = over(loop.open) if openings is None else openings
    init = over(loop.init)
    advance = {
        size: over(lambda carry, size=size: loop.advance(carry, size)) for size in (segment, 1)
    }

    def start(seeds: Sequence[int]) -> Progress:
        padding = -len(seeds) % multiple
        opened = openings(jnp.asarray([*seeds, *[seeds[-1]] * padding], jnp.uint32))
        carry = opened.carry(init(opened))
        none = np.zeros((len(seeds), 0))
        best = np.asarray(opened.best)[: len(seeds)]
        refits = Refit(Diagnostics(none, none, none > 0), HeldOut(none, none))
        return Progress(np.asarray(seeds), carry, best, refits, Step(*5 * [none]))

    def go_on(progress: Progress) -> Iterator[Progress]:
        while progress.batches < loop.batches:
            size = segment if loop.batches - progress.batches >= segment else 1
            carry, refits, steps = advance[size](progress.carry)
            seeds = progress.best.shape[0]
            refits, steps = jax.tree.map(lambda x: np.asarray(x)[:seeds], (refits, steps))
            _check(refits.diagnostics, steps, progress, loop)
            progress = Progress(
                progress.seeds,
                carry,
                progress.best,
                jax.tree.map(_extend, progress.refits, refits),
                jax.tree.map(_extend, progress.steps, steps),
            )
            yield progress

    return Sweep(start, go_on)


def curves(progress: Progress, stop: np.ndarray | None = None) -> Curves:
    """The sweep's results; picks that the last batch made beyond the horizon are cut.

    `stop` [seeds] is the refit at which each seed's run ended, -1 for never. Its later picks are
    recorded as row and column -1 and reward 0, its regret and its refits' records stay as at the
    stop. A sweep may end early if all of its seeds have.
    """
    best = np.asarray(progress.best, np.float64)
    seeds, horizon = best.shape
    batches, made = progress.batches, progress.steps.row.shape[1]
    batch = made // batches
    last = np.full(seeds, batches) if stop is None else np.where(stop < 0, batches, stop)
    picked = np.arange(horizon) < batch * last[:, None]

    def picks(values: np.ndarray, otherwise: float) -> np.ndarray:
        padded = np.pad(values[:, :horizon], ((0, 0), (0, max(horizon - made, 0))))
        return np.where(picked, padded, np.asarray(otherwise, values.dtype))

    def refits(values: np.ndarray) -> np.ndarray:
        index = np.arange(-(-horizon // batch))
        return np.take_along_axis(values, np.minimum(index, last[:, None]), axis=1)

    steps, records = jax.tree.map(np.asarray, (progress.steps, progress.refits))
    expected = picks(steps.expected, 0.0).astype(np.float64)
    return Curves(
        np.cumsum(np.where(picked, best - expected, 0.0), axis=1),
        picks(steps.reward, 0.0),
        picks(steps.row, -1).astype(np.int32),
        picks(steps.column, -1).astype(np.int32),
        *map(refits, records.diagnostics[:2]),
        *map(refits, records.held_out),
    )


def _extend(done: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.concatenate([done.astype(more.dtype), more], axis=1)


def _check(diagnostics: Diagnostics, steps: Step, progress: Progress, loop: Loop) -> None:
    """Raises if a posterior is not finite or a choice was not available, and says where."""
    finite = np.asarray(diagnostics.finite)
    if not finite.all():
        seed, batch = np.argwhere(~finite)[0]
        raise FloatingPointError(
            f"the posterior of seed {progress.seeds[seed]} is not finite"
            f" at refit {progress.batches + batch}"
        )
    picked = progress.batches * loop.batch + np.arange(steps.valid.shape[1])
    broken = ~np.asarray(steps.valid) & (picked < progress.best.shape[1])
    if broken.any():
        seed, pick = np.argwhere(broken)[0]
        raise RuntimeError(
            f"pick {picked[pick]} of seed {progress.seeds[seed]} was not an available entry"
        )
