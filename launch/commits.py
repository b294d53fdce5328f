"""The commit that results were made at, kept beside them policy by policy."""

import functools
import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from launch import files
from launch.settings import ConfigError

FILE = "commits.json"
UNKNOWN = "unknown"


@functools.cache
def current() -> str:
    """The commit of this code, with `-dirty` where files differ from it; `unknown` without git.

    It is found once: what is committed while a command runs is not what the command runs.
    """
    line = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(
            line, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return found.stdout.strip() if found.returncode == 0 else UNKNOWN


def load(folder: Path) -> dict[str, list[str]]:
    """The commits that each policy of a run was made at; none where nobody kept them."""
    path = folder / FILE
    try:
        held = json.loads(path.read_text()) if path.exists() else {}
        return {name: [str(commit) for commit in commits] for name, commits in held.items()}
    except (OSError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}") from error


def begin(folder: Path, waiting: Iterable[str], commit: str) -> None:
    """Notes that the policies that wait are run at a commit; one with a checkpoint was begun."""
    held = load(folder)
    for name in waiting:
        begun = files.checkpoint_path(folder, name).exists()
        before = held.get(name, [UNKNOWN]) if begun else []
        held[name] = list(dict.fromkeys([*before, commit]))
    if held:
        files.write_json(folder / FILE, held)


def made_at(folder: Path, name: str) -> str:
    """The commit, or commits, that a policy of a run was made at."""
    return " and ".join(load(folder).get(name, [UNKNOWN]))


def stamp(commits: Iterable[str]) -> str:
    """One sentence about the commits of many runs."""
    found = Counter(commits)
    if len(found) == 1:
        return f"Made at commit {next(iter(found))}."
    each = ", ".join(f"{commit} ({number})" for commit, number in found.items())
    return f"Made at several commits, each with its number of runs: {each}."
