"""Set before anything imports numpy or jax: threads, devices, and the compilation cache."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Tests compile far more than they run. With XLA's newer emitters of fused loops a program takes
# half as long again to compile. Flags that were given come last, and count.
os.environ["XLA_FLAGS"] = " ".join(
    [
        "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false",
        os.environ.get("XLA_FLAGS", ""),
    ]
)
# Small programs too are compiled once for all files: each file drops what it has compiled.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import pathlib

import jax
import pytest

# A cache for each worker: JAX writes entries in place, and a process that reads an entry which
# another is still writing aborts.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
CACHE = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "jax" / WORKER

# The files that take longest go first, so that no worker is left alone with one at the end.
LONGEST = (
    "notebooks/test_notebooks.py",
    "launch/test_steps.py",
    "launch/test_figures.py",
    "launch/test_recorded_experiments.py",
    "launch/test_launch.py",
    "policies/test_conformance.py",
    "beliefs/test_signed_gibbs.py",
    "simulation/test_loop.py",
    "simulation/test_held_out.py",
    "launch/test_growth.py",
    "beliefs/test_hamiltonian.py",
    "policies/test_equalised.py",
)

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", str(CACHE))


def pytest_collection_modifyitems(items):
    """Puts the longest files first; files stay whole, and their tests in order."""
    tests = pathlib.Path(__file__).resolve().parent
    place = {tests / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


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
