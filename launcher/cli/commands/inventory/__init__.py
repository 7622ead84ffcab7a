"""The commands below `inventory`: import, discover, check, export."""
