"""The commands, files and settings that prepare a node. Pure."""
