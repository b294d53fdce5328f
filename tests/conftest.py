"""Set before anything imports numpy or jax: threads, devices, and the compilation cache."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pathlib

import jax
import pytest

CACHE = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "jax"

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture
def x64():
    """float64 within one test."""
    with jax.enable_x64(True):
        yield
