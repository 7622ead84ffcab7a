"""Ways to machines: shells over local processes and SSH, and the `Nodes` port over either."""
