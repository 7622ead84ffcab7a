"""Inventories that other programs keep, as ours: one module a kind, text to `Roster`, and one writer.

Nothing is guessed about racks: what a file does not say stays unknown, and everything odd is named with its line.
"""
