"""The files that a run leaves in its working directory, and the checkpoints that it resumes."""

import contextlib
import csv
import hashlib
import io
import json
import os
import platform
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
from ml_collections import ConfigDict

import smc_jax
from launch import data
from launch.settings import ConfigError, policy_names
from smc_jax.data.ratings import Ratings
from smc_jax.policies.registry import POLICIES
from smc_jax.simulation.regret import Curves
from smc_jax.simulation.sweep import Progress

TIMES = ("seconds", "compile_seconds")
PACKAGES = ("jax", "jaxlib", "numpyro", "optax", "numpy")
REPORTED = ("policies", "reference")  # fields that change what is reported, not the experiment


def write(path: Path, save: Callable[[BinaryIO], Any]) -> None:
    """Writes a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        save(file)
    os.replace(partial, path)


def write_text(path: Path, text: str) -> None:
    """Writes a text, whole or not at all."""
    write(path, lambda file: file.write(text.encode()))


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def record(config: ConfigDict) -> dict[str, Any]:
    """The config as JSON holds it."""
    return json.loads(config.to_json_best_effort())


def open_workdir(workdir: Path, config: ConfigDict, defaults: ConfigDict) -> None:
    """Makes the directory and records the config; refuses one that holds another experiment.

    Experiments that differ in their policies alone are the same: a run may add policies. A field
    that a run did not know of has its default there.
    """
    here, path = record(config), workdir / "config.json"
    try:
        left = [*workdir.glob("curves.npz"), *workdir.glob("*.checkpoint.npz")]
        if left and not path.exists():
            raise ConfigError(
                f"workdir: {workdir} holds {left[0].name} but no config.json to tell of what;"
                " choose an empty directory"
            )
        held_names: tuple[str, ...] = ()
        if path.exists():
            held = json.loads(path.read_text())["config"]
            held_names = policy_names(ConfigDict(held))
            if difference := _difference(_leaves(record(defaults)) | _leaves(held), _leaves(here)):
                raise ConfigError(
                    f"workdir: {workdir} holds another experiment: {difference};"
                    " choose an empty directory"
                )
        names = tuple(dict.fromkeys((*held_names, *policy_names(config))))
        if config.reference is not None and config.reference not in names:
            raise ConfigError(
                f"config.reference: must be one of the policies that are run, {', '.join(names)},"
                f" got {config.reference!r}"
            )
        if held_names:
            here["policies"] = ",".join(names)
        workdir.mkdir(parents=True, exist_ok=True)
        versions = {name: metadata.version(name) for name in PACKAGES}
        versions |= {"smc_jax": smc_jax.__version__, "python": platform.python_version()}
        machine = {"device": str(jax.devices()[0]), "devices": len(jax.devices())}
        write_json(path, {"config": here, "versions": versions, **machine})
    except ConfigError:
        raise
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"workdir: cannot use {workdir}: {error}") from error


def _leaves(config: dict[str, Any], path: str = "config") -> dict[str, Any]:
    """The values of a config by their full names."""
    leaves: dict[str, Any] = {}
    for field, value in config.items():
        name = f"{path}.{field}"
        leaves |= _leaves(value, name) if isinstance(value, dict) else {name: value}
    return leaves


def _difference(held: dict[str, Any], here: dict[str, Any]) -> str | None:
    """The first field that two experiments differ in, with both values.

    A table that has changed can have other rows and columns: its checksum comes before these.
    """
    first = ("config.path", "config.checksum")
    reported = {f"config.{field}" for field in REPORTED}
    for name in (*first, *sorted((held.keys() | here.keys()) - {*reported, *first})):
        there, now = held.get(name), here.get(name)
        if there != now and name == "config.checksum":
            return "config.checksum is another, the table has changed since"
        if there != now:
            return f"{name} is {json.dumps(there)} there, {json.dumps(now)} here"
    return None


@contextlib.contextmanager
def _arrays(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of a file, which NumPy alone would leave open where it is damaged."""
    with path.open("rb") as stream, np.load(stream) as file:
        yield file


def _field(file: Mapping[str, np.ndarray], name: str, field: str) -> np.ndarray:
    """A field of a policy's curves; before answers were recorded, every pick was answered."""
    if field == "answered" and f"{name}/{field}" not in file:
        return file[f"{name}/rows"] >= 0
    return file[f"{name}/{field}"]


