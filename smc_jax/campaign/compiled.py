"""Compiled programs, kept from one command to the next.

JAX writes an entry of its cache in place, and a process that reads an entry which another has
written by half aborts. Here every process has a folder of its own, with links to what is there
already; what it adds is moved to the others' only when it is whole.
"""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

import jax

KEPT = "kept"


def _folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "smc_jax" / "campaign"


@contextlib.contextmanager
def keep_compiled_programs() -> Iterator[None]:
    """Within it, programs are compiled once for all processes.

    An environment that names a cache of its own is left alone, and a cache that cannot be written
    costs compilations and nothing else.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        yield
        return
    own = _folder() / f"{os.getpid()}"
    try:
        _begin(own)
    except OSError:
        yield
        return
    before = {path.name for path in own.iterdir()}
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    # Else the name of the folder is a part of the name of every entry.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            _end(own, before)


def _begin(own: pathlib.Path) -> None:
    """A folder with links to all entries; what dead processes have left is thrown away."""
    kept = _folder() / KEPT
    kept.mkdir(parents=True, exist_ok=True)
    for left in _folder().iterdir():
        if left.name.isdigit() and not _lives(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    for entry in kept.iterdir():
        with contextlib.suppress(FileNotFoundError):
            os.link(entry, own / entry.name)


def _end(own: pathlib.Path, before: set[str]) -> None:
    """Moves whole new entries to those that are kept."""
    for entry in own.iterdir():
        if entry.name not in before:
            os.replace(entry, _folder() / KEPT / entry.name)
    shutil.rmtree(own, ignore_errors=True)


def _lives(process: int) -> bool:
    """Whether a process of that number is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
