"""Checks of nodes: those under way, their results, and when failed nodes came back."""
