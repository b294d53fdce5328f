"""The tests that there are, and their order: those of every process at every time.

Processes that share the tests out among them have to agree on both.
"""

import os
import subprocess
import sys
import time


def collected(root, hash_seed):
    """The ids of all tests, as another process finds them."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        env=environment | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_names_and_order_depend_on_neither_the_clock_nor_the_hash_seed(pytestconfig):
    root = pytestconfig.rootpath
    first = collected(root, hash_seed=1)
    time.sleep(2.0)  # time stamps are of whole seconds
    second = collected(root, hash_seed=2)
    assert sorted(set(first) ^ set(second)) == []
    assert first == second
    files = {path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")}
    assert {name.split("::")[0] for name in first} == files
    assert len(first) > 10 * len(files)
