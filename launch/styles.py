"""How the line of each policy looks, in every picture.

Colour tells the family: a rule on what it learns, or what an oracle is told. The shape of a marker
tells the rule, its filling what the rule is used with. No two policies have the same marker and
filling, so that lines are told apart in grey too.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from smc_jax.policies.registry import ORACLES, base_of

# Okabe & Ito, safe for colour-blind readers, and some more.
COLOURS = {
    "ids": "#0072B2",
    "thompson": "#E69F00",
    "oracle": "#000000",
    "mean_oracle": "#7722FF",
    "empirical": "#CC79A7",
    "optspace": "#D55E00",
    "particle": "#56B4E9",
    "icf": "#8C510A",
    "greedy": "#009E73",
    "ucb": "#882255",
    "random": "#BBBBBB",
}
MARKERS = {
    "ids": "o",
    "thompson": "s",
    "greedy": "^",
    "ucb": "<",
    "empirical": "D",
    "optspace": "v",
    "particle": "P",
    "icf": "X",
    "random": "",
}
# The paper's settings of a rule: the colour of the rule, and a marker of its own.
PAPER = {"ids_paper": "*", "thompson_paper": "x"}
# The same policy without the history that others are told of.
UNTOLD = {"ids_without_history": ("ids", "8")}
UNTOLD_DASHES: Any = (0, (2, 2))
# Other beliefs than the fitted model: which part of the marker is filled, and dashes.
BELIEFS: dict[str, tuple[str, Any]] = {
    "gibbs": ("left", "-."),
    "particles": ("right", (0, (5, 1))),
    "pairwise": ("top", (0, (1, 1))),
}
# What is filled of an oracle's marker. Within a family of oracles, each rule has its own dashes.
ORACLE_FILLS = {"oracle": "none", "mean_oracle": "bottom"}
ORACLE_DASHES = {"ids": "-", "thompson": "--", "greedy": ":"}
PAPER_DASHES: Any = (0, (6, 1, 1, 1))
# Policies from outside, and those that ignore silence, in the order in which they are drawn.
OUTSIDE = ("#6A3D9A", "#E31A1C", "#66C200", "#00CED1", "#FFB3A7", "#B4A7FF", "#4B5320", "#1F1FA8")
OUTSIDE_MARKERS = ("p", ">", "d", "h", "+")
OUTSIDE_DASHES = ("-", "--", ":", "-.")


class Style(NamedTuple):
    """How the line of a policy looks."""

    colour: str
    dashes: Any
    marker: str
    filling: str = "full"

    def line(self) -> dict[str, Any]:
        """The arguments of Matplotlib's `plot`."""
        hollow = self.filling == "none"
        flat = self.marker in ("x", "+")  # without a face
        edge = "white" if self.filling == "full" and not flat else self.colour
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "lw": 1.5,
            "marker": self.marker or None,
            "ms": 9 if self.marker == "*" else 6,
            "fillstyle": "full" if hollow else self.filling,
            "markerfacecolor": "white" if hollow else self.colour,  # no line shows through
            "markerfacecoloralt": "white",
            "markeredgecolor": edge,
            "mew": 0.5 if edge == "white" else 1.2,
        }


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """The style of each policy."""
    found: dict[str, Style] = {}
    outside = 0
    for name in names:
        rule, _, suffix = name.rpartition("_")
        if name in MARKERS:
            found[name] = Style(COLOURS[name], "-", MARKERS[name])
        elif name in PAPER:
            found[name] = Style(COLOURS[rule], PAPER_DASHES, PAPER[name])
        elif name in UNTOLD:
            base, marker = UNTOLD[name]
            found[name] = Style(COLOURS[base], UNTOLD_DASHES, marker, "none")
        elif name in ORACLES:
            told, by = (name, "thompson") if name in ORACLE_FILLS else (rule, suffix)
            found[name] = Style(COLOURS[told], ORACLE_DASHES[by], MARKERS[by], ORACLE_FILLS[told])
        elif rule in MARKERS and suffix in BELIEFS:
            filling, dashes = BELIEFS[suffix]
            found[name] = Style(COLOURS[rule], dashes, MARKERS[rule], filling)
        else:
            # Where the markers are used up, dashes differ.
            again, place = divmod(outside, len(OUTSIDE_MARKERS))
            dashes = OUTSIDE_DASHES[again % len(OUTSIDE_DASHES)]
            colour, base = OUTSIDE[outside % len(OUTSIDE)], base_of(name)
            if base != name:  # a policy that ignores silence is of the family of the one that heeds
                colour = styles_of([base])[base].colour
            found[name] = Style(colour, dashes, OUTSIDE_MARKERS[place])
            outside += 1
    return found
