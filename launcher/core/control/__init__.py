"""What to do next about one run: `reconcile` and its stages. Knows the model only."""
