"""The user's files on their way to nodes, packed once and sent once."""
