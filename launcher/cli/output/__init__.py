"""All rendering: errors, tables, maps, progress."""
