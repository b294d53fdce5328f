"""What `pip install` brings: the library alone."""

import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from launching import ROOT

import smc_jax


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The files of the wheel, built without a network from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "clone"
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in ("smc_jax", "launch", "configs", "benchmarks", "tests"):
        shutil.copytree(ROOT / package, copy / package, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    line = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    line += ["--quiet", "--disable-pip-version-check", f"--wheel-dir={folder}", str(copy)]
    built = subprocess.run(line, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.startswith(f"smc_jax-{smc_jax.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_library_alone(names):
    top = {name.split("/")[0] for name in names}
    assert top == {"smc_jax", f"smc_jax-{smc_jax.__version__}.dist-info"}


def test_the_wheel_holds_all_of_the_library(names):
    held = {path.relative_to(ROOT).as_posix() for path in (ROOT / "smc_jax").rglob("*.py")}
    assert held <= set(names)
    assert {"smc_jax/py.typed", "smc_jax/campaign/page.html", "smc_jax/campaign/page.css"} <= set(
        names
    )


def test_every_extra_but_cuda_is_in_the_lock_file():
    """`make` installs what the lock file names; drivers of an accelerator are the user's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = (ROOT / "requirements.lock").read_text().lower().replace("_", "-")
    wanted = list(project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        wanted += names if extra != "cuda" else []
    for requirement in wanted:
        name = requirement.split(">")[0].lower().replace("_", "-")
        assert f"{name}==" in locked, name
    assert "cuda" not in locked
