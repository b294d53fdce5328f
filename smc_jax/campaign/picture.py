"""A picture of the progress of a campaign."""

import io

from smc_jax.campaign.types import Progress


def progress_png(progress: Progress, *, value_name: str, maximise: bool) -> bytes:
    """The values in the order told, and the best so far as a step line, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    order = range(1, progress.value.size + 1)
    extreme = "highest" if maximise else "lowest"
    axes.step(order, progress.best, where="post", color="C0", label=f"{extreme} so far")
    for asked, face, label in ((True, "black", "asked for"), (False, "none", "not asked for")):
        chosen = [i for i, one in enumerate(progress.asked) if bool(one) == asked]
        if chosen:
            x, y = [order[i] for i in chosen], progress.value[chosen]
            axes.plot(x, y, "o", ms=4, mfc=face, mec="black", label=label)
    axes.set_xlabel("values, in the order in which they were told")
    axes.set_ylabel(value_name, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=150)
    return stream.getvalue()
