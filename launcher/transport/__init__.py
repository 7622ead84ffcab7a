"""Shells over local processes and SSH, and the `Nodes` port over either."""
