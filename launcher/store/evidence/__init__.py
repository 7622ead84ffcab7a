"""What failures of programs say about nodes, over all runs."""
