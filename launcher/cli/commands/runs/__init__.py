"""Commands about runs: start, look, follow, change, end."""
