"""Inventory files: racks, nodes, access, and the built-in local racks."""
