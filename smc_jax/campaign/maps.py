"""The maps of a report: one of the expected values, one of the uncertainty, and their captions."""

import numpy as np

from smc_jax.campaign import charts
from smc_jax.campaign.marks import KEYS, SILENT
from smc_jax.campaign.types import ReportData


def maps_html(data: ReportData) -> str:
    """The maps with their captions, or a sentence where there is nothing to draw."""
    view = charts.choose_view(data)
    if view is None:
        return "<p>There is nothing to draw yet: too few values have been told.</p>"
    modelled = np.isfinite(data.mean).any()
    maps = [("Expected value", data.mean, "mean-map", data.value_name, "viridis")]
    if not modelled:
        maps = [("Known values", data.known, "known-map", data.value_name, "viridis")]
    elif np.isfinite(data.sd[np.ix_(view.rows, view.columns)]).any():
        label = f"standard deviation, {data.value_name}"
        maps.append(("Uncertainty", data.sd, "sd-map", label, "cividis"))
    rows, columns = len(data.row_ids), len(data.column_ids)
    shown = f"{len(view.rows):,} of {rows:,} rows and {len(view.columns):,} of {columns:,} columns"
    failed = int(data.failed[np.ix_(view.rows, view.columns)].sum())
    marked = f"{len(view.marks):,} pending suggestions and {failed:,} failed measurements"
    silent = int(data.silent[np.ix_(view.rows, view.columns)].sum())
    if silent:
        marked = f"{marked.replace(' and', ',')} and {silent:,} asks without an answer"
    caption = _caption("expected" if modelled else "known", data.extreme, silent > 0)
    drawn = [
        f"<figure>\n<figcaption>{title}\n{caption}</figcaption>\n"
        + charts.heat_map(
            values,
            data,
            view,
            name=name,
            label=label,
            title=f"{title} of each entry",
            description=f"Colours of {shown}, the {data.extreme} mean first; {marked} are marked.",
            colours=colours,
        )
        + "\n</figure>"
        for title, values, name, label, colours in maps
    ]
    which = f"Shown are {shown}"
    if len(view.rows) < rows or len(view.columns) < columns:
        which += ", those with suggestions and those with the best means"
    single = " single" if len(drawn) == 1 else ""
    without = "" if modelled else "There is no model yet: only known values are drawn. "
    note = (
        f"{without}{which}. {'Brighter' if data.maximise else 'Darker'} expected values are better."
        " Colours end at the 1st and the 99th percentile of what is shown."
    )
    return f'<div class="charts{single}">\n{"".join(drawn)}\n</div>\n<p class="note">{note}</p>'


def _caption(kind: str, extreme: str, has_silent: bool) -> str:
    """How rows and columns are ordered, and what the marks mean."""
    key = ", ".join(
        f'<span class="short"><svg class="key" viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>'
        f"{meaning}</span>"
        for shape, meaning in (*KEYS, *([SILENT] if has_silent else []))
    )
    return (
        f'<span class="note">Rows are ordered by the mean of their {kind} values, the {extreme} at'
        f" the top; columns by theirs, the {extreme} on the left. Marks: {key}; an entry without a"
        " mark is unknown.</span>"
    )
