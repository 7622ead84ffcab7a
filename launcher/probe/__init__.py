"""Facts about nodes: a command, and a pure parser of what it prints."""
