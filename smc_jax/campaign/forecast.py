"""The fitted model of a campaign: a function of what was told, kept in a file beside the campaign.

The file is a cache: it may be thrown away at any time, and is made again from the campaign alone.
"""

import contextlib
import hashlib
import os
import pathlib
import secrets
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import smc_jax
from smc_jax.campaign.calibration import Errors, errors_of, folds_of
from smc_jax.campaign.described import Described
from smc_jax.campaign.engine import Engine, Survey, engine
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.model.features import Features, coordinates, entry_prediction
from smc_jax.model.parameters import OF_COLUMNS, Parameters

OnFit = Callable[[int, int], None]
FEWEST = 5  # values that a model needs
RANK = 10


class Forecast(NamedTuple):
    """A fit with the programs that belong to it."""

    engine: Engine
    fit: Parameters  # draws, with a leading axis
    fitted_at: int  # position of the log that the model was fitted to
    matrix: Matrix  # everything that was told, in the units of the fit
    errors: Errors  # of the model on known entries that it was fitted without
    key: jax.Array  # of the draws behind what is said of entries, by whichever program

    def survey(
        self, is_open: np.ndarray, offset: ArrayLike = 0.0, factor: ArrayLike = 1.0
    ) -> Survey:
        """What is left to find among open entries [D, N], in the model's units.

        Args:
          is_open: the entries that may be better than the best so far.
          offset: what each entry is moved by, [D, N] or one number for all.
          factor: what each entry is multiplied with before.
        """
        best, *moved = (
            jnp.asarray(x, jnp.result_type(float)) for x in (self.matrix.best, offset, factor)
        )
        line = (jnp.broadcast_to(x, is_open.shape) for x in moved)
        data = self.matrix.data
        found = self.engine.survey(self.key, self.fit, data, jnp.asarray(is_open), best, *line)
        return jax.tree.map(np.asarray, found)


class Kept(NamedTuple):
    """What the cache holds."""

    fit: Parameters
    stamp: str  # of the observations that it was fitted to
    fitted_at: int
    units: Units
    errors: Errors


class Keys(NamedTuple):
    """All randomness of a campaign, from its seed and a position of the log."""

    fit: jax.Array
    check: jax.Array
    ask: jax.Array  # of the choice of entries
    predict: jax.Array
    response: jax.Array  # of the model of who answers


def keys_at(seed: int, position: int) -> Keys:
    """The keys at a position, which is a part of the key of a choice alone.

    The other keys are the same at all positions: while no answer is told, a fit and the forecast
    of an entry stay as they are, though asks are written to the log.
    """
    fit, check, ask, predict = jax.random.split(jax.random.key(seed), 4)
    response = jax.random.fold_in(predict, 1)
    return Keys(fit, check, jax.random.fold_in(ask, position), predict, response)


def cache_beside(path: str | os.PathLike[str]) -> pathlib.Path:
    """The file beside a campaign that keeps the fit."""
    return pathlib.Path(f"{pathlib.Path(path)}-fit.npz")


def is_enough(matrix: Matrix) -> bool:
    """Whether there are values that a model can learn something from, history included."""
    values = np.asarray(matrix.data.average())[matrix.known]
    if matrix.history is not None and values.size:
        past = matrix.history
        values = np.append(values, np.asarray(past.average())[np.asarray(past.seen())])
    return values.size >= FEWEST and float(np.ptp(values)) > 0.0


def engine_of(matrix: Matrix, settings: dict[str, Any]) -> Engine:
    """The programs for a campaign with these settings."""
    noise, rank = settings["noise"], _rank(matrix, settings)
    fixed = None if noise is None else (noise / matrix.units.scale) ** 2
    return engine(rank=rank, fixed_noise=fixed, rule=settings["policy"])


def _rank(matrix: Matrix, settings: dict[str, Any]) -> int:
    """K, the bound on the rank, which no more than all rows can have."""
    return min(settings["rank"] or RANK, matrix.data.rows)


def _has_no_more_columns(draws: Parameters, columns: int) -> bool:
    """Whether the draws are of a matrix with at most that number of columns."""
    each = (getattr(draws, name) for name in OF_COLUMNS)
    return all(own is None or own.ndim == 1 or own.shape[1] <= columns for own in each)


def with_columns(draws: Parameters, columns: int) -> Parameters:
    """Draws for a matrix to which columns were added since, of which nothing is known beforehand.

    Their noise is that of a usual column, the mean of their latents is zero, and what is predicted
    of a row is the mean over the columns that there were.
    """
    usual_values = {"noise_scales": 1.0, "latent_means": 0.0}
    grown = {}
    for name, usual in usual_values.items():
        kept = getattr(draws, name)
        if kept is not None and kept.ndim > 1:  # columns have their own
            room = [(0, 0)] * kept.ndim
            room[1] = (0, columns - kept.shape[1])
            grown[name] = jnp.pad(kept, room, constant_values=usual)
    if draws.prediction is not None:  # [S, N, D]
        usual_column = draws.prediction.mean(1, keepdims=True)
        more = jnp.repeat(usual_column, columns - draws.prediction.shape[1], axis=1)
        grown["prediction"] = jnp.concatenate([draws.prediction, more], axis=1)
    return draws._replace(**grown)


