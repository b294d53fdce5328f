"""Pictures of regret curves."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from launch.results import write
from smc_jax.sweep import Curves

# One colour a policy in every figure (Okabe & Ito, safe for colour-blind readers).
COLOURS = {
    "ids": "#0072B2",
    "thompson": "#E69F00",
    "oracle": "#000000",
    "greedy": "#009E73",
    "random": "#999999",
}


def regret_plot(path: Path, curves: dict[str, Curves], *, title: str) -> None:
    """Mean regret of each policy with a band of one standard error; the oracle is dashed."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    top = 0.0
    for name, one in curves.items():
        steps = np.arange(1, one.regret.shape[1] + 1)
        mean = one.regret.mean(0)
        style = "--" if name == "oracle" else "-"
        (line,) = axes.plot(steps, mean, style, label=name, color=COLOURS.get(name))
        if len(one.regret) > 1:
            error = one.regret.std(0, ddof=1) / np.sqrt(len(one.regret))
            axes.fill_between(
                steps, mean - error, mean + error, alpha=0.2, lw=0, color=line.get_color()
            )
        if name != "random":
            top = max(top, float(mean.max()))
    if top > 0.0:
        axes.set_ylim(0.0, 1.25 * top)
    axes.set(xlabel="picks", ylabel="cumulative regret", title=title)
    axes.set_xlim(0, None)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    write(path, lambda file: figure.savefig(file, format="png", dpi=150))
    plt.close(figure)
