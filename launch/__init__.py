"""Command-line entry points.

Importing this package, which every entry point does before anything else, sets up the machine;
what the environment already says is left alone.
"""

import logging
import os
from pathlib import Path

# OpenBLAS threads fight XLA's for the same cores. Must be set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Seeds, or the columns of one matrix, are shared out over devices: one CPU device a core.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(_CORES or 1))
# An experiment takes seconds to compile and is launched again and again.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "smc_jax" / "xla"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
# Which accelerators are missing is no news to anyone.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)
