"""Benchmarks as modules."""

import importlib

from absl import flags


def load(name):
    """A benchmark's module; its flags go, for other benchmarks have flags of the same names."""
    before = set(flags.FLAGS)
    module = importlib.import_module(f"benchmarks.{name}")
    for flag in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, flag)
    return module
