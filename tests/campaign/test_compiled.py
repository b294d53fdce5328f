"""Compiled programs that are kept from one command to the next."""

import os
import subprocess
import sys

import pytest

from smc_jax.campaign import compiled

pytestmark = pytest.mark.usefixtures("elsewhere")


COMPILED = """
import os, pathlib, sys
import jax, jax.numpy as jnp
from smc_jax.campaign import compiled
from smc_jax.campaign.compiled import keep_compiled_programs
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
folder = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "smc_jax" / "campaign"
stale = folder / "process-killed"
stale.mkdir(parents=True)
(stale / "lock").write_bytes(b"")  # left of a process that was killed
with keep_compiled_programs():
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    own = pathlib.Path(jax.config.jax_compilation_cache_dir)
    assert own.is_dir() and not stale.exists()
    jax.jit(lambda x: jnp.linalg.cholesky(x) + 1.0)(jnp.eye(3)).block_until_ready()
    made = {path.name for path in own.iterdir()} - {"lock"}
    assert made
    (own / "half").write_bytes(next(own.glob("*-cache")).read_bytes()[:-50])  # of a full disk
kept = {path.name for path in (folder / "kept").iterdir()}
assert kept == made and not own.exists()
with keep_compiled_programs():
    other = pathlib.Path(jax.config.jax_compilation_cache_dir)
    assert kept <= {path.name for path in other.iterdir()}
    with keep_compiled_programs():  # a process that lives is left alone
        assert other.is_dir()
assert not other.exists()
try:
    with keep_compiled_programs():
        own = pathlib.Path(jax.config.jax_compilation_cache_dir)
        (own / "more").write_bytes(b"more")
        raise KeyboardInterrupt
except KeyboardInterrupt:
    assert not own.exists()
assert {path.name for path in (folder / "kept").iterdir()} == kept
old = folder / "kept" / "old"
old.write_bytes(b"old")
os.utime(old, (1.0, 1.0))
compiled.MOST = len(kept)
with keep_compiled_programs():
    pass
assert not old.exists()
assert {path.name for path in (folder / "kept").iterdir()} == kept
os.environ["XDG_CACHE_HOME"] = sys.argv[1]  # a file: there can be no folder in it
with keep_compiled_programs():
    print("goes on without")
"""


def test_compiled_programs_are_kept(tmp_path):
    (tmp_path / "file").write_text("")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    del environment["JAX_COMPILATION_CACHE_DIR"]
    line = [sys.executable, "-c", COMPILED, str(tmp_path / "file")]
    found = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "goes on without\n"


@pytest.mark.parametrize(("most", "size"), [(2, 1000), (100, 25), (100, 29)])
def test_the_programs_that_were_not_used_for_longest_are_removed(tmp_path, monkeypatch, most, size):
    """Of five entries of ten bytes, two are left by their number or by their size.

    The oldest one was read of late, by whichever process: it stays.
    """
    monkeypatch.setattr(compiled, "MOST", most)
    monkeypatch.setattr(compiled, "MOST_BYTES", size)
    for age, name in enumerate("edcba"):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (0.0 if age else 500.0, 1000.0 - age))
    os.utime(tmp_path / "a", (2000.0, 996.0))
    compiled._prune(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "e"}
