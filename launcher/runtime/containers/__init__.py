"""Containers on a node: one for each run and group, in which setups, ranks and commands run.

`engines.py` has the table of engines, each a module of its own; `keep.py` makes, starts and removes containers,
`images.py` finds the same image on all nodes, and `enter.py` starts programs inside and follows them.
"""
