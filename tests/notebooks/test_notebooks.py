"""The notebooks run from top to bottom, draw what they promise, and are notebooks."""

import os
import pathlib
import subprocess
import sys

import jax
import jupytext
import matplotlib.image
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
TOUR = {"elbo", "matrices", "effective_rank", "information_ratio", "regret", "arrivals"}
PICTURES = {"tour": TOUR, "own_table": {"weeks", "intervals"}}
UNREAD = "Error reading persistent compilation cache entry"  # another process was writing it


def test_every_notebook_says_what_it_draws():
    assert {path.stem for path in NOTEBOOKS} == PICTURES.keys()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_draws(path, tmp_path):
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "SMC_FIGURES": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
    }
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", f"ignore:{UNREAD}:UserWarning", str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert {picture.stem for picture in tmp_path.iterdir()} == PICTURES[path.stem]
    for picture in tmp_path.glob("*.png"):
        pixels = matplotlib.image.imread(picture)[..., :3]
        assert min(pixels.shape[:2]) > 200, picture.name
        # Bare axes with their labels cover about 3 % of the page, in shades of grey.
        drawn = np.ptp(pixels, axis=2) > 0.1
        assert drawn.mean() > 0.002, f"{picture.name} is blank"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_jupytext_reads_it_as_a_notebook(path):
    notebook = jupytext.read(path)
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == "markdown"
    assert kinds.count("markdown") >= 5
    assert kinds.count("code") >= 5
    assert set(kinds) == {"markdown", "code"}
    assert notebook.metadata["jupytext"]["text_representation"]["format_name"] == "percent"
    assert all(cell.source.strip() for cell in notebook.cells)
