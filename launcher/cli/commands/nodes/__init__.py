"""Commands about nodes and racks: check, drain, repair."""
