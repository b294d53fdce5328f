"""Marks on the maps of a report: which entries are known, failed, or had no answer."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How each mark looks in the key of the maps, in a box of 12 x 12, and what it means.
KEYS = (
    ('<circle cx="6" cy="6" r="2.5" fill="currentColor"/>', "known entry"),
    (
        '<path d="M6 1 11 6 6 11 1 6z" fill="white" stroke="black" stroke-width="1.4"/>',
        "pending suggestion",
    ),
    (
        '<path d="M2 2 10 10M2 10 10 2" fill="none" stroke="currentColor" stroke-width="1.6"/>',
        "failed measurement",
    ),
)
SILENT = (
    '<path d="M1.5 6H10.5" fill="none" stroke="currentColor" stroke-width="1.6"/>',
    "asked without an answer",
)
_CROSS = np.array([[[-1.0, -1.0], [1.0, 1.0]], [[-1.0, 1.0], [1.0, -1.0]]])
_DASH = np.array([[[-1.0, 0.0], [1.0, 0.0]]])


class Cells:
    """The entries of a map, as they are drawn."""

    def __init__(self, axes: "Axes", painted: np.ndarray, size: tuple[float, float], bare: str):
        """What all marks share.

        Args:
            axes: of the map.
            painted: colours [rows, columns, RGBA] of the entries.
            size: width and height of an entry.
            bare: colour of marks on entries that have no colour.
        """
        self._axes, self._size = axes, size
        light = painted[..., :3] @ np.array([0.2126, 0.7152, 0.0722]) > 0.45
        coloured = painted[..., 3] > 0.0
        self._colours = {"black": coloured & light, "white": coloured & ~light, bare: ~coloured}

    def dots(self, known: np.ndarray) -> None:
        """A dot in the middle of each known entry."""
        width = float(np.clip(0.36 * min(self._size), 0.8, 4.0))
        # A line without a length and with round ends.
        self._strokes(known, np.zeros((1, 2, 2)), lw=width, capstyle="round", alpha=0.85)

    def crosses(self, failed: np.ndarray) -> None:
        """A cross on each entry whose measurement failed."""
        self._thin(failed, _CROSS)

    def dashes(self, silent: np.ndarray) -> None:
        """A dash on each entry that was asked without an answer."""
        self._thin(silent, _DASH)

    def _thin(self, where: np.ndarray, lines: np.ndarray) -> None:
        reach = float(np.clip(0.3 * min(self._size), 0.8, 3.0))
        width = float(np.clip(0.4 * reach, 0.6, 1.2))
        self._strokes(where, reach / np.array(self._size) * lines, lw=width, capstyle="butt")

    def _strokes(self, where: np.ndarray, lines: np.ndarray, **look: Any) -> None:
        """Lines [n, 2, 2] around the middle of each entry: black on light cells, white on dark."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        for colour, cells in self._colours.items():
            rows, columns = np.nonzero(where & cells)
            if rows.size:
                # One path for all entries is a tenth of the text that a marker each would be.
                middles = np.stack([columns, rows], -1).astype(float)[:, None, None]
                points = (middles + lines).reshape(-1, 2)
                path = Path(points, np.tile([Path.MOVETO, Path.LINETO], len(points) // 2))
                path.should_simplify = False
                self._axes.add_patch(PathPatch(path, fill=False, ec=colour, **look))
