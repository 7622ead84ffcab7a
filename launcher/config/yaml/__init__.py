"""YAML text to nodes with positions.

The text is bounded in size and depth, and has no duplicate keys. Nothing here knows a key of a task or an inventory:
those are in the tables of `task/` and `inventory/`.
"""
