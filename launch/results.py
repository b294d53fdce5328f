"""The files that a run leaves in its working directory, and the table made of them."""

import csv
import io
import json
import os
import platform
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
from ml_collections import ConfigDict
from scipy import stats

import smc_jax
from launch.settings import ConfigError, policy_names
from smc_jax.data.ratings import Ratings
from smc_jax.sweep import Curves, Progress

FRACTIONS = (10, 25, 50, 100)  # percent of the horizon
REFERENCES = (
    "oracle",
    "mean_oracle",
    "ids",
    "thompson",
)  # whom the others are compared with, pair by pair
BASES = ("oracle", "mean_oracle", "ids")  # whose regret the others' is divided by
TIMES = ("seconds", "compile_seconds")
PACKAGES = ("jax", "jaxlib", "numpyro", "optax", "numpy")


def write(path: Path, save: Callable[[BinaryIO], Any]) -> None:
    """Writes a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        save(file)
    os.replace(partial, path)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, whole or not at all."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write(path, lambda file: file.write(text.encode()))


def open_workdir(workdir: Path, config: ConfigDict, defaults: ConfigDict) -> None:
    """Makes the directory and records the config; refuses one that holds another experiment.

    Experiments that differ in their policies alone are the same: a run may add policies. A field
    that a run did not know of has its default there.
    """
    record = json.loads(config.to_json_best_effort())
    path = workdir / "config.json"
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        left = [*workdir.glob("curves.npz"), *workdir.glob("*.checkpoint.npz")]
        if left and not path.exists():
            raise ConfigError(
                f"workdir: {workdir} holds {left[0].name} but no config.json to tell of what;"
                " choose an empty directory"
            )
        if path.exists():
            held = json.loads(path.read_text())["config"]
            known = _leaves(json.loads(defaults.to_json_best_effort())) | _leaves(held)
            if difference := _difference(known, _leaves(record)):
                raise ConfigError(
                    f"workdir: {workdir} holds another experiment: {difference};"
                    " choose an empty directory"
                )
            record["policies"] = ",".join(
                dict.fromkeys((*policy_names(ConfigDict(held)), *policy_names(config)))
            )
        versions = {name: metadata.version(name) for name in PACKAGES}
        versions |= {"smc_jax": smc_jax.__version__, "python": platform.python_version()}
        machine = {"device": str(jax.devices()[0]), "devices": len(jax.devices())}
        write_json(path, {"config": record, "versions": versions, **machine})
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


def _difference(held: dict[str, Any], record: dict[str, Any]) -> str | None:
    """The first field that two experiments differ in, with both values.

    A table that has changed can have other rows and columns: its checksum comes before these.
    """
    first = ("config.path", "config.checksum")
    for name in (*first, *sorted((held.keys() | record.keys()) - {"config.policies", *first})):
        there, here = held.get(name), record.get(name)
        if there != here and name == "config.checksum":
            return "config.checksum is another, the table has changed since"
        if there != here:
            return f"{name} is {json.dumps(there)} there, {json.dumps(here)} here"
    return None


def load_curves(workdir: Path) -> dict[str, Curves]:
    """The curves of the policies that are finished."""
    path = workdir / "curves.npz"
    if not path.exists():
        return {}
    try:
        return _read_curves(path)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}") from error


def _read_curves(path: Path) -> dict[str, Curves]:
    with np.load(path) as file:
        names = dict.fromkeys(key.split("/")[0] for key in file)
        return {
            name: Curves(*(file[f"{name}/{field}"] for field in Curves._fields)) for name in names
        }


def save_curves(workdir: Path, curves: dict[str, Curves]) -> None:
    """All finished policies in one file, `POLICY/FIELD` each."""
    arrays: dict[str, Any] = {
        f"{name}/{field}": value
        for name, one in curves.items()
        for field, value in zip(Curves._fields, one, strict=True)
    }
    write(workdir / "curves.npz", lambda file: np.savez_compressed(file, **arrays))


def save_ids(workdir: Path, ratings: Ratings) -> None:
    """Which id of the table each row's and each column's number in the results stands for."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["axis", "number", "id"])
    for axis, ids in (("row", ratings.row_ids), ("column", ratings.column_ids)):
        writer.writerows((axis, number, identity) for number, identity in enumerate(ids))
    write(workdir / "ids.csv", lambda file: file.write(text.getvalue().encode()))


