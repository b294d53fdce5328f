"""The log as the model sees it: dense arrays, values in units of its own, long axis as columns."""

from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from smc_jax.campaign.log import Log
from smc_jax.campaign.silence import asked_of
from smc_jax.observations import Observations

Index = TypeVar("Index", int, np.ndarray)


class Units(NamedTuple):
    """The model's values are sign (y - centre) / scale: the higher, the better."""

    centre: float
    scale: float
    sign: float  # 1.0 to maximise, -1.0 to minimise

    def of(self, value: ArrayLike) -> np.ndarray:
        """From the values of the campaign to those of the model."""
        return self.sign * (np.asarray(value, float) - self.centre) / self.scale

    def back(self, value: ArrayLike) -> np.ndarray:
        """From the values of the model to those of the campaign."""
        return self.centre + self.sign * self.scale * np.asarray(value, float)


class Matrix(NamedTuple):
    """Everything that was told, in the model's orientation [D, N] with D <= N."""

    data: Observations  # in the model's units
    known: np.ndarray  # [D, N] bool
    pending: np.ndarray  # [D, N] bool
    blocked: np.ndarray  # [D, N] bool: failed, asked without an answer, or closed for good
    best: float  # the best value so far, in the model's units; -inf where nothing is known
    units: Units
    transposed: bool  # rows of the campaign are columns of the model
    history: Observations | None = None  # [D, M]  of other columns, in the model's units
    asked: Observations | None = None  # [D, N]  asks that had an answer, and refusals; no values

    @property
    def open(self) -> np.ndarray:
        """The entries [D, N] that may be asked."""
        return ~(self.known | self.pending | self.blocked)

    def in_units(self, units: Units) -> "Matrix":
        """The same matrix in units of an earlier fit, which had the same sign."""
        own = self.units
        centre = float(own.of(units.centre))
        scale = units.scale / own.scale
        data = self.data.relative_to(centre, scale)
        past = None if self.history is None else self.history.relative_to(centre, scale)
        best = (self.best - centre) / scale
        return self._replace(data=data, best=best, units=units, history=past)

    def place(self, row: Index, column: Index) -> tuple[Index, Index]:
        """From entries of the campaign to those of the model, and the other way round."""
        return (column, row) if self.transposed else (row, column)

    def turned(self, array: np.ndarray) -> np.ndarray:
        """An array [D, N] of the model as one of the campaign, and the other way round."""
        return array.T if self.transposed else array


def units_of(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    maximise: bool,
    noise: float | None,
) -> Units:
    """Units in which the values, each with its weight, have mean 0 and a spread of about 1.

    With a known noise the scale is the noise times a power of two, so that the noise of the model,
    a setting that compiled programs depend on, is the same while values come in.
    """
    centre, spread = 0.0, 1.0
    if values.size:
        centre = float(np.average(values, weights=weights))
        spread = float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))
    varies = spread > 1e-14 * max(abs(centre), 1e-30)  # more than the rounding of float64
    scale = spread if varies else 1.0
    if noise is not None:
        scale = noise * 2.0 ** max(round(np.log2(max(scale / noise, 1.0))), 0)
    return Units(centre, scale, 1.0 if maximise else -1.0)


def matrix_of(
    log: Log,
    *,
    maximise: bool,
    noise: float | None = None,
    retry_failed: bool = False,
    retry_silent: bool = False,
) -> Matrix:
    """The matrix that a log stands for.

    Args:
      log: what was asked and told.
      maximise: whether high values are good.
      noise: the known standard deviation of a measurement; None where it is learned.
      retry_failed: whether an entry whose measurement failed may be asked again.
      retry_silent: whether an entry that was asked without an answer may be asked again.
    """
    shape = len(log.row_ids), len(log.column_ids)
    past = None if log.past is None else log.past.of(log.row_ids, log.column_ids)
    values, weights = log.value, np.ones(log.value.size)
    if past is not None:
        values = np.concatenate([values, past.value])
        weights = np.concatenate([weights, past.weight])
    units = units_of(values, weights, maximise=maximise, noise=noise)
    counts, sums, scatter = _sums(shape, log.row, log.column, units.of(log.value))
    history = None
    if past is not None and past.value.size:
        shape_of_past = (shape[0], past.column.max() + 1)
        own = (past.row, past.column, units.of(past.value), past.weight)
        history = Observations(
            *(jnp.asarray(x, jnp.result_type(float)) for x in _sums(shape_of_past, *own))
        )

    pending, blocked = np.zeros(shape, bool), np.zeros(shape, bool)
    pending[log.pending_row, log.pending_column] = True
    if not retry_failed:
        blocked[log.failed_row, log.failed_column] = True
    if not retry_silent:
        blocked[log.silent_row, log.silent_column] = True
    blocked[log.closed_row, log.closed_column] = True
    blocked |= log.closed_rows[:, None] | log.closed_columns

    # The columns of history are further columns of the campaign: there these stay columns.
    turn = shape[0] > shape[1] and log.past is None

    def model(array: np.ndarray) -> Array:
        return jnp.asarray(array.T if turn else array, jnp.result_type(float))

    known = counts > 0
    arrays = (known, pending, blocked)
    known, pending, blocked = (np.ascontiguousarray(x.T) if turn else x for x in arrays)
    data = Observations(model(counts), model(sums), model(scatter))
    best = float((sums[counts > 0] / counts[counts > 0]).max()) if log.value.size else -np.inf
    asked = None if log.responses is None else asked_of(shape, log.responses)
    if asked is not None and turn:
        asked = asked.transposed()
    return Matrix(data, known, pending, blocked, best, units, turn, history, asked)


def _sums(
    shape: tuple[int, int],
    row: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number, the sum and the scatter of the values of each entry of a matrix.

    A value of weight w counts as w values.
    """
    weight = np.ones(value.size) if weight is None else weight
    flat = np.ravel_multi_index((row, column), shape) if value.size else row
    size = shape[0] * shape[1]
    counts = np.bincount(flat, weight, minlength=size)
    sums = np.bincount(flat, weight * value, minlength=size)
    mean = sums / np.where(counts > 0.0, counts, 1.0)
    scatter = np.bincount(flat, weight * (value - mean[flat]) ** 2, minlength=size)
    return counts.reshape(shape), sums.reshape(shape), scatter.reshape(shape)
