"""The house: who may import whom, how long things may be, and that public names are documented."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import smc_jax

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted(
    path for folder in ("smc_jax", "launch", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
# From the cellar up: a floor imports the floors below it, and its own rooms.
FLOORS = [
    ("checks", "algebra", "seen", "dealing", "layout"),
    ("types", "observations", "tiles", "looks", "growing"),
    ("model",),
    ("completion",),
    ("beliefs",),
    ("policies",),
    ("presets", "predictions", "priors"),
    ("recommender",),
    ("simulation", "data"),
    ("campaign",),
]


def imports(path):
    """The modules of the package that a file imports, whole names."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def floor_of(module):
    """The number of the floor that a module is on, None for what is not of the package."""
    parts = module.split(".")
    if parts[0] != "smc_jax" or len(parts) < 2:
        return None
    found = [number for number, rooms in enumerate(FLOORS) if parts[1] in rooms]
    return found[0] if found else None


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_dependencies_point_one_way(path):
    own = floor_of(name_of(path))
    below = [floor_of(module) for module in imports(path)]
    if own is not None:
        assert all(floor <= own for floor in below if floor is not None)
    if path.is_relative_to(ROOT / "smc_jax"):
        outside = {module.split(".")[0] for module in imports(path)}
        assert not outside & {"launch", "configs", "benchmarks", "ml_collections"}
        # Flags belong to commands: reading them where there are none raises.
        assert "absl" not in outside or path == ROOT / "smc_jax" / "campaign" / "command_line.py"


def test_every_file_is_on_a_floor():
    rooms = {room for floor in FLOORS for room in floor}
    files = (ROOT / "smc_jax").rglob("*.py")
    found = {path.relative_to(ROOT / "smc_jax").parts[0] for path in files}
    assert {name.removesuffix(".py") for name in found} - {"__init__"} == rooms


def test_the_truth_is_seen_by_the_simulator_and_its_data_alone():
    seeing = set()
    for path in SOURCES:
        # By its name, or by way of the module it is in.
        if {"smc_jax.simulation.problem.Problem", "smc_jax.simulation.environment.Problem"} & set(
            imports(path)
        ):
            seeing.add("/".join(path.relative_to(ROOT).parts[:2]))
    assert seeing == {"smc_jax/simulation", "smc_jax/data"}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_too_long_to_hold_in_the_head(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 80, node.name


def test_public_names_are_there_and_documented():
    assert sorted(smc_jax.__all__) == sorted(set(smc_jax.__all__))
    for name in smc_jax.__all__:
        found = getattr(smc_jax, name)
        if callable(found) or inspect.ismodule(found):
            assert inspect.getdoc(found), name
            # A NamedTuple without a docstring of its own has the list of its fields.
            assert not inspect.getdoc(found).startswith(f"{name}("), name


def test_importing_the_package_has_no_side_effects():
    """Nothing is computed, so that a notebook can still choose its devices."""
    code = (
        "import os, smc_jax, jax;"
        "from jax._src import xla_bridge;"
        "assert not xla_bridge.backends_are_initialized();"
        "assert 'launch' not in __import__('sys').modules;"
        "assert 'JAX_NUM_CPU_DEVICES' not in os.environ"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=ROOT)