def at_fractions(curve: np.ndarray) -> dict[int, np.ndarray]:
    """Values [seeds] at 10, 25, 50 and 100 % of the horizon."""
    horizon = curve.shape[1]
    return {percent: curve[:, max(horizon * percent // 100, 1) - 1] for percent in FRACTIONS}


def number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if np.isnan(value) else float(value)


def standard_error(values: np.ndarray) -> float:
    """Of the mean; NaN for one seed."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def cell(values: np.ndarray, digits: int) -> str:
    """Mean ± standard error, 18 wide; for one seed the mean alone."""
    error = f"±{standard_error(values):<6.{digits}f}" if len(values) > 1 else 7 * " "
    return f"{np.mean(values):>10.{digits}f} {error}"


def paired_interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float, float]:
    """Mean of first - second over paired seeds, and its 95 % t interval."""
    difference = first - second
    mean, error = float(difference.mean()), standard_error(difference)
    width = error * float(stats.t.ppf(0.975, max(len(difference) - 1, 1)))
    return mean, mean - width, mean + width


def summarise(curves: dict[str, Curves], times: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Regret at fractions of the horizon with standard errors, and paired differences."""
    policies: dict[str, Any] = {}
    for name, one in curves.items():
        regret = at_fractions(one.regret)
        ranks = one.effective_rank[:, -1]
        policies[name] = {
            "regret": {str(p): float(values.mean()) for p, values in regret.items()},
            "sem": {str(p): number(standard_error(values)) for p, values in regret.items()},
            "seconds": times[name]["seconds"],
            "compile_seconds": times[name]["compile_seconds"],
            "effective_rank": number(ranks.mean()),
            "effective_ranks": [number(rank) for rank in ranks],
        }
        made = {
            other: (curves[other].rows >= 0).sum(1)
            for other in (name, *REFERENCES)
            if other in curves
        }
        if (made[name] < one.rows.shape[1]).any():
            policies[name]["picks"] = made[name].tolist()
        policies[name]["paired"] = {
            other: list(paired_interval(one.regret[:, -1], curves[other].regret[:, -1]))
            for other in REFERENCES
            if other in made
            and other != name
            and len(one.regret) > 1
            and (made[name] == made[other]).all()  # a run is no better for having ended earlier
        }
    for one in policies.values():
        one["ratio"] = {
            base: {
                p: one["regret"][p] / of if of else None
                for p, of in policies[base]["regret"].items()
            }
            for base in BASES
            if base in policies
        }
    return {"policies": policies}


def table(summary: dict[str, Any]) -> str:
    """The summary for the terminal."""
    policies = summary["policies"]
    head = f"{'policy':<12}" + "".join(f"{f'{p} %':>14}" for p in FRACTIONS)
    references = [name for name in BASES if name in policies]
    head += "".join(f"{'/ ' + name:>14}" for name in references)
    about = "cumulative regret at fractions of the horizon, mean ± standard error over the seeds"
    lines = [about, head + f"{'rank':>7}{'seconds':>9}{'compile':>9}"]
    for name, one in policies.items():
        line = f"{name:<12}"
        for percent in map(str, FRACTIONS):
            spread = one["sem"][percent]
            regret = one["regret"][percent]
            line += f"{regret:>14.1f}" if spread is None else f"{regret:>8.1f} ±{spread:<4.0f}"
        for reference in references:
            ratio = one["ratio"][reference]["100"]
            line += 14 * " " if ratio is None else f"{ratio:>14.2f}"
        rank = "" if one["effective_rank"] is None else f"{one['effective_rank']:.1f}"
        times = (one["seconds"], one["compile_seconds"])
        cells = ("" if seconds is None else f"{seconds:.1f}" for seconds in times)
        lines.append(line + f"{rank:>7}" + "".join(f"{cell:>9}" for cell in cells))
    for name, one in policies.items():
        if "picks" in one:
            lines.append(
                f"{name}: stopped early, after {np.mean(one['picks']):.1f} picks on average"
            )
    for number, reference in enumerate(REFERENCES):
        for name, one in policies.items():
            if reference in one["paired"] and name not in REFERENCES[:number]:
                mean, low, high = one["paired"][reference]
                lines.append(
                    f"{name} - {reference} at 100 %: {mean:+.1f}, 95 % interval"
                    f" [{low:+.1f}, {high:+.1f}]"
                )
    for base in references:
        if "ids" in policies and base != "ids":
            ratios = policies["ids"]["ratio"][base].values()
            text = ", ".join("none" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"ids / {base} at {', '.join(map(str, FRACTIONS))} %: {text}")
    return "\n".join(lines)


def save_checkpoint(path: Path, progress: Progress, times: dict[str, Any]) -> None:
    """An unfinished sweep and the time that it took so far.

    Typed keys are stored as their data, seeds that only pad are not.
    """
    leaves = [
        np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)[: len(progress.seeds)]
        for leaf in jax.tree.leaves(progress)
    ]
    write(path, lambda file: np.savez(file, *leaves, **times))


def load_checkpoint(path: Path, like: Progress) -> tuple[Progress, dict[str, float]]:
    """An unfinished sweep, padded and placed on the devices as `like` is, and its time so far."""
    old, structure = jax.tree.flatten(like)
    try:
        with np.load(path) as file:
            stored = [file[f"arr_{index}"] for index in range(len(old))]
            # Older checkpoints tell no times.
            times = {name: float(file[name]) if name in file else 0.0 for name in TIMES}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError(f"workdir: cannot resume from {path}, delete it: {error}") from error

    def restore(value: np.ndarray, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return value
        padding = np.repeat(value[-1:], len(leaf) - len(value), axis=0)
        array = jax.numpy.asarray(np.concatenate([value, padding]))
        return jax.device_put(
            jax.random.wrap_key_data(array) if _is_key(leaf) else array, leaf.sharding
        )

    return jax.tree.unflatten(structure, map(restore, stored, old)), times


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
