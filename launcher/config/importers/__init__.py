"""Inventories of other programs, as ours: one module a format, text to `Roster`, and one writer."""
