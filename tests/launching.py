"""Tiny experiments for the tests of the launcher, and their files."""

import json
import os
import pathlib
import subprocess
import sys

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


def begin(*arguments, cwd, module="launch.run", first=""):
    """The command in a process of its own, with the devices and the cache of this one."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_NUM_CPU_DEVICES": str(jax.device_count()),
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
    }
    line = [sys.executable, "-c", first + LAUNCH, module, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, cwd=cwd, env=environment, text=True, **pipes)


class InterruptedBar(runner.tqdm):
    def update(self, n=1):
        super().update(n)
        if self.n == 2:
            raise KeyboardInterrupt
