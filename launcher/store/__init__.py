"""What the launching machine stores, in SQLite: runs, claims, journals, nodes."""
