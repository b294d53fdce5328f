"""Matrices that are known to the simulator alone, the loop that plays them, and the regret."""
