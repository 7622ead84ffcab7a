"""Where a task goes, or why it fits nowhere and what would help. Knows the model only."""
