"""Priors in files: one .npz without pickle, named arrays, with a version and a kind."""

import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.history import History
from smc_jax.beliefs.units import Standardised
from smc_jax.beliefs.variational import Fit, Variational
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations

VERSION = 1
KINDS = ("history", "fit", "told")


class Saved(NamedTuple):
    """What a file holds."""

    prior: History | EarlierFit | Parameters
    row_ids: tuple[str, ...] | None  # of the rows [D], where they are known
    column_ids: tuple[str, ...] | None = None  # of the columns that it was made of

    def of_rows(self, ids: Sequence[Any] | np.ndarray) -> "Saved":
        """The same prior for rows of these ids, in their order.

        History may have other rows too, which are left out, and lack some, of which it then says
        nothing. A fit and parameters must have exactly these rows.
        """
        wanted = [str(one) for one in ids]
        if self.row_ids is None:
            if len(wanted) != rows_of(self.prior):
                raise ValueError(
                    f"prior: it has {rows_of(self.prior)} rows and no ids of them, but"
                    f" {len(wanted)} rows are needed"
                )
            return self
        place = {name: number for number, name in enumerate(self.row_ids)}
        missing = [name for name in wanted if name not in place]
        known = len(wanted) - len(missing)
        if not known:
            raise ValueError(f"prior: none of its rows has the id {wanted[0]!r}, or another one")
        found = np.asarray([place.get(name, -1) for name in wanted])
        if isinstance(self.prior, History):
            data = self.prior.data.at_rows(jnp.asarray(found))
            return self._replace(prior=self.prior._replace(data=data), row_ids=tuple(wanted))
        if missing or len(self.row_ids) != len(wanted):
            raise ValueError(
                f"prior: a fit needs the rows that it was made of; {len(missing)} of {len(wanted)}"
                " rows are not in it: hand over the table itself, as history"
            )
        return self._replace(prior=_rows_taken(self.prior, found), row_ids=tuple(wanted))


def rows_of(prior: History | EarlierFit | Parameters) -> int:
    """D."""
    if isinstance(prior, History):
        return prior.data.rows
    if isinstance(prior, EarlierFit):
        return _q_of(prior).mean.loadings.shape[0]
    return prior.loadings.shape[0]


def save(
    path: str | PathLike[str] | BinaryIO, prior: Any, row_ids: Any = None, column_ids: Any = None
) -> None:
    """Writes a prior: a `History`, an `EarlierFit` or, told by somebody, `Parameters`.

    Args:
      path: of the file, or a file that is open for writing.
      prior: what a belief takes as its prior.
      row_ids: of its rows, which then need not be those of a later matrix, nor in their order.
      column_ids: of the columns that it was made of, so that a later matrix can refuse them.
    """
    arrays: dict[str, Any] = {"version": VERSION}
    if isinstance(prior, History):
        arrays |= {"kind": "history"} | _named("history", prior.data.of_values())
        if prior.features is not None:
            arrays["features"] = prior.features
    elif isinstance(prior, EarlierFit):
        q = _q_of(prior)
        arrays |= {"kind": "fit", "temper": prior.temper}
        arrays |= _named("mean", q.mean) | _named("log_scale", q.log_scale)
        if isinstance(prior.fit, Standardised):
            arrays |= {"centre": prior.fit.centre, "scale": prior.fit.scale}
    elif isinstance(prior, Parameters):
        if prior.answers is not None:
            raise ValueError(
                "prior: a file does not hold who answers; save prior._replace(answers=None)"
            )
        arrays |= {"kind": "told"} | _named("told", prior)
    else:
        raise ValueError(
            f"prior: must be a History, an EarlierFit or Parameters, got {type(prior).__name__}"
        )
    if row_ids is not None:
        names = _checked_ids([str(one) for one in row_ids], rows_of(prior))
        arrays["row_ids"] = np.asarray(names, np.str_)
    if column_ids is not None:
        arrays["column_ids"] = np.asarray([str(one) for one in column_ids], np.str_)
    arrays = {name: np.asarray(value) for name, value in arrays.items()}
    if isinstance(path, str | PathLike):
        with Path(path).open("wb") as file:  # NumPy would add a suffix to a name
            np.savez_compressed(file, **arrays)
    else:
        np.savez_compressed(path, **arrays)


