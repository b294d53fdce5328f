"""Compiled programs, kept from one command to the next.

JAX writes an entry of its cache in place, and a process that reads an entry which another has
written by half aborts. Here every process has a folder of its own, with links to what is there
already; what it adds is moved to the others' only when it is whole. Where there are too many
entries, those that were not read for the longest time are removed.
"""

import contextlib
import os
import pathlib
import shutil
import tempfile
import zlib
from collections.abc import Iterator

import jax

KEPT, OWN, LOCK = "kept", "process-", "lock"
ZLIB = b"\x78"  # how an entry begins that JAX has compressed with zlib
MOST, MOST_BYTES = 400, 300_000_000  # entries that are kept, and their size


def _folder() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "smc_jax" / "campaign"


@contextlib.contextmanager
def keep_compiled_programs() -> Iterator[None]:
    """Within it, programs are compiled once for all processes.

    An environment that names a cache of its own is left alone, and a cache that cannot be written
    costs compilations and nothing else. What ends with an error leaves nothing.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        yield
        return
    with contextlib.ExitStack() as stack:
        own = None
        with contextlib.suppress(OSError, RuntimeError):  # the latter where there is no home
            own = _begin(stack)
        if own is None:
            yield
            return
        before = {path.name for path in own.iterdir()}
        jax.config.update("jax_compilation_cache_dir", str(own))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        # Else the name of the folder is a part of the name of every entry.
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
        yield
        with contextlib.suppress(OSError):
            for entry in own.iterdir():
                if entry.name not in before and _is_whole(entry):
                    os.replace(entry, _folder() / KEPT / entry.name)
            _prune(_folder() / KEPT)


def _begin(stack: contextlib.ExitStack) -> pathlib.Path:
    """A locked folder with links to all entries, removed in the end; stale ones are removed now."""
    kept = _folder() / KEPT
    kept.mkdir(parents=True, exist_ok=True)
    for left in _folder().glob(f"{OWN}*"):
        with contextlib.suppress(OSError), (left / LOCK).open("r+b") as file:
            if _can_lock(file.fileno()):  # whoever had it is gone, or was on a system without locks
                shutil.rmtree(left, ignore_errors=True)
    own = pathlib.Path(tempfile.mkdtemp(prefix=OWN, dir=_folder()))
    stack.callback(shutil.rmtree, own, ignore_errors=True)
    _can_lock(stack.enter_context((own / LOCK).open("wb")).fileno())
    for entry in kept.iterdir():
        with contextlib.suppress(FileNotFoundError):
            os.link(entry, own / entry.name)
    return own


def _prune(kept: pathlib.Path) -> None:
    """Removes entries, so that neither their number nor their size grows for ever.

    Those go that were written, or read by any process, longest ago; where a file system does not
    note when a file is read, those that were written longest ago. A process that has a link to an
    entry goes on with it.
    """
    found = []
    for entry in kept.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removes entries too
            about = entry.stat()
            used = max(about.st_atime_ns, about.st_mtime_ns)
            found.append((used, about.st_size, entry))
    size = 0
    for number, (_, own, entry) in enumerate(sorted(found, reverse=True), 1):
        size += own
        if number > MOST or size > MOST_BYTES:
            entry.unlink(missing_ok=True)


def _can_lock(file: int) -> bool:
    """Takes the lock of an open file, if nobody has it; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_whole(entry: pathlib.Path) -> bool:
    """Whether an entry can be read back: a full disk leaves a part of one."""
    content = entry.read_bytes()
    if not content.startswith(ZLIB):
        return entry.name != LOCK and bool(content)
    with contextlib.suppress(zlib.error):
        zlib.decompress(content)
        return True
    return False