def forecast(
    matrix: Matrix,
    settings: dict[str, Any],
    *,
    position: int,
    cache: pathlib.Path,
    identity: str,
    refit: bool,
    on_fit: OnFit,
    described: Callable[[], Described] = Described,
) -> Forecast:
    """The model fitted to the matrix, from the cache where that has it.

    Args:
      matrix: what was told.
      settings: of the campaign.
      position: of the log that the matrix is from.
      cache: the file beside the campaign.
      identity: of the campaign, by which the cache of another is known.
      refit: whether the model must be fitted to all of the matrix; if not, a fit to fewer values,
        or columns, will do.
      on_fit: told how many fits are done, and how many there are in all.
      described: reads the features of the rows and of the columns, where they are needed.
    """
    programs = engine_of(matrix, settings)
    keys = keys_at(settings["seed"], 0)
    # Columns may have come since; the fit must be of the same rows.
    shape = (matrix.data.rows, _rank(matrix, settings))
    kind = _digest(smc_jax.__version__, jax.__version__, jnp.result_type(float), identity)
    kind += _digest(settings["seed"], settings["noise"])
    kind += _digest(shape, matrix.units.sign, matrix.transposed)
    kept = _read(cache, kind)
    if kept is not None and not (
        kept.fitted_at <= position and _has_no_more_columns(kept.fit, matrix.data.columns)
    ):
        kept = None  # of a file that was since replaced by an older copy
    if kept is None or refit:
        # The units too: twice the values are the same data in other units.
        known = described().turned() if matrix.transposed else described()
        told = (matrix.data, known, matrix.history)
        leaves = (np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(told))
        stamp = _digest(*matrix.units, *leaves)
    if kept is not None and (not refit or kept.stamp == stamp):
        matrix = matrix.in_units(kept.units)
        programs = engine_of(matrix, settings)  # a known noise is another number in other units
        fit = with_columns(kept.fit, matrix.data.columns)
        return Forecast(programs, fit, kept.fitted_at, matrix, kept.errors, keys.predict)
    total = 1 + folds_of(matrix)
    on_fit(0, total)
    features = _coordinates(known)
    fitted = programs.fit(keys.fit, matrix.data, features, matrix.history)
    fit = jax.block_until_ready(fitted)
    on_fit(1, total)
    errors = errors_of(keys.check, programs, matrix, lambda fold: on_fit(1 + fold, total), features)
    _write(cache, Kept(fit, stamp, position, matrix.units, errors), kind)
    return Forecast(programs, fit, position, matrix, errors, keys.predict)


def _coordinates(known: Described) -> Features:
    """What is known beforehand as the model takes it; what is alike everywhere tells nothing."""
    rows, columns = (
        None if x is None or not np.ptp(x, axis=0).any() else coordinates(x)
        for x in (known.rows, known.columns)
    )
    guess = known.entries
    # As `entry_prediction` would refuse it.
    if guess is not None and np.nanstd(guess) <= 1e-12 * np.nanmax(np.abs(guess)):
        guess = None
    return Features(rows, columns, None if guess is None else entry_prediction(guess))


def _digest(*parts: object) -> str:
    content = hashlib.sha256()
    for part in parts:
        content.update(part if isinstance(part, bytes) else repr(part).encode())
        content.update(b"|")
    return content.hexdigest()


def _read(cache: pathlib.Path, kind: str) -> Kept | None:
    """What was kept; None where there is nothing, or something of another kind."""
    try:
        with cache.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if str(file["kind"]) != kind:
                return None
            own = [name.removeprefix("fit_") for name in file.files if name.startswith("fit_")]
            fit = Parameters(**{name: jnp.asarray(file[f"fit_{name}"]) for name in own})
            if fit.prediction is not None:
                size = len(fit.sigma), *fit.prediction.shape[1:]
                fit = fit._replace(prediction=jnp.broadcast_to(fit.prediction, size))
            units = Units(*(float(x) for x in file["units"]))
            stamp, fitted_at = str(file["stamp"]), int(file["fitted_at"])
            errors = Errors(file["errors_mean"], file["errors_ratio"])
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return Kept(fit, stamp, fitted_at, units, errors)


def _write(cache: pathlib.Path, kept: Kept, kind: str) -> None:
    """Keeps the fit, whole or not at all; a folder that cannot be written costs the next fit."""
    told: dict[str, Any] = {
        "kind": kind,
        "stamp": kept.stamp,
        "fitted_at": kept.fitted_at,
        "units": kept.units,
        "errors_mean": kept.errors.mean,
        "errors_ratio": kept.errors.ratio,
    }
    leaves = {name: leaf for name, leaf in kept.fit._asdict().items() if leaf is not None}
    if kept.fit.prediction is not None:
        leaves["prediction"] = kept.fit.prediction[:1]  # of all draws it is the same
    told |= {f"fit_{name}": np.asarray(leaf) for name, leaf in leaves.items()}
    draft = cache.with_name(f".{cache.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        try:
            with draft.open("xb") as stream:
                np.savez(stream, **told)
            os.replace(draft, cache)
        finally:
            draft.unlink(missing_ok=True)
