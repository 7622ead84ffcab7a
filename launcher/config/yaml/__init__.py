"""YAML text to nodes with positions, bounded in size and depth, without duplicate keys.

Nothing here knows a key of a task or an inventory: those are in the tables of `task/` and `inventory/`.
"""
