"""Beliefs: distributions over the parameters that are refitted as data come in."""
