"""Sequential matrix completion: which entries to try next, so that the best are found early."""

__version__ = "0.1.0"
