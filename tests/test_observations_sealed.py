"""Nobody but one file knows how observations are stored: sources are read, and runs are traced."""

import ast
import inspect
import pathlib

import jax
import jax.numpy as jnp
import pytest

import smc_jax
from smc_jax import presets
from smc_jax.completion.stopping import held_out_errors
from smc_jax.data.synthetic import synthetic
from smc_jax.observations import Observations
from smc_jax.policies.registry import POLICIES
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop

PACKAGE = pathlib.Path(smc_jax.__file__).parent
OWN = ("observations.py", "looks.py", "tiles.py", "dealing.py")
SOURCES = sorted(
    str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.name not in OWN
)
STORED = set(Observations._fields)


def names_of_observations(function):
    """Arguments that are annotated as observations, and what is made of them by a method."""
    arguments = function.args
    names = {
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if argument.annotation is not None
        and {"Observations", "Seen"} & set(ast.unparse(argument.annotation).split(" | "))
    }
    makers = {name for name, one in vars(Observations).items() if returns_observations(one)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made_by = node.value.func
            if (
                isinstance(made_by, ast.Attribute)
                and made_by.attr in makers
                and ast.unparse(made_by.value) in {*names, "Observations"}
            ):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def returns_observations(one):
    one = one.__func__ if isinstance(one, classmethod) else one
    return inspect.isfunction(one) and one.__annotations__.get("return") == "Observations"


def positional_uses(function):
    """Places where a function unpacks, iterates over or indexes observations."""
    names = names_of_observations(function)
    for node in ast.walk(function):
        used = []
        if isinstance(node, ast.Starred | ast.Subscript):
            used = [node.value]
        elif isinstance(node, ast.Assign):
            takes_apart = any(isinstance(to, ast.Tuple | ast.List) for to in node.targets)
            used = [node.value] if takes_apart else []
        elif isinstance(node, ast.For | ast.comprehension):
            used = [node.iter]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            used = node.args if node.func.id in ("zip", "tuple", "list", "map", "iter") else []
        if any(isinstance(one, ast.Name) and one.id in names for one in used):
            yield f"{ast.unparse(node)} at line {getattr(node, 'lineno', function.lineno)}"


def fields_read(tree):
    """Places where a stored field is read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in STORED:
            yield f"{ast.unparse(node)} at line {node.lineno}"


def functions_in(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", SOURCES)
def test_only_one_file_knows_how_observations_are_stored(path):
    tree = ast.parse((PACKAGE / path).read_text())
    assert not list(fields_read(tree))
    assert not [use for function in functions_in(tree) for use in positional_uses(function)]


def test_the_scan_finds_what_it_looks_for():
    source = """
def all_of_it(data: Observations):
    counts, sums, scatter = data
    for part in data.relative_to(1.0):
        pass
    moved = data.relative_to(1.0)
    return Observations(*moved), data[0], tuple(data), [x for x in moved]
"""
    assert len(list(positional_uses(functions_in(ast.parse(source))[0]))) == 5
    fields = ast.parse(
        "data.counts + data.sums * (lambda x: x.scatter)(data) - data.misfit().squares"
    )
    assert len(list(fields_read(fields))) == 3


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_takes_observations_apart(name, monkeypatch):
    """A whole run is traced with observations that can neither be unpacked nor indexed."""

    def refuse(*arguments):
        raise AssertionError("observations were read by position")

    monkeypatch.setattr(Observations, "__iter__", refuse)
    monkeypatch.setattr(Observations, "__getitem__", refuse)
    environment = make_environment(synthetic(rows=4, columns=6, true_rank=2), initial=3)
    policy = presets.paper(rank=2).policy(name, horizon=6)
    errors = held_out_errors(fraction=0.2, noise_deviation=0.1)
    loop = make_loop(environment, policy, horizon=6, refits=2, held_out_errors=errors)
    carry, _ = jax.eval_shape(loop.start, jnp.uint32(0))
    jax.eval_shape(lambda carry: loop.advance(carry, 2), carry)


def test_observations_that_cannot_be_unpacked(monkeypatch):
    """What the test before counts on."""

    def refuse(*arguments):
        raise AssertionError("observations were read by position")

    monkeypatch.setattr(Observations, "__iter__", refuse)
    made = jax.tree.map(lambda x: 2 * x, Observations.empty(4, 6))
    with pytest.raises(AssertionError, match="by position"):
        _, _, _ = made
    with pytest.raises(AssertionError, match="by position"):
        print(*made)
