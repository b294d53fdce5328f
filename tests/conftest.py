"""Set before anything imports numpy or jax: threads, devices, and the compilation cache."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Tests compile far more than they run.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=1"

import pathlib

import jax
import pytest

# A cache for each worker: JAX writes entries in place, and a process that reads an entry which
# another is still writing aborts.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
CACHE = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "jax" / WORKER

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture(autouse=True, scope="module")
def fresh_programs():
    """Drops what a file has compiled: every program takes mappings of memory, which are limited."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64():
    """float64 within one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def computed(monkeypatch):
    """The names of the policies that the launcher runs from here on."""
    from launch import runner

    names, run_policy = [], runner.run_policy

    def record(config, name, *rest):
        names.append(name)
        return run_policy(config, name, *rest)

    monkeypatch.setattr(runner, "run_policy", record)
    return names
