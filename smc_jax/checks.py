"""Settings are checked where they are used: an error in one line that names the setting."""

import math
import numbers
from collections.abc import Collection
from typing import Any

import numpy as np

SMALLEST = float(np.finfo(np.float32).tiny)


def at_least(name: str, value: Any, least: float, *, optional: bool = False) -> None:
    """Refuses a number below the least one; with `optional`, None passes.

    Where the least is a whole number the value must be one too.
    """
    if optional and value is None:
        return
    if isinstance(least, int) and not isinstance(value, numbers.Integral):
        raise ValueError(f"{name}: must be a whole number, got {value!r}")
    if not (value >= least and math.isfinite(value)):
        bound = "must not be negative" if least == 0 else f"must be at least {least}"
        raise ValueError(f"{name}: {bound}, got {value!r}")


def positive(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuses a number that is not above zero and finite; with `optional`, None passes."""
    if optional and value is None:
        return
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}: must be positive, got {value!r}")


def can_be_cost(value: Any) -> np.ndarray:
    """Whether numbers are positive, and they and 1 / value have 32 bits."""
    return (np.asarray(value) >= SMALLEST) & (np.asarray(value) <= 1.0 / SMALLEST)


def one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """Refuses a word that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: unknown {value!r}; choose from {', '.join(choices)}")


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuses a number that does not lie strictly between two others."""
    if not low < value < high:
        raise ValueError(f"{name}: must lie between {low:g} and {high:g}, got {value!r}")
