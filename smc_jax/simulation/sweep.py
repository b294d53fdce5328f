"""Many seeds of one experiment side by side, in segments that can be stopped and resumed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, PartitionSpec

from smc_jax.algebra import columns as by_columns
from smc_jax.beliefs.base import Diagnostics
from smc_jax.checks import at_least, one_of
from smc_jax.completion.stopping import HeldOut
from smc_jax.simulation.environment import Step
from smc_jax.simulation.loop import Carry, Loop, Refit, Reset


class ClosedChoiceError(RuntimeError):
    """A policy chose an entry that was not open."""


class Progress(NamedTuple):
    """A sweep after some of its batches: all that is needed to go on, and all that is known."""

    seeds: np.ndarray  # [seeds]
    carry: Carry  # leading axis: seeds, padded to a multiple of what runs side by side
    best: np.ndarray  # [seeds, horizon]  rewards of the best sequence
    refits: Refit  # [seeds, batches so far]
    steps: Step  # [seeds, picks so far]

    @property
    def batches(self) -> int:
        """Batches finished."""
        return self.refits.held_out.completion.shape[1]


class Sweep(NamedTuple):
    """Compiled once a number of seeds; every segment runs the same program."""

    start: Callable[[Sequence[int]], Progress]
    resume: Callable[[Progress], Iterator[Progress]]


def _seeds_over(
    devices: Sequence[jax.Device], vmap_width: int | None
) -> Callable[..., Callable[..., Any]]:
    """Functions of one seed become functions of many, shared out over the devices."""
    mesh = Mesh(np.asarray(devices), ("seeds",))

    def over(function: Callable[..., Any]) -> Callable[..., Any]:
        def on_one_device(arguments: Any) -> Any:
            seeds = jax.tree.leaves(arguments)[0].shape[0]
            width = vmap_width or seeds
            if width == 1:  # a vmap of one would update slices of a carry by way of copies
                return lax.map(function, arguments)
            grouped = jax.tree.map(
                lambda x: x.reshape(seeds // width, width, *x.shape[1:]), arguments
            )
            results = lax.map(jax.vmap(function), grouped)
            return jax.tree.map(lambda x: x.reshape(seeds, *x.shape[2:]), results)

        spec = PartitionSpec("seeds")
        sharded = jax.shard_map(
            on_one_device, mesh=mesh, in_specs=(spec,), out_specs=spec, check_vma=False
        )
        return jax.jit(sharded)

    return over


def _columns_over(devices: Sequence[jax.Device]) -> Callable[..., Callable[..., Any]]:
    """Functions of one seed become functions of many, one after another, columns over devices."""
    mesh = Mesh(np.asarray(devices), (by_columns.AXIS,), axis_types=(AxisType.Auto,))

    def over(function: Callable[..., Any]) -> Callable[..., Any]:
        @jax.jit
        def all_seeds(arguments: Any) -> Any:
            results = lax.map(function, arguments)
            given = arguments if isinstance(arguments, Reset | Carry) else results
            columns = given.world.problem.entries.shape[-1]
            if columns % len(devices):
                raise ValueError(
                    f"columns: {columns} cannot be shared out evenly over {len(devices)} devices"
                )

            def place(array: Array) -> Array:
                spec = by_columns.column_spec(array.shape, columns)
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


def _place(vmap_width: int | None, shard: str, devices: Sequence[jax.Device] | None) -> Placement:
    one_of("shard", shard, SHARDS)
    at_least("vmap_width", vmap_width, 1, optional=True)
    if shard == "columns" and vmap_width not in (None, 1):
        raise ValueError(f"vmap_width: must be 1 where columns are shared out, got {vmap_width}")
    devices = jax.devices() if devices is None else devices
    if shard == "columns":
        return Placement(_columns_over(devices), 1)
    if vmap_width is None and devices[0].platform == "cpu":
        vmap_width = 1
    return Placement(_seeds_over(devices, vmap_width), len(devices) * (vmap_width or 1))


def make_resets(
    reset: Callable[[Array], Reset],
    *,
    vmap_width: int | None = None,
    shard: str = "seeds",
    devices: Sequence[jax.Device] | None = None,
) -> Callable[[Array], Reset]:
    """The reset of many seeds, to be handed to the sweeps of several policies, and compiled once.

    The placement must be that of the sweeps.

    Args:
      reset: the reset of one seed, made by `loop.make_reset`.
      vmap_width: seeds side by side on one device; see `make_sweep`.
      shard: what is shared out over the devices; see `make_sweep`.
      devices: all by default.
    """
    return _place(vmap_width, shard, devices).over(reset)


def make_sweep(
    loop: Loop,
    *,
    segment: int = 1,
    vmap_width: int | None = None,
    shard: str = "seeds",
    devices: Sequence[jax.Device] | None = None,
    resets: Callable[[Array], Reset] | None = None,
) -> Sweep:
    """Runs the loop for many seeds, sharded over devices.

    Each device takes its seeds `vmap_width` at a time in a vmap, one group after another. The width
    of the vmap, not the number of seeds, decides how sums are rounded, and a rounding can tip a
    choice: at one width a seed gives the same curve alone or in any sweep.

    Args:
      loop: the experiment.
      segment: batches between two reports.
      vmap_width: seeds side by side on one device. None is one on a CPU, and all seeds of a device
        on an accelerator. In a vmap, a pick copies what one seed alone updates in place; on several
        CPU devices, wide batches of LAPACK calls, as of optspace or empirical, can hang.
      shard: what is shared out over the devices: `seeds`, or for one big matrix its `columns`,
        seeds one after another. Sums over columns are then rounded otherwise, and with
        `svi(columns=...)` a step takes other columns together. It is for policies that
        pick from one column at a time: others bring matrices together at every pick.
      devices: all by default.
      resets: what `make_resets` made for the same experiment, where several policies share it; by
        default it is made from the loop.
    """
    at_least("segment", segment, 1)
    over, multiple = _place(vmap_width, shard, devices)
    resets = over(loop.reset) if resets is None else resets
    init = over(loop.init)
    advance = {
        size: over(lambda carry, size=size: loop.advance(carry, size)) for size in (segment, 1)
    }

    def start(seeds: Sequence[int]) -> Progress:
        padding = -len(seeds) % multiple
        begun = resets(jnp.asarray([*seeds, *[seeds[-1]] * padding], jnp.uint32))
        carry = begun.carry(init(begun))
        none = np.zeros((len(seeds), 0))
        best = np.asarray(begun.best)[: len(seeds)]
        refits = Refit(Diagnostics(none, none, none, none > 0), HeldOut(none, none))
        return Progress(np.asarray(seeds), carry, best, refits, Step(*6 * [none]))

    def resume(progress: Progress) -> Iterator[Progress]:
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

    return Sweep(start, resume)


def _extend(done: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.concatenate([done.astype(more.dtype), more], axis=1)


def _check(diagnostics: Diagnostics, steps: Step, progress: Progress, loop: Loop) -> None:
    """Raises if a posterior is not finite or a choice was not open, and says where."""
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
        raise ClosedChoiceError(
            f"pick {picked[pick]} of seed {progress.seeds[seed]} was not an open entry"
        )