def load_curves(workdir: Path) -> dict[str, Curves]:
    """The curves of the policies that are finished."""
    path = workdir / "curves.npz"
    if not path.exists():
        return {}
    try:
        with _arrays(path) as file:
            names = dict.fromkeys(key.split("/")[0] for key in file)
            return {
                name: Curves(**{field: _field(file, name, field) for field in Curves._fields})
                for name in names
            }
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}") from error


def save_curves(workdir: Path, curves: dict[str, Curves]) -> None:
    """All finished policies in one file, `POLICY/FIELD` each."""
    arrays: dict[str, Any] = {
        f"{name}/{field}": value
        for name, one in curves.items()
        for field, value in one._asdict().items()
    }
    write(workdir / "curves.npz", lambda file: np.savez_compressed(file, **arrays))


def load_times(workdir: Path) -> dict[str, dict[str, float | None]]:
    """The seconds that each policy of an earlier run took, None where they are not known."""
    path = workdir / "summary.json"
    try:
        held = json.loads(path.read_text())["policies"] if path.exists() else {}
        return {name: {time: one.get(time) for time in TIMES} for name, one in held.items()}
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}") from error


def save_ids(workdir: Path, ratings: Ratings) -> None:
    """The table's id behind each row's and each column's number in the results."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["axis", "number", "id"])
    for axis, ids in (("row", ratings.row_ids), ("column", ratings.column_ids)):
        writer.writerows((axis, number, identity) for number, identity in enumerate(ids))
    write_text(workdir / "ids.csv", text.getvalue())


def fingerprint(config: ConfigDict, name: str) -> str:
    """A digest of all that decides what a policy does: another one is another experiment.

    The config is one that `validation.resolve` returned.
    """
    fields = {field: value for field, value in record(config).items() if field not in REPORTED}
    parts = {
        "config": fields,
        "data": data.checksum(config),
        "version": smc_jax.__version__,
        "policy": name,
        "source": None if name in POLICIES else _source(name),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _source(name: str) -> str | None:
    """The source of the module that a policy from outside comes from, as far as there is one."""
    path = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
    try:
        return None if path is None else Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def checkpoint_path(workdir: Path, name: str) -> Path:
    """Where an unfinished policy waits."""
    return workdir / f"{name.replace(':', '.')}.checkpoint.npz"


def save_checkpoint(
    path: Path, progress: Progress, times: dict[str, float], fingerprint: str
) -> None:
    """An unfinished sweep, the time that it took so far, and what it is a part of.

    Typed keys are stored as their data; seeds that only pad are left out.
    """
    leaves = [
        np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)[: len(progress.seeds)]
        for leaf in jax.tree.leaves(progress)
    ]
    whole: dict[str, Any] = {**times, "fingerprint": fingerprint}
    write(path, lambda file: np.savez(file, *leaves, **whole))


def check_checkpoint(path: Path, fingerprint: str) -> None:
    """Refuses a checkpoint of another experiment."""
    try:
        with _arrays(path) as file:
            fits = "fingerprint" in file and str(file["fingerprint"]) == fingerprint
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _unusable(path, error) from error
    if not fits:
        raise ConfigError(
            f"workdir: {path} is a checkpoint of another experiment, or of another version;"
            " delete the file, and the policy starts anew"
        )


def load_checkpoint(
    path: Path, like: Progress, fingerprint: str
) -> tuple[Progress, dict[str, float]]:
    """An unfinished sweep, padded and placed on the devices as `like` is, and its time so far."""
    check_checkpoint(path, fingerprint)
    old, structure = jax.tree.flatten(like)
    try:
        with _arrays(path) as file:
            stored = [file[f"arr_{index}"] for index in range(len(old))]
            times = {name: float(file[name]) for name in TIMES}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise _unusable(path, error) from error

    def restore(value: np.ndarray, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return value
        padding = np.repeat(value[-1:], len(leaf) - len(value), axis=0)
        array = jax.numpy.asarray(np.concatenate([value, padding]))
        return jax.device_put(
            jax.random.wrap_key_data(array) if _is_key(leaf) else array, leaf.sharding
        )

    return jax.tree.unflatten(structure, map(restore, stored, old)), times


def _unusable(path: Path, error: Exception) -> ConfigError:
    told = f"workdir: cannot resume from {path}: {error}; delete the file"
    return ConfigError(f"{told}, and the policy starts anew")


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
