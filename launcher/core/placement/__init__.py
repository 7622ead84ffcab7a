"""Placement: the nodes of a task on an inventory, or why it does not fit and what would help. Knows the model only."""
