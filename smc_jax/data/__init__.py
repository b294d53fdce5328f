"""Matrices to be discovered."""
