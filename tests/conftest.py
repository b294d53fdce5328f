"""Set before anything imports numpy or jax: threads, devices, and the compilation cache."""

import ctypes
import gc
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Tests compile far more than they run: without optimisation all of them together, those that run
# thousands of chains too, take two thirds of the time. With XLA's newer emitters of fused loops a
# program takes half as long again to compile. Flags that were given come last, and count.
os.environ["XLA_FLAGS"] = " ".join(
    [
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
        os.environ.get("XLA_FLAGS", ""),
    ]
)
# Small programs too are compiled once for all files: each file drops what it has compiled.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import pathlib

import jax
import pytest

# Tracing makes many objects that live on; to look through them again and again takes its time.
gc.set_threshold(50_000, 10, 10)

# Every program takes mappings of memory, of which a process may have 65,530 by default. By the time
# that it has 5,000 it has taken some 2 GB of memory, most of it while it compiled.
MAPPINGS = pathlib.Path("/proc/self/maps")
MOST_MAPPINGS = 5_000
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc: gives back what is not used

# A cache for each worker: JAX writes entries in place, and a process that reads an entry which
# another is still writing aborts.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
CACHE = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "jax" / WORKER

# The files that take longest go first, so that no worker is left alone with one at the end.
LONGEST = (
    "policies/test_conformance.py",
    "simulation/test_loop.py",
    "notebooks/test_notebooks.py",
    "beliefs/test_signed_answers.py",
    "launch/test_launch.py",
    "beliefs/test_signed_gibbs.py",
    "policies/test_choices.py",
    "policies/test_value_slope.py",
    "beliefs/test_history.py",
    "launch/test_published_experiments.py",
    "launch/test_silence_launch.py",
    "beliefs/test_hamiltonian.py",
    "beliefs/test_priors.py",
    "policies/test_information.py",
    "launch/test_recorded_experiments.py",
    "campaign/test_described.py",
    "test_recommender.py",
    "launch/test_launch_features.py",
)

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", str(CACHE))


def pytest_collection_modifyitems(items):
    """Puts the longest files first; files stay whole, and their tests in order."""
    tests = pathlib.Path(__file__).resolve().parent
    place = {tests / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def mappings():
    """How many mappings of memory this process has; as if too many where nobody can tell."""
    try:
        return MAPPINGS.read_bytes().count(b"\n")
    except OSError:
        return MOST_MAPPINGS + 1


@pytest.fixture(autouse=True, scope="module")
def bounded_programs():
    """Drops what was traced and compiled, which files share, once it has grown too much."""
    yield
    if mappings() > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()
        if TRIM is not None:
            TRIM(0)


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
