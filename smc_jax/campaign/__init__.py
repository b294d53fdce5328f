"""Campaigns: ask and tell on a table that nobody knows yet, by ids, in one file."""
