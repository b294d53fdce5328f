"""Timings, each as a ratio to a named peer in the same run."""