def load(path: str | PathLike[str]) -> Saved:
    """Reads a prior; ValueError in one line where the file cannot be used, OSError without one."""
    with Path(path).open("rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, EOFError, ValueError, KeyError, AttributeError, zipfile.error) as error:
            raise ValueError(f"prior: {path} is no file of a prior, or damaged") from error
        except Exception as error:  # a damaged archive can raise what zlib and others raise
            raise ValueError(f"prior: {path} is damaged: {type(error).__name__}") from error
    try:
        return _read(arrays)
    except KeyError as error:
        raise ValueError(f"prior: {path} lacks the array {error}") from error
    except ValueError as error:
        raise ValueError(f"prior: {path}: {error}") from error


def _read(arrays: dict[str, np.ndarray]) -> Saved:
    version = arrays["version"]
    if version.shape or version.dtype.kind not in "iu" or int(version) != VERSION:
        raise ValueError(f"has the format {version!r}, and only {VERSION} can be read")
    kind = str(arrays["kind"])
    if kind not in KINDS:
        raise ValueError(f"is of the kind {kind!r}, not one of {', '.join(KINDS)}")
    for name, value in arrays.items():
        if name not in ("kind", *_IDS) and value.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be numbers, got {value.dtype}")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{name} has numbers that are not finite")
    readers: dict[str, Any] = {"history": _history, "fit": _fit, "told": _told}
    prior = readers[kind](arrays)
    rows, columns = (_ids(arrays, name) for name in _IDS)
    if rows is not None:
        rows = _checked_ids(list(rows), rows_of(prior))
    return Saved(prior, rows, columns)


_IDS = ("row_ids", "column_ids")


def _ids(arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...] | None:
    found = arrays.get(name)
    if found is None:
        return None
    if found.dtype.kind != "U" or found.ndim != 1:
        raise ValueError(f"{name} must be a list of texts")
    return tuple(found.tolist())


def _history(arrays: dict[str, np.ndarray]) -> History:
    data = _observations(_part(arrays, "history"))
    features = arrays.get("features")
    if features is None:
        return History.of(data)
    if features.ndim != 2:
        raise ValueError(f"features must be a matrix, got the shape {features.shape}")
    return History.of(data, features=jnp.asarray(features, float))


def _fit(arrays: dict[str, np.ndarray]) -> EarlierFit:
    mean, log_scale = (_parameters(_part(arrays, name), optional=True) for name in _SIDES)
    if jax.tree.map(jnp.shape, mean) != jax.tree.map(jnp.shape, log_scale):
        raise ValueError("mean and log_scale must have the same shapes")
    temper = arrays["temper"]
    if temper.shape:
        raise ValueError(f"temper must be a number, got the shape {temper.shape}")
    nothing, none = jnp.asarray(-jnp.inf, float), jnp.zeros((), int)
    fit: Any = Fit(Variational(mean, log_scale), (), nothing, none)
    if "centre" in arrays or "scale" in arrays:
        units = [arrays[name] for name in ("centre", "scale")]
        if any(one.shape for one in units) or not units[1] > 0:
            raise ValueError("centre and scale must be numbers, and scale positive")
        fit = Standardised(fit, *(jnp.asarray(one, float) for one in units))
    return EarlierFit.of(fit, temper=float(temper))


def _told(arrays: dict[str, np.ndarray]) -> Parameters:
    return _parameters(_part(arrays, "told"), optional=False)


_SIDES = ("mean", "log_scale")


