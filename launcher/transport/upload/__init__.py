"""The user's files on their way to nodes: what belongs to a folder, packed once, sent once."""
