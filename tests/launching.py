"""Tiny experiments for the tests of the launcher, and their files."""

import functools
import json
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
from multiprocessing import forkserver

import jax
import numpy as np
import pytest

from configs import synthetic
from launch import runner

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = f"--config={ROOT / 'configs' / 'synthetic.py'}"
HORIZON, REFITS, SEEDS = 24, 3, 2
SHAPE = {"rows": 8, "columns": 10, "rank": 3, "true_rank": 2, "seeds": SEEDS, "first_seed": 5}
STEPS = {"inference.method": "svi", "inference.first_steps": 50, "inference.steps": 50}
STEPS |= {"horizon": HORIZON, "refits": REFITS}
TINY = {"policies": "thompson,random"} | SHAPE | STEPS
FILES = {"config.json", "commits.json", "curves.npz", "summary.json", "regret.png"}


def tiny(changes=()):
    config = synthetic.get_config()
    config.update_from_flattened_dict(TINY | dict(changes))
    return config


def load(workdir):
    with np.load(workdir / "curves.npz") as file:
        return dict(file)


def assert_same_curves(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def strict_json(path):
    return json.loads(path.read_text(), parse_constant=pytest.fail)  # NaN is not JSON


# As `python -m`, but heeding Ctrl-C even if the tests were started in the background of a shell,
# which makes all their children ignore it.
LAUNCH = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

# Before that: the last refit but one of `thompson` is followed by ten minutes for Ctrl-C, so that a
# signal which a busy machine holds up still finds the run unfinished.
WAIT_FOR_CTRL_C = """
import time
from launch import runner

class Bar(runner.tqdm):
    def update(self, n=1):
        super().update(n)
        if self.desc.startswith("thompson") and self.n == self.total - 1:
            for _ in range(60_000):
                time.sleep(0.01)

runner.tqdm = Bar
"""


def environment():
    """Of a command, with the devices and the cache of this process."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_NUM_CPU_DEVICES": str(jax.device_count()),
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
    }


def begin(*arguments, cwd, module="launch.run", first=""):
    """The command in a process of its own, from its first import on."""
    line = [sys.executable, "-c", first + LAUNCH, module, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, cwd=cwd, env=environment(), text=True, **pipes)


# Imports are what most commands of the tests would spend their time on. A process that has made
# them, and has computed nothing, becomes a process for each command.
IMPORTED = multiprocessing.get_context("forkserver")
IMPORTED.set_forkserver_preload(["launch.usage", "launch.panels", "ml_collections.config_flags"])


@functools.cache
def _import():
    """Starts the process that imports, as a command would be started."""
    ours = os.environ.copy()
    os.environ.update(environment())
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(ours)


def _be(module, arguments, cwd, variables, streams):
    """Is the command, in a process that has made its imports."""
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    for descriptor, path in enumerate(streams, 1):
        with open(path, "wb") as stream:
            os.dup2(stream.fileno(), descriptor)
    tests = {str(ROOT), str(ROOT / "tests")}
    sys.path[:] = ["", str(ROOT), *(path for path in sys.path if path not in tests)]
    if "JAX_PLATFORMS" in variables:  # JAX has read it on import
        jax.config.update("jax_platforms", variables["JAX_PLATFORMS"])
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def finish(*arguments, cwd, module="launch.run"):
    """The command in a process of its own, which finds its imports made."""
    _import()
    with tempfile.TemporaryDirectory() as folder:
        streams = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        given = (module, arguments, cwd, environment(), streams)
        process = IMPORTED.Process(target=_be, args=given)
        process.start()
        process.join()
        texts = (pathlib.Path(path).read_text() for path in streams)
        return subprocess.CompletedProcess(arguments, process.exitcode, *texts)


class InterruptedBar(runner.tqdm):
    def update(self, n=1):
        super().update(n)
        if self.n == 2:
            raise KeyboardInterrupt
