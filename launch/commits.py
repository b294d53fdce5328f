"""The commit that results were made at, kept beside them by the name of each result."""

import functools
import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from launch import files
from launch.settings import ConfigError

FILE = "commits.json"
UNKNOWN, DIRTY = "unknown", "-dirty"
CODE = ("smc_jax", "launch", "configs")  # a file of these that git does not have counts as a change


@functools.cache
def current() -> str:
    """The commit of this code, with `-dirty` where files differ from it; `unknown` without git.

    It is found once: what is committed while a command runs is not what the command runs.
    """
    here = Path(__file__).resolve()
    known = _git("ls-files", "--error-unmatch", here.name)  # or the repository is another one's
    commit = _git("describe", "--always", "--abbrev=12", "--exclude=*")
    changed = _git("status", "--porcelain", "--", *(str(here.parents[1] / one) for one in CODE))
    if known is None or commit is None or changed is None:
        return UNKNOWN
    return f"{commit}{DIRTY}" if changed else commit


def _git(*words: str) -> str | None:
    """What git prints beside this file; None where it fails."""
    try:
        found = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def names_code(commit: str) -> bool:
    """Whether a commit says which code it was: many trees are dirty, or unknown."""
    return commit != UNKNOWN and not commit.endswith(DIRTY)


def load(folder: Path) -> dict[str, list[str]]:
    """The commits that each result in a folder was made at; none where nobody kept them."""
    path = folder / FILE
    try:
        held = json.loads(path.read_text()) if path.exists() else {}
        return {name: [str(commit) for commit in commits] for name, commits in held.items()}
    except (OSError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"workdir: cannot read {path}: {error}") from error


def note(folder: Path, name: str, *, resumed: bool = False) -> str:
    """Notes that a result is made now, and returns the commit of this code.

    Args:
      folder: where the result goes.
      name: a policy, or the name of a file.
      resumed: whether it was begun before, so that it has that commit too.
    """
    held, commit = load(folder), current()
    before = held.get(name, [UNKNOWN]) if resumed else []
    held[name] = list(dict.fromkeys([*before, commit]))
    files.write_json(folder / FILE, held)
    return commit


def kept(folder: Path, policies: Iterable[str], parts: Iterable[str]) -> dict[str, list[str]]:
    """The commits of what a command finds in a folder and does not make anew, by name.

    Args:
      folder: of a run.
      policies: the policies that are asked for; what is finished beside them is kept as well.
      parts: names of files that are kept.
    """
    noted = load(folder)
    begun = [name for name in policies if files.checkpoint_path(folder, name).exists()]
    names = [*files.load_curves(folder), *begun, *(p for p in parts if (folder / p).exists())]
    return {name: noted.get(name, [UNKNOWN]) for name in names}


def made_at(folder: Path, name: str) -> str:
    """The commit, or commits, that a result in a folder was made at."""
    return " and ".join(load(folder).get(name, [UNKNOWN]))


def stamp(commits: Iterable[str]) -> str:
    """One sentence about the commits of many results."""
    found = Counter(commits)
    if len(found) == 1:
        return f"Made at commit {next(iter(found))}."
    each = ", ".join(f"{commit} ({number})" for commit, number in found.items())
    return f"Made at several commits, each with its number of results: {each}."