def _parameters(found: dict[str, np.ndarray], *, optional: bool) -> Parameters:
    """Parameters with the number of axes that each has; those that are left out are None."""
    unknown = found.keys() - set(Parameters._fields)
    if unknown:
        raise ValueError(f"has a parameter {min(unknown)!r} that the model does not know")
    axes: dict[str, tuple[int, ...]] = {
        "loadings": (2,),
        "strengths": (1,),
        "intercepts": (1,),
        "offsets": (1,),
    }
    axes |= {"noise_scales": (0, 1), "latent_means": (0, 2), "prediction": (2,)}
    axes |= {"row_weights": (2,), "column_weights": (2,)}
    for name in Parameters._fields:
        if name not in found:
            needed = not optional and name not in Parameters._field_defaults
            if needed or name == "loadings":
                raise KeyError(name)
        elif found[name].ndim not in axes.get(name, (0,)):
            raise ValueError(f"{name} has the shape {found[name].shape}")
    d, k = found["loadings"].shape
    for name, size in (("strengths", k), ("intercepts", d), ("prediction", d)):
        if name in found and found[name].shape[-1] != size:
            raise ValueError(f"{name} has {found[name].shape[-1]} numbers, but {size} are needed")
    each = {name: jnp.asarray(value, float) for name, value in found.items()}
    return Parameters(**{name: each.get(name) for name in Parameters._fields})  # type: ignore[arg-type]


def _rows_taken(prior: Any, rows: np.ndarray) -> Any:
    """A fit or parameters of the same rows in another order."""

    def taken(one: Parameters) -> Parameters:
        moved = {"loadings": one.loadings[rows]}
        if one.intercepts is not None:
            moved["intercepts"] = one.intercepts[rows]
        if one.prediction is not None:
            moved["prediction"] = one.prediction[:, rows]
        return one._replace(**moved)

    if isinstance(prior, Parameters):
        return taken(prior)
    q = Variational(*map(taken, _q_of(prior)))
    fit = prior.fit
    if isinstance(fit, Standardised):
        return prior._replace(fit=fit._replace(inner=fit.inner._replace(q=q)))
    return prior._replace(fit=fit._replace(q=q))


def _q_of(prior: EarlierFit) -> Variational:
    fit = prior.fit.inner if isinstance(prior.fit, Standardised) else prior.fit
    if not isinstance(fit, Fit):
        raise ValueError(
            f"prior: an earlier fit is the state of a variational belief, got {type(fit).__name__};"
            " hand over its data as a History"
        )
    return fit.q


def _named(kind: str, fields: Any) -> dict[str, Any]:
    given = fields._asdict().items()
    return {f"{kind}/{name}": value for name, value in given if value is not None}


def _observations(arrays: dict[str, np.ndarray]) -> Observations:
    """The fields by name, checked: ValueError where arrays are missing or impossible."""
    names = [name for name in Observations._fields if name not in Observations._field_defaults]
    if arrays.keys() != set(names):
        raise ValueError(f"the arrays of observations are {', '.join(names)}")
    given = [jnp.asarray(arrays[name], jnp.result_type(float)) for name in names]
    counts, sums, scatter = given
    if counts.ndim != 2 or any(x.shape != counts.shape for x in given):
        raise ValueError("the arrays of observations must be matrices of one size")
    negative, unseen = (counts < 0) | (scatter < 0), (counts == 0) & (jnp.abs(sums) > 0)
    if (negative | unseen).any():
        raise ValueError("counts and scatter must not be negative, nor a sum be of nothing")
    return Observations(counts, sums, scatter)


def _part(arrays: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    found = {n.partition("/")[2]: v for n, v in arrays.items() if n.startswith(f"{kind}/")}
    if not found:
        raise KeyError(f"{kind}/...")
    return found


def _checked_ids(names: list[str], rows: int) -> tuple[str, ...]:
    if len(names) != rows:
        raise ValueError(f"row_ids has {len(names)} ids, but there are {rows} rows")
    if len(set(names)) < len(names):
        raise ValueError("row_ids has an id twice")
    return tuple(names)
